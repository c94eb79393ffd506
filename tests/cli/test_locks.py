"""`redisson-py locks` lists what is held, without loading the server."""

from __future__ import annotations

from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py._cli.looks.keyspace import SCAN_COUNT
from redisson_py.testing import EmbeddedServer
from tests.cli.holding import JAVA, KINDS, documents, one_of_each
from tests.cli.terminals import run
from tests.fixtures.client import ClientFactory
from tests.support.counting import Counted


async def listed(url: str, *arguments: str) -> dict[str, str]:
    """Return the names that `locks` lists, with their kinds."""
    document = await documents("locks", *arguments, "--url", url)
    assert document["away"] == {}
    return {each["name"]: each["kind"] for each in document["found"]}


async def make_others(redis: Redis, count: int) -> None:
    """Make keys of another application: hashes, texts, sorted sets, some named much like ours."""
    pipeline: Any = redis.pipeline(transaction=False)
    for number in range(count):
        pipeline.hset(f"user:{number}", "name", "x")
        pipeline.pexpire(f"user:{number}", 60_000)
        pipeline.set(f"session:{number}", "x", px=60_000)
    pipeline.zadd("{a}:timeout", {"a member": 1})
    pipeline.hset("settings", mapping={"mode": "dark"})
    pipeline.hset("numbers", "user:47", "1")
    pipeline.set("number", "5", px=60_000)
    for key in ("{a}:timeout", "settings", "numbers"):
        pipeline.pexpire(key, 60_000)
    await pipeline.execute()


async def test_what_is_held_is_listed_once_and_nothing_else(
    server_url: str, clients: ClientFactory, redis: Redis
) -> None:
    await make_others(redis, 50)
    await redis.hset("java", JAVA, "1")
    await redis.pexpire("java", 60_000)
    async with one_of_each(clients(), clients()):
        document = await documents("locks", "--url", server_url)
    found = [(each["name"], each["kind"]) for each in document["found"]]
    assert found == sorted({**KINDS, "java": "lock"}.items())
    assert (document["complete"], document["stopped"]) == (True, None)
    fair = next(each for each in document["found"] if each["name"] == "fair")
    assert (fair["waiters_total"], fair["listeners"]) == (1, 1)


async def test_a_pattern_and_a_prefix_choose(server_url: str, clients: ClientFactory) -> None:
    ours, others = clients(prefix="svc:"), clients()
    async with ours.get_lock("orders:1"), ours.get_lock("prices"), others.get_lock("orders:2"):
        assert await listed(server_url, "orders:*") == {"orders:2": "lock"}
        assert await listed(server_url, "orders:*", "--prefix", "svc:") == {"orders:1": "lock"}
        everything = {"svc:orders:1": "lock", "svc:prices": "lock", "orders:2": "lock"}
        assert await listed(server_url) == everything


async def test_queues_and_barriers_without_a_holder_are_listed(
    server_url: str, redis: Redis
) -> None:
    await redis.rpush("redisson_lock_queue:{q}", JAVA)
    await redis.zadd("redisson_lock_timeout:{q}", {JAVA: 9e12})
    await redis.hset("{b}:redisson_py:barrier", "broken", "1")
    clients = "{c}:redisson_py:clients"
    await redis.zadd(clients, {JAVA.partition(":")[0]: 1})
    keys = ("redisson_lock_queue:{q}", "redisson_lock_timeout:{q}", "{b}:redisson_py:barrier")
    for key in (*keys, clients):
        await redis.pexpire(key, 60_000)
    assert await listed(server_url) == {"q": "fair-lock", "b": "barrier", "c": "lock"}
    await redis.delete(clients)


async def test_rate_limiters_are_listed_while_they_have_no_units_left(
    server_url: str, clients: ClientFactory, redis: Redis
) -> None:
    client = clients()
    used_up = client.get_rate_limiter("used up", 2, 3600)
    await used_up.acquire(2)
    await client.get_rate_limiter("used", 2, 3600).acquire()
    await client.get_rate_limiter("each", 1, 3600, per_client=True).acquire()
    await redis.zadd("{other}:permits", {"a": 1})
    (found,) = (await documents("locks", "--url", server_url))["found"]
    assert (found["name"], found["kind"], found["available"]) == ("used up", "rate-limiter", 0)
    admissions: Any = await redis.zrange("{used up}:permits", 0, 0)
    await redis.zadd("{used up}:permits", {admissions[0]: 1})
    assert await listed(server_url) == {}
    await redis.flushdb()


async def test_the_search_is_bounded_and_sends_nothing_but_small_reads(
    server_url: str, clients: ClientFactory, redis: Redis, one_server: None
) -> None:
    await make_others(redis, 3000)
    async with clients().get_lock("k"):
        async with Counted(redis) as counted:
            assert await listed(server_url) == {"k": "lock"}
    calls = counted.calls
    keys = 6005
    # Two passes; a step may return a few keys more or less than COUNT.
    assert calls["scan"] <= 2 * (2 * keys / SCAN_COUNT + 2)
    assert calls["hrandfield"] <= 3100
    assert not {"keys", "hgetall", "eval", "evalsha", "subscribe", "psubscribe"} & calls.keys()
    assert sum(calls.values()) < 3100 + 200


async def test_what_the_limit_cuts_off_is_said(server_url: str, redis: Redis) -> None:
    for number in range(20):
        await redis.hset(f"k:{number}", JAVA, "1")
        await redis.pexpire(f"k:{number}", 60_000)
    document = await documents("locks", "--limit", "5", "--url", server_url)
    text = await run("locks", "--limit", "5", "--url", server_url)
    exact = await documents("locks", "--limit", "20", "--url", server_url)
    assert len(document["found"]) == 5
    assert (document["complete"], document["stopped"]) == (False, "limit")
    assert len(text.stdout.splitlines()) == 6
    assert "the search stopped at --limit 5" in text.stderr
    assert (len(exact["found"]), exact["complete"]) == (20, True)


async def test_what_the_time_cuts_off_is_said(server_url: str, redis: Redis) -> None:
    await make_others(redis, 2000)
    result = await run("locks", "--seconds", "0.000001", "--url", server_url)
    assert result.exit_code == 0
    assert "the search stopped after --seconds 1e-06" in result.stderr


async def test_nothing_is_held(server_url: str) -> None:
    result = await run("locks", "--url", server_url)
    assert (result.exit_code, result.stdout) == (0, "nothing is held\n")


async def test_rows_are_whole_where_there_is_no_terminal(
    server_url: str, clients: ClientFactory
) -> None:
    name = "n" * 300
    async with clients().get_lock(name):
        rows = (await run("locks", "--url", server_url)).stdout.splitlines()
    assert [row.split()[:3] for row in rows] == [
        ["NAME", "KIND", "STATE"],
        [name, "lock", "held"],
    ]


@pytest.mark.parametrize(
    ("look", "command"),
    [(("locks",), "scan"), (("locks",), "hrandfield"), (("inspect", "k"), "hscan")],
)
async def test_a_missing_permission_is_said(
    look: tuple[str, ...], command: str, own_server: EmbeddedServer
) -> None:
    await own_server.execute("HSET", "k", JAVA, 1)
    rules = ("reset", "on", ">pw", "~*", "&*", "+@all", f"-{command}")
    await own_server.execute("ACL", "SETUSER", "some", *rules)
    result = await run(*look, "--url", own_server.url.replace("redis://", "redis://some:pw@"))
    assert result.exit_code == 69, result.output
    assert "NOPERM" in result.stderr
    assert command in result.stderr.lower()
    assert "pw" not in result.stderr.split()
