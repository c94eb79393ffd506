"""Edge cases of the watchdog: late grants, keys that Redis refuses, new connections."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

import redisson_py
from redisson_py import LeaseLostError, Redisson
from redisson_py._redis.stream import stream
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import PASSWORD, ProxyFactory, documented_rules, url_of_user
from tests.support.cluster_look import servers_of
from tests.support.streams import stream_of
from tests.support.waiting import until, until_async

Take = Callable[..., Awaitable[Any]]

#: Each acquires something with the given name; without a `lease_time`, the watchdog renews it.
TAKES: dict[str, Take] = {
    "lock": lambda client, name, **how: client.get_lock(f"{name}a").acquire(**how),
    "fenced_lock": lambda client, name, **how: client.get_fenced_lock(f"{name}b").acquire(**how),
    "fair_lock": lambda client, name, **how: client.get_fair_lock(f"{name}c").acquire(**how),
    "write_lock": lambda client, name, **how: (
        client.get_read_write_lock(f"{name}d").write_lock().acquire(**how)
    ),
    "read_lock": lambda client, name, **how: (
        client.get_read_write_lock(f"{name}e").read_lock().acquire(**how)
    ),
    "semaphore": lambda client, name: client.get_semaphore(f"semaphore{name}f", 1).acquire(),
    "permits": lambda client, name, **how: client.get_permit_expirable_semaphore(
        f"semaphore{name}g", 1
    ).acquire(**how),
}

#: All names except those that begin with X.
ALL_BUT_X = ("~k*", "~{k*", "~semaphore[^X]*", "~{semaphore[^X]*", "~redisson*")


@pytest.mark.more
async def test_a_grant_that_took_most_of_its_lease_is_renewed(
    clients: ClientFactory, proxy: ProxyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first reply is lost, and a new connection is found only after most of the lease."""
    # What is left of the lease is for a busy machine, and not for a pause between two attempts.
    monkeypatch.setattr(stream, "pause_before", lambda attempt, longest=0.0: 0.05)
    lease_time = 9.0
    link = await proxy()
    client = clients(link.url, lease_time=lease_time, command_timeout=20)
    warm = [await take(client, "{k}-warm") for take in TAKES.values()]  # loads the scripts
    for lease in warm:
        await lease.release()
    link.cut_after_execution(lambda command: b"EVALSHA" in command)
    link.refuse()
    asking = asyncio.gather(*[take(client, "{k}") for take in TAKES.values()])
    await link.wait_until(lambda link: link.triggered == 1)
    await asyncio.sleep(0.73 * lease_time)
    link.pass_through()
    leases = await asking
    # Counted from the first question, less is left than a renewal's period.
    await asyncio.sleep(0.45 * lease_time)
    assert [lease.name for lease in leases if lease.lost] == []
    for lease in leases:
        assert lease.remaining > 0
        await lease.release()


@pytest_asyncio.fixture
async def limit_keys(
    redis: Redis, server_url: str, acl_arguments: tuple[str, ...]
) -> AsyncIterator[Callable[..., Awaitable[str]]]:
    """Set the keys that a user may touch; the answer is its URL."""
    servers = await servers_of(redis)

    async def set_user(*rules: str) -> None:
        for server in servers:
            await server.execute_command("ACL", "SETUSER", "limited", *rules)  # type: ignore[no-untyped-call]  # redis-py's

    async def limit(*patterns: str) -> str:
        await set_user("resetkeys", *patterns)
        return url_of_user(server_url, "limited")

    rules = documented_rules("", *acl_arguments)
    await set_user("on", f">{PASSWORD}", *(rule for rule in rules if not rule.startswith("~")))
    yield limit
    for server in servers:
        await server.acl_deluser("limited")


@pytest.mark.more
async def test_a_key_that_redis_refuses_costs_no_other_lease(
    clients: ClientFactory, limit_keys: Callable[..., Awaitable[str]], redis: Redis
) -> None:
    lease_time = 9.0
    client = clients(await limit_keys("~*"), lease_time=lease_time)
    names = [f"k{number}-" for number in range(40)]
    names[17] = "X-"
    leases = await asyncio.gather(
        *[take(client, name) for take in TAKES.values() for name in names]
    )
    refused = [lease for lease in leases if "X-" in str(lease.name)]
    kept = [lease for lease in leases if lease not in refused]
    assert (len(refused), len(kept)) == (len(TAKES), 39 * len(TAKES))
    await limit_keys(*ALL_BUT_X)
    # A lease knows by its clock that it is lost, before the watchdog counts it.
    await until(lambda: client.statistics().losses >= len(refused))
    # Those were granted together, and what was not renewed since ends with them.
    await until(lambda: all(lease.lost or lease.remaining > lease_time / 2 for lease in kept))
    assert [lease.name for lease in kept if lease.lost] == []
    assert client.statistics().losses == len(refused)
    for lease in refused:
        with pytest.raises(LeaseLostError):
            lease.check()
    await limit_keys("~*")
    await asyncio.gather(*[lease.release() for lease in kept])
    await redis.delete(*await redis.keys("*X-*"))


async def until_forgotten(client: Redisson) -> None:
    """Wait until nothing is left of many calls: the tasks, and deadlines of what took long."""
    await until(lambda: len(stream_of(client)._deadlines) < 100, 30)
    await asyncio.sleep(0)
    gc.collect()


@pytest.mark.more
async def test_leases_that_are_far_from_their_end_cost_nothing_meanwhile(
    clients: ClientFactory,
) -> None:
    client = clients(lease_time=30)
    leases = await asyncio.gather(
        *[client.get_lock(f"k{n}").acquire(lease_time=60) for n in range(5000)]
    )
    await until_forgotten(client)
    before = sys.gettrace()
    rows, here = 0, redisson_py.__path__[0]

    def count(frame: FrameType, event: str, _: object) -> Any:
        nonlocal rows
        rows += event == "line"
        return count

    sys.settrace(lambda frame, *_: count if frame.f_code.co_filename.startswith(here) else None)
    try:
        await asyncio.sleep(2.5)  # the watchdog looks at its clock every second
    finally:
        sys.settrace(before)
    assert rows < 5000
    await asyncio.gather(*[lease.release() for lease in leases])


async def test_what_a_client_says_of_itself_lives_for_three_leases(
    clients: ClientFactory, redis: Redis
) -> None:
    """So that `inspect` knows a holder that cannot say it again for a lease or two."""
    client = clients(lease_time=20)
    async with client.get_lock("k"):
        left = 0

        async def described() -> bool:
            nonlocal left
            left = await redis.pttl(f"redisson_py:client:{client.id}")
            return left > 0

        await until_async(described)
        assert 40_000 < left <= 60_000


@pytest.mark.parametrize("executed", [True, False])
async def test_permits_released_without_an_answer_are_not_renewed(
    executed: bool, clients: ClientFactory, proxy: ProxyFactory, client: Redisson
) -> None:
    """The caller is gone before the answer: until it comes, nobody renews what may be released."""
    link = await proxy()
    far = clients(link.url, lease_time=15)
    semaphore = far.get_permit_expirable_semaphore("semaphore", 3)
    permits = await semaphore.acquire_many(3)
    if executed:
        link.hold()
    else:
        link.black_hole("up")
    frames = link.up.frames
    asking = asyncio.create_task(semaphore.release_many(permits))
    await link.wait_until(lambda link: link.up.frames > frames)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    link.pass_through()
    if not executed:
        link.cut()
    await until_async(lambda: available(client, 3), 20)
    await until(lambda: far.statistics().held_leases == 0)
    renewals = far.statistics().renewals
    async with far.get_lock("k"):  # the watchdog goes on
        await until(lambda: far.statistics().renewals > renewals, 60)
    assert far.statistics().losses == 0
    assert await available(client, 3)


async def available(client: Redisson, count: int) -> bool:
    """Whether this many permits of the semaphore are free."""
    return await client.get_permit_expirable_semaphore("semaphore").available() == count


LONG = 1200.0

#: The same for a lease of its own.
OWN_LEASES: dict[str, Take] = {
    kind: partial(take, lease_time=LONG) for kind, take in TAKES.items() if kind != "semaphore"
}

KINDS = [
    pytest.param(take, id=f"{kind}-{keeping}")
    for keeping, takes in (("renewed", TAKES), ("own_lease", OWN_LEASES))
    for kind, take in takes.items()
]


async def lose_connection(client: Redisson, redis: Redis, name: str) -> None:
    """Have the server close the client's connection, and wait until there is another."""
    connections = client.statistics().connections
    for row in [row for row in await redis.client_list() if row["name"] == name]:
        await redis.client_kill_filter(_id=row["id"])
    await until(lambda: client.statistics().connections > connections)


async def is_asked(redis: Redis) -> bool:
    """Return whether a script has run since the counters were set to 0."""
    stats: dict[str, Any] = await redis.info("commandstats")
    return "cmdstat_evalsha" in stats


@pytest.mark.also("cluster")
@pytest.mark.parametrize("take", KINDS)
async def test_what_was_taken_meanwhile_is_reported_at_the_reconnection(
    take: Take, clients: ClientFactory, redis: Redis
) -> None:
    client = clients(lease_time=LONG, client_name="app")
    gone, kept = await take(client, "k-gone"), await take(client, "k-kept")
    await redis.delete(*await redis.keys("*k-gone*"))
    assert not gone.lost, "nobody has said so"
    await lose_connection(client, redis, "app")
    await until(lambda: gone.lost)
    assert not kept.lost
    await kept.release()


@pytest.mark.also("cluster")
@pytest.mark.parametrize("take", OWN_LEASES.values(), ids=OWN_LEASES)
async def test_a_lease_of_its_own_is_not_lengthened(
    take: Take, clients: ClientFactory, redis: Redis
) -> None:
    client = clients(client_name="app")
    lease = await take(client, "k")
    before = {key: await redis.pttl(key) for key in await redis.keys("*k[a-g]*")}
    assert before
    # Long enough ago for a renewal to be seen.
    await asyncio.sleep(0.05)
    await redis.config_resetstat()
    await lose_connection(client, redis, "app")
    await until_async(lambda: is_asked(redis))
    for key, milliseconds in before.items():
        assert await redis.pttl(key) <= max(-1, milliseconds - 50)
    await lease.release()
