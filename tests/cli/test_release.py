"""`redisson-py release --force` frees a lock, and asks before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest
from redis.asyncio import Redis

from redisson_py import LeaseLostError, LockLike, Redisson
from redisson_py.locks.election import candidate_of
from tests.cli.holding import JAVA
from tests.cli.terminals import on_terminal, run
from tests.fixtures.client import ClientFactory
from tests.support.command_line import invoke
from tests.support.waiting import until_async, until_waiting

KINDS: dict[str, Callable[[Redisson], LockLike]] = {
    "lock": lambda client: client.get_lock("k"),
    "fair-lock": lambda client: client.get_fair_lock("k"),
    "fenced-lock": lambda client: client.get_fenced_lock("k"),
    "election": lambda client: candidate_of(client.get_election("k")),
    "once": lambda client: client.get_once("k"),
    "read lock": lambda client: client.get_read_write_lock("k").read_lock(),
    "write lock": lambda client: client.get_read_write_lock("k").write_lock(),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_lock_is_freed_and_its_waiter_gets_it(
    kind: str, server_url: str, clients: ClientFactory
) -> None:
    holder, waiter = clients(), clients()
    side = "write lock" if kind == "read lock" else kind
    lease = await KINDS[kind](holder).acquire()
    wait = asyncio.create_task(KINDS[side](waiter).acquire())
    await until_waiting(waiter, 1)
    if kind in ("fair-lock", "election"):
        fair = holder.get_fair_lock("k")
        await until_async(lambda: _has_waiters(fair))
    result = await run("release", "--force", "--yes", "k", "--url", server_url)
    assert result.exit_code == 0, result.output
    freed = {"election": "was deposed", "once": "the next one runs it"}
    assert freed.get(kind, "is free now") in result.stdout
    async with asyncio.timeout(30):
        await (await wait).release()
    with pytest.raises(LeaseLostError):
        await lease.extend(30)


async def test_who_runs_something_loses_it_beside_a_lock_of_its_name(
    server_url: str, clients: ClientFactory
) -> None:
    client = clients(on_lost="raise")
    lease, running = await client.get_lock("k").acquire(), await client.get_once("k").acquire()
    arguments = ("release", "--force", "--yes", "k", "--url", server_url)
    result = await run(*arguments, "--kind", "once")
    assert result.exit_code == 0, result.output
    with pytest.raises(LeaseLostError):
        await running.complete(b"late")
    assert not (await client.get_once("k").inspect()).done
    await lease.release()
    again = await run(*arguments, "--kind", "once")
    assert again.exit_code == 1


async def _has_waiters(fair: object) -> bool:
    return bool((await fair.inspect()).waiters)  # type: ignore[attr-defined]


async def test_it_says_as_json_what_it_freed(server_url: str, redis: Redis) -> None:
    await redis.hset("k", JAVA, "1")
    arguments = ("release", "--force", "--yes", "--json", "k", "--url", server_url)
    freed, again = await run(*arguments), await run(*arguments)
    assert (freed.exit_code, again.exit_code) == (0, 1)
    document = json.loads(freed.stdout)
    assert (document["freed"], document["why"]) == (True, None)
    assert document["was"]["holders"][0]["owner"] == JAVA
    assert json.loads(again.stdout) == {
        "name": "k",
        "freed": False,
        "was": None,
        "why": "nobody holds a lock of this name",
    }


def test_without_force_it_explains_and_connects_to_nothing() -> None:
    result = invoke("release", "k", "--url", "redis://127.0.0.1:1")
    assert result.exit_code == 2
    assert "refusing without --force: the holder may still be working" in result.stderr


def test_without_a_terminal_it_needs_yes() -> None:
    result = invoke("release", "--force", "k", "--url", "redis://127.0.0.1:1", answers="y\n")
    assert result.exit_code == 2
    assert "pass --yes" in result.stderr


@pytest.mark.parametrize("kind", ["semaphore", "permit-expirable semaphore", "latch", "barrier"])
async def test_what_is_no_lock_stays_and_the_message_says_what_to_do(
    kind: str, server_url: str, clients: ClientFactory
) -> None:
    client = clients()
    wait = None
    match kind:
        case "semaphore":
            await client.get_semaphore("semaphore", 2).acquire()
        case "permit-expirable semaphore":
            await client.get_permit_expirable_semaphore("semaphore", 2).acquire()
        case "latch":
            await client.get_latch("semaphore").try_set_count(2)
        case _:
            wait = asyncio.create_task(client.get_barrier("semaphore", 2).wait())
            barrier = client.get_barrier("semaphore", 2)
            await until_async(barrier.n_waiting)
    result = await run("release", "--force", "--yes", "semaphore", "--url", server_url)
    if wait is not None:
        assert await client.get_barrier("semaphore", 2).n_waiting() == 1
        wait.cancel()
        await asyncio.gather(wait, return_exceptions=True)
    assert result.exit_code == 1
    assert f"it is a {kind}" in result.stderr
    assert "; `release` works only on locks. " in result.stderr
    assert "`await " in result.stderr
    if kind == "latch":
        await client.get_latch("semaphore").delete()
    await client.aclose()


async def test_another_kind_than_said_stays(server_url: str, clients: ClientFactory) -> None:
    async with clients().get_read_write_lock("k").write_lock() as lease:
        result = await run(
            "release", "--force", "--yes", "--kind", "fair-lock", "k", "--url", server_url
        )
        assert result.exit_code == 1
        assert "it is a read-write lock, not a fair lock" in result.stderr
        await lease.extend(30)


@pytest.mark.parametrize("answer", ["\n", "\x03"], ids=["no", "Ctrl-C"])
async def test_on_a_terminal_the_holder_is_shown_and_no_is_no(
    answer: str, server_url: str, redis: Redis
) -> None:
    await redis.hset("k", JAVA, "1")
    await redis.pexpire("k", 60_000)
    with on_terminal("release", "--force", "k", "--url", server_url) as terminal:
        await terminal.shows(r"Free it\?")
        assert JAVA.encode() in terminal.shown
        terminal.type(answer)
        assert await terminal.ends() == 1
    assert await redis.exists("k")


async def test_if_the_holder_changes_it_asks_again(server_url: str, redis: Redis) -> None:
    other = JAVA + "11"
    await redis.hset("k", JAVA, "1")
    await redis.pexpire("k", 60_000)
    with on_terminal("release", "--force", "k", "--url", server_url) as terminal:
        await terminal.shows(r"Free it\?")
        await redis.delete("k")
        await redis.hset("k", other, "1")
        await redis.pexpire("k", 60_000)
        terminal.type("y\n")
        await terminal.shows("The holder has changed")
        await terminal.shows(other)
        assert await redis.hexists("k", other)
        terminal.type("n\n")
        assert await terminal.ends() == 1
    assert await redis.exists("k")


async def test_a_reader_that_leaves_is_no_other_holder(server_url: str, redis: Redis) -> None:
    leaves = JAVA + "11"
    await redis.hset("k", mapping={"mode": "read", JAVA: "1", leaves: "1"})
    await redis.pexpire("k", 60_000)
    for reader in (JAVA, leaves):
        await redis.set(f"{{k}}:{reader}:rwlock_timeout:1", "1", px=60_000)
    with on_terminal("release", "--force", "k", "--url", server_url) as terminal:
        await terminal.shows(r"Free it\?")
        await redis.hdel("k", leaves)
        await redis.delete(f"{{k}}:{leaves}:rwlock_timeout:1")
        terminal.type("y\n")
        assert await terminal.ends() == 0
    assert not await redis.exists("k")


async def test_the_second_look_and_the_release_share_a_connection(
    server_url: str, redis: Redis, one_server: None
) -> None:
    # Connecting anew would give another holder time to come.
    await redis.hset("k", JAVA, "1")
    with on_terminal("release", "--force", "k", "--url", server_url) as terminal:
        await terminal.shows(r"Free it\?")
        before = (await redis.info("stats"))["total_connections_received"]
        terminal.type("y\n")
        assert await terminal.ends() == 0
        after = (await redis.info("stats"))["total_connections_received"]
    assert after - before == 1
