"""`redisson-py inspect` shows what there is under a name, of whatever kind."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from typing import Any, cast
from unittest.mock import ANY

import pytest
from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py._time import now
from tests.cli.holding import JAVA, KINDS, WAITED_FOR, documents, inspected, one_of_each
from tests.cli.terminals import run
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ServerFactory
from tests.support.leases import assert_left
from tests.support.waiting import until_listening, until_waiting

FIELDS = {
    *("name", "kind", "key", "holders", "holders_total", "waiters", "waiters_total", "listeners"),
    *("channel", "token", "value", "available", "parties", "broken", "kept"),
    *("rate", "per", "keys"),
}


async def test_every_kind_is_found_by_its_name(server_url: str, clients: ClientFactory) -> None:
    began = now()
    async with one_of_each(clients(client_name="checkout"), clients(client_name="waiter")):
        found = {name: await inspected(server_url, name) for name in KINDS}
    assert {name: [each["kind"] for each in some] for name, some in found.items()} == {
        name: [kind] for name, kind in KINDS.items()
    }
    assert all(each.keys() == FIELDS for some in found.values() for each in some)
    # Nobody holds a rate limiter.
    assert found.pop("limiter")[0]["available"] == 0
    for name, (each,) in found.items():
        (holder,) = each["holders"]
        assert each["holders_total"] == 1
        assert holder["client_name"] == ("waiter" if name == "barrier" else "checkout")
        assert (holder["host"], holder["pid"]) == (socket.gethostname(), os.getpid())
        assert_left(holder["seconds_left"], 30, began)
    (fair,), (fenced,), (semaphore,) = found["fair"], found["fenced"], found["semaphore"]
    for name in WAITED_FOR:
        assert [each["client_name"] for each in found[name][0]["waiters"]] == ["waiter"]
    assert (fair["waiters_total"], fair["listeners"]) == (1, 1)
    assert fenced["token"] > 0
    assert (semaphore["available"], semaphore["holders"][0]["holds"]) == (3, 2)
    (ids,), (barrier,) = found["semaphore:ids"], found["barrier"]
    assert len(ids["holders"][0]["permit"]) == 32
    assert (barrier["parties"], barrier["broken"]) == (3, False)
    assert [found[name][0]["holders"][0]["mode"] for name in ("read", "written")] == [
        "read",
        "write",
    ]


async def test_a_lock_and_a_barrier_share_a_name(server_url: str, clients: ClientFactory) -> None:
    client = clients()
    async with client.get_lock("k"):
        wait = asyncio.create_task(client.get_barrier("k", 2).wait())
        async with asyncio.timeout(30):
            while len(found := await inspected(server_url, "k")) < 2:
                await asyncio.sleep(0.01)
        text = (await run("inspect", "k", "--url", server_url)).stdout
        only = await inspected(server_url, "k", "--kind", "barrier")
        wait.cancel()
        await asyncio.gather(wait, return_exceptions=True)
    assert [each["kind"] for each in found] == ["lock", "barrier"]
    assert [each["kind"] for each in only] == ["barrier"]
    assert "k: lock, held\n" in text
    assert "k: barrier, 1 of 2 wait\n" in text


async def test_a_lock_of_redisson_has_an_owner_no_description_and_maybe_no_lease(
    server_url: str, redis: Redis
) -> None:
    await redis.hset("k", JAVA, "2")
    (found,) = await inspected(server_url, "k")
    text = (await run("inspect", "k", "--url", server_url)).stdout
    await redis.delete("k")
    (holder,) = found["holders"]
    assert (holder["owner"], holder["holds"], holder["seconds_left"]) == (JAVA, 2, None)
    assert (holder["host"], holder["pid"], holder["client_name"]) == (None, None, None)
    assert f"{JAVA}, 2 holds, no lease\n" in text


@pytest.mark.parametrize("way", ["handed over", "kept"])
@pytest.mark.parametrize("kind", ["lock", "fair-lock", "fenced-lock"])
async def test_a_lock_that_nobody_renews_says_why(
    server_url: str, clients: ClientFactory, kind: str, way: str
) -> None:
    client, waiter = clients(client_name="checkout"), clients()
    make: Any = {
        "lock": Redisson.get_lock,
        "fair-lock": Redisson.get_fair_lock,
        "fenced-lock": Redisson.get_fenced_lock,
    }[kind]
    lock = make(client, "k")
    async with lock.hold(min_hold=None if way == "handed over" else 600) as lease:
        owner = lease.owner
        if way == "handed over":
            token = await lease.hand_over()
            assert token not in (await run("inspect", "k", "--json", "--url", server_url)).stdout
        else:
            owner += ":kept"
    waits = asyncio.create_task(make(waiter, "k").acquire())
    await until_waiting(waiter, 1)
    await until_listening(waiter)
    (found,) = await inspected(server_url, "k")
    (holder,) = found["holders"]
    assert (found["kind"], holder["owner"], holder["state"]) == (kind, owner, way)
    assert holder["client_name"] == "checkout", "whose it was"
    assert (found["waiters_total"], found["waiters"][0]["state"]) == (1, None)
    (row,) = (await documents("locks", "--url", server_url))["found"]
    assert row["kind"] == kind
    assert row["holders"] == [{**holder, "seconds_left": ANY}]
    (row,) = (await documents("top", "--once", "--url", server_url))["rows"]
    assert row["holders"][0]["state"] == way
    text = (await run("inspect", "k", "--url", server_url)).stdout
    assert text.startswith(f"k: {kind.replace('-', ' ')}, {way}\n")
    assert f"  {way}  " in (await run("locks", "--url", server_url)).stdout
    freed = await run("release", "--force", "--yes", "k", "--url", server_url)
    assert freed.exit_code == 0, freed.output
    await (await waits).release()


async def test_an_election_shows_what_its_leader_published(
    server_url: str, clients: ClientFactory
) -> None:
    election = clients().get_election("k")
    async with election.campaign("host-1\n") as leadership:
        (found,) = await inspected(server_url, "k")
        text = (await run("inspect", "k", "--url", server_url)).stdout
        # As a lock of the same name sees it.
        (holder,) = (await clients().get_fair_lock("k").inspect()).holders
    assert (found["kind"], found["value"]) == ("election", "host-1\n")
    assert found["token"] == leadership.token
    assert [each["owner"] for each in found["holders"]] == [leadership.owner] == [holder.owner]
    assert "k: election, led\n" in text
    assert "  value     host-1\\n\n" in text
    (free,) = await inspected(server_url, "k", "--kind", "election")
    assert (free["kind"], free["holders"], free["value"]) == ("election", [], None)


async def test_a_number_is_a_latch_or_a_semaphore_unless_the_user_says_which(
    server_url: str, clients: ClientFactory
) -> None:
    latch = clients().get_latch("k", 3)
    await latch.try_set_count(3)
    found = [
        (await inspected(server_url, "k", *options))[0]
        for options in ((), ("--kind", "latch"), ("--kind", "semaphore"))
    ]
    other = await run("inspect", "k", "--kind", "lock", "--url", server_url)
    await latch.delete()
    assert [each["kind"] for each in found] == ["latch-or-semaphore", "latch", "semaphore"]
    assert {each["available"] for each in found} == {3}
    assert other.exit_code == 1
    assert other.stdout == "k: a key of type string, not a lock\n"


async def test_a_free_lock_has_no_key(server_url: str) -> None:
    result = await run("inspect", "k", "--url", server_url)
    assert result.exit_code == 1
    assert result.stdout.startswith("k: nothing found (a free lock has no key)")


async def test_a_fair_queue_without_a_holder_and_a_free_fenced_lock(
    server_url: str, clients: ClientFactory, redis: Redis
) -> None:
    async with clients().get_fenced_lock("k") as lease:
        token = lease.token
    await redis.rpush("redisson_lock_queue:{q}", JAVA)
    await redis.pexpire("redisson_lock_queue:{q}", 60_000)
    (fenced,) = await inspected(server_url, "k")
    (fair,) = await inspected(server_url, "q")
    assert (fenced["kind"], fenced["holders"]) == ("fenced-lock", [])
    # Tokens are issued some at a time, for the tasks of one client.
    assert token is not None
    assert fenced["token"] >= token
    assert (fair["kind"], fair["holders_total"]) == ("fair-lock", 0)
    assert [waiter["owner"] for waiter in fair["waiters"]] == [JAVA]


@pytest.mark.parametrize(
    ("command", "type_name"),
    [
        (["SET", "k", "user's text"], "string"),
        (["RPUSH", "k", "a"], "list"),
        (["SADD", "k", "a"], "set"),
        (["HSET", "k", "name", "a"], "hash"),
        (["HSET", "k", "mode", "dark"], "hash"),
    ],
    ids=["string", "list", "set", "hash", "hash with a mode"],
)
async def test_a_key_of_another_application_is_named_by_its_type_only(
    command: list[str], type_name: str, server_url: str, redis: Redis
) -> None:
    await cast("Any", redis).execute_command(*command)
    await redis.pexpire("k", 60_000)
    result = await run("inspect", "k", "--url", server_url)
    assert result.exit_code == 1
    assert result.stdout == f"k: a key of type {type_name}, not something this library uses\n"


async def test_a_crowd_of_readers_reads(server_url: str, redis: Redis) -> None:
    # HSCAN returns a part of so many fields, without the mode.
    readers = {f"{JAVA}{number}": "1" for number in range(5000)}
    pipeline: Any = redis.pipeline(transaction=False)
    pipeline.hset("k", mapping={"mode": "read", **readers})
    pipeline.pexpire("k", 60_000)
    for reader in readers:
        pipeline.set(f"{{k}}:{reader}:rwlock_timeout:1", "1", px=60_000)
    await pipeline.execute()
    (found,) = await inspected(server_url, "k", "--limit", "5")
    assert (found["kind"], found["holders_total"]) == ("read-write-lock", 5000)
    assert len(found["holders"]) == 5
    assert {holder["mode"] for holder in found["holders"]} == {"read"}


async def test_dead_readers_hide_nobody(server_url: str, redis: Redis) -> None:
    readers = [f"{JAVA}{number}" for number in range(6)]
    await redis.hset("k", mapping={"mode": "read", **dict.fromkeys(readers, "1")})
    await redis.pexpire("k", 60_000)
    await redis.set(f"{{k}}:{readers[5]}:rwlock_timeout:1", "1", px=60_000)
    (found,) = (await documents("locks", "--url", server_url))["found"]
    assert [holder["owner"] for holder in found["holders"]] == [readers[5]]
    assert found["holders_total"] == 1
    # Without a reader that lives it is free, and not another application's.
    await redis.delete(f"{{k}}:{readers[5]}:rwlock_timeout:1")
    text = (await run("inspect", "k", "--url", server_url)).stdout
    assert text.startswith("k: read-write lock, free\n")
    for look in (("locks",), ("top", "--once")):
        assert not {"found", "rows"} & {
            field for field, value in (await documents(*look, "--url", server_url)).items() if value
        }


@pytest.mark.parametrize("number", [1, 500, 1000])
async def test_a_reader_that_entered_often_lives_by_any_of_its_leases(
    number: int, server_url: str, redis: Redis
) -> None:
    await redis.hset("k", mapping={"mode": "read", JAVA: "1000"})
    await redis.pexpire("k", 60_000)
    await redis.set(f"{{k}}:{JAVA}:rwlock_timeout:{number}", "1", px=60_000)
    (found,) = await inspected(server_url, "k")
    (holder,) = found["holders"]
    assert holder["holds"] == 1000
    # Of so many, the newest are looked at.
    assert (holder["seconds_left"] is None) == (number != 1000)


async def test_writers_that_died_do_not_wait(server_url: str, redis: Redis) -> None:
    writers = "{k}:redisson_py:writers"
    await redis.zadd(writers, {f"{JAVA}1": 1000, f"{JAVA}2": 9e12})
    await redis.pexpire(writers, 60_000)
    (found,) = await inspected(server_url, "k")
    assert ([each["owner"] for each in found["waiters"]], found["waiters_total"]) == (
        [f"{JAVA}2"],
        1,
    )


@pytest.mark.parametrize("text", ["1_0", " 5", "007", "+3", "9" * 31, "9" * 40])
async def test_text_that_is_no_number_of_redis_is_no_semaphore(
    text: str, server_url: str, redis: Redis
) -> None:
    await redis.set("k", text, px=60_000)
    result = await run("inspect", "k", "--url", server_url)
    assert (result.exit_code, "a key of type string" in result.stdout) == (1, True)


@pytest.mark.parametrize(
    "said",
    ['{"pid": Infinity}', '{"host": "\\ud800", "pid": 1}', "[" * 100_000, "[]", "1", "\x00"],
    ids=["infinity", "surrogate", "deep", "list", "number", "no JSON"],
)
async def test_whatever_a_client_says_of_itself_is_borne(
    said: str, server_url: str, redis: Redis
) -> None:
    await redis.hset("k", JAVA, "1")
    await redis.pexpire("k", 60_000)
    await redis.set(f"redisson_py:client:{JAVA.partition(':')[0]}", said, px=60_000)
    (found,) = await inspected(server_url, "k")
    assert found["holders"][0]["owner"] == JAVA
    assert (await run("inspect", "k", "--url", server_url)).exit_code == 0


async def test_names_that_are_no_text_are_found(server_url: str, redis: Redis) -> None:
    await cast("Any", redis).hset(b"\xff\xfe", JAVA, "1")
    # As Python has such an argument.
    name = "\udcff\udcfe"
    inspect = await run("inspect", name, "--url", server_url)
    locks = await documents("locks", "\udcff*", "--url", server_url)
    release = await run("release", "--force", "--yes", name, "--url", server_url)
    assert inspect.stdout.startswith("\\xff\\xfe: lock, held\n")
    assert [each["name"] for each in locks["found"]] == ["\\xff\\xfe"]
    assert release.stdout == "\\xff\\xfe: the lock is free now\n"


async def test_what_others_have_chosen_does_nothing_to_a_terminal(
    server_url: str, clients: ClientFactory
) -> None:
    name = "a\x1b[2Jb"
    async with clients(client_name="evil").get_lock(name):
        result = await run("inspect", name, "--url", server_url)
    assert "\x1b" not in result.stdout
    assert "a\\x1b[2Jb: lock, held" in result.stdout


async def test_listeners_are_unknown_without_the_permission(server_factory: ServerFactory) -> None:
    server = await server_factory()
    rules = ("on", ">pw", "~*", "&*", "+@all", "-pubsub")
    await server.execute("ACL", "SETUSER", "some", *rules)
    await server.execute("HSET", "k", JAVA, 1)
    url = server.url.replace("redis://", "redis://some:pw@")
    (found,) = await inspected(url, "k")
    text = (await run("inspect", "k", "--url", url)).stdout
    assert found["listeners"] is None
    assert "unknown (PUBSUB is not permitted" in text


async def test_what_is_done_once(server_url: str, clients: ClientFactory) -> None:
    """While it runs, beside a lock of its name; when it is done; and when that is forgotten."""
    client, other = clients(client_name="checkout"), clients()
    async with client.get_lock("k"), client.get_once("k", keep=600) as running:
        lock, once = await inspected(server_url, "k")
        assert (lock["kind"], once["kind"]) == ("lock", "once")
        (holder,) = once["holders"]
        assert (holder["owner"], holder["client_name"]) == (running.owner, "checkout")
        assert (once["token"], once["kept"]) == (running.token, None)
        waits = asyncio.create_task(other.get_once("k").run(lambda: b""))
        await until_waiting(other, 1)
        await until_listening(other)
        (once,) = await inspected(server_url, "k", "--kind", "once")
        assert once["listeners"] == 1
        text = (await run("inspect", "k", "--kind", "once", "--url", server_url)).stdout
        assert text.startswith(f"k: once, runs\n  runs      {running.owner} (checkout on ")
        await running.complete(b"12\0")
        assert await waits == b"12\0"
    (once,) = await inspected(server_url, "k")
    assert (once["kind"], once["holders"]) == ("once", [])
    assert 0 < once["kept"] <= 600
    assert once["keys"] == [
        f"{each}:redisson_py:once:{{k}}" for each in ("redisson_py:record", "redisson_lock_token")
    ]
    text = (await run("inspect", "k", "--url", server_url)).stdout
    assert re.match(r"k: once, done, kept for \d+\.\d s\n", text)
    # Nobody holds it: neither lists it, nor takes one of its keys for a lock.
    for command in (("locks",), ("top", "--once")):
        document = await documents(*command, "--url", server_url)
        assert document.get("found", document.get("rows")) == []
    await client.get_once("k").forget()
    (once,) = await inspected(server_url, "k")
    text = (await run("inspect", "k", "--url", server_url)).stdout
    assert text.startswith("k: once, not done\n")
    assert (once["kept"], once["token"]) == (None, running.token)


@pytest.mark.parametrize("per_client", [False, True])
async def test_a_rate_limiter(
    server_url: str, clients: ClientFactory, redis: Redis, per_client: bool
) -> None:
    limiter = clients().get_rate_limiter("k", 5, 600, per_client=per_client)
    await limiter.acquire(2)
    (found,) = await inspected(server_url, "k", "--kind", "rate-limiter")
    text = (await run("inspect", "k", "--url", server_url)).stdout
    assert (found["rate"], found["per"]) == (5, 600.0)
    assert found["available"] == (None if per_client else 3)
    units = "for each client" if per_client else "3 left"
    assert text.startswith(f"k: rate limiter, 5 per 600 s, {units}\n")
    assert found["keys"] == (["k"] if per_client else ["k", "{k}:value", "{k}:permits"])
    await redis.flushdb()


async def test_the_units_of_a_rate_limiter_that_have_come_back(
    server_url: str, clients: ClientFactory, redis: Redis
) -> None:
    limiter = clients().get_rate_limiter("k", 5, 600)
    await limiter.acquire(2)
    await limiter.acquire()
    oldest: Any = await redis.zrange("{k}:permits", 0, 0)
    (first,) = oldest
    await redis.zincrby("{k}:permits", -700_000, first)
    (found,) = await inspected(server_url, "k")
    assert found["available"] == await limiter.available()
    await redis.flushdb()
