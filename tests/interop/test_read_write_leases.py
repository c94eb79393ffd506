"""The leases of readers of both kinds, ours and Redisson's.

Each read hold has a key; the hash lives as long as the longest of them. Redisson's renewal sets
the hash to its own lease, even where that is shorter.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import Redisson
from tests.fixtures.client import ClientFactory
from tests.fixtures.java import JavaFactory, RedissonFactory
from tests.interop.holder import holding
from tests.interop.java import Java, JavaObject
from tests.interop.read_write import Shared, gets_in, java_sides, our_sides
from tests.interop.tasks import Tasks
from tests.support.waiting import until, until_async

#: Seconds: short enough to outlive in a test, long enough for a busy machine.
SHORT = 6.0
SHORT_WATCHDOG: dict[str, Any] = {"lockWatchdogTimeout": round(SHORT * 1000)}


async def reader_keys(redis: Redis) -> dict[str, float]:
    """Return the keys of readers, and the seconds left of each."""
    keys: Any = await redis.keys("{k}:*:rwlock_timeout:*")
    return {key.decode(): await redis.pttl(key) / 1000 for key in keys}


async def renewed(client: Redisson, times: int) -> None:
    """Return when a client of ours has sent so many renewals more."""
    before = client.statistics().renewals
    await until(lambda: client.statistics().renewals >= before + times)


def about(seconds: float) -> object:
    """What may be left of a lease after a while: on a slow machine, minutes."""
    return pytest.approx(0.85 * seconds, abs=0.15 * seconds)


async def test_each_side_finds_the_longest_lease_among_both(
    redis: Redis, redisson: JavaObject, client: Redisson, java: Java, tasks: Tasks
) -> None:
    theirs, ours = await java_sides(redisson), our_sides(client, tasks)
    thread = f"{await redisson.call('getId')}:{await java.driver.call('threadId', 'a')}"
    assert await theirs.acquire("a", "read", lease=3000)
    assert await theirs.acquire("a", "read", lease=500)
    lease = await tasks.call("b", ours.lock("read").acquire, lease_time=6000)
    assert await ours.acquire("b", "read", lease=1000)
    assert await reader_keys(redis) == {
        f"{{k}}:{thread}:rwlock_timeout:1": about(3000),
        f"{{k}}:{thread}:rwlock_timeout:2": about(500),
        f"{{k}}:{lease.owner}:rwlock_timeout:1": about(6000),
        f"{{k}}:{lease.owner}:rwlock_timeout:2": about(1000),
    }
    shared = Shared(redis, theirs, client, tasks)
    assert await shared.fields() == {"mode": "read", thread: "2", lease.owner: "2"}
    assert await shared.left() == about(6000)
    # Redisson's unlock finds our longest lease.
    assert await theirs.release("a", "read")
    assert await shared.left() == about(6000)
    # Ours find Redisson's.
    for _ in range(2):
        assert await ours.release("b", "read")
    assert await shared.left() == about(3000)
    assert await ours.acquire("b", "read", lease=1000)
    assert await shared.left() == about(3000)
    assert await theirs.release("a", "read")
    assert await shared.left() == about(1000)
    assert await ours.release("b", "read")
    assert not await reader_keys(redis)


@pytest.mark.parametrize("ours_died", [False, True])
async def test_an_expired_reader_does_not_keep_the_lock_when_the_last_one_leaves(
    redis: Redis,
    java: Java,
    redisson: JavaObject,
    client: Redisson,
    tasks: Tasks,
    ours_died: bool,
) -> None:
    shared = Shared(redis, await java_sides(redisson), client, tasks)
    dead, lives = shared.sides(ours_died)
    assert await dead.acquire("a", "read")
    (key,) = await reader_keys(redis)
    assert await lives.acquire("b", "read")
    await redis.delete(key)
    assert len(await shared.fields()) == 3
    assert await lives.release("b", "read")
    assert await redis.exists("k") == 0
    # Until 3.44.0 Redisson said that it succeeded.
    assert await dead.release("a", "read") == (not ours_died and not java.since(3, 44))


async def test_both_renew_and_neither_is_lost(
    redis: Redis, redissons: RedissonFactory, clients: ClientFactory, tasks: Tasks
) -> None:
    client = clients(lease_time=SHORT)
    theirs, ours = await java_sides(await redissons(**SHORT_WATCHDOG)), our_sides(client, tasks)
    assert await theirs.acquire("a", "read")
    assert await theirs.acquire("a", "read")
    assert await ours.acquire("b", "read")
    # Longer than any of the leases.
    await renewed(client, 4)
    assert sorted(key[-1] for key in await reader_keys(redis)) == ["1", "1", "2"]
    for locks, who in ((theirs, "a"), (theirs, "a"), (ours, "b")):
        assert await redis.exists("k") == 1
        assert await locks.release(who, "read")
    assert await redis.exists("k") == 0


async def until_cut(redis: Redis) -> None:
    """Return when Redisson's renewal has shortened what is left of the lock."""

    async def short() -> bool:
        return 0 < await redis.pttl("k") <= SHORT * 1000

    await until_async(short)


async def test_redissons_renewal_shortens_the_hash_and_its_unlock_mends_it(
    redis: Redis, java: Java, redissons: RedissonFactory, client: Redisson, tasks: Tasks
) -> None:
    theirs, ours = await java_sides(await redissons(**SHORT_WATCHDOG)), our_sides(client, tasks)
    assert await ours.acquire("b", "read", lease=3000)
    assert await theirs.acquire("a", "read")
    await until_cut(redis)
    # Before 4.4.0 it did the same to the leases of all readers, and there was nothing to mend.
    short = pytest.approx(SHORT / 2, abs=SHORT / 2)
    longest = about(3000) if java.since(4, 4) else short
    assert max((await reader_keys(redis)).values()) == longest
    assert await theirs.release("a", "read")
    assert await redis.pttl("k") / 1000 == longest
    assert await ours.release("b", "read") or not java.since(4, 4)


async def test_a_killed_thread_that_read_takes_no_lease_of_ours_that_is_renewed(
    redis: Redis,
    start_java: JavaFactory,
    redisson: JavaObject,
    clients: ClientFactory,
    tasks: Tasks,
    server_url: str,
    only_messages: None,
) -> None:
    machine = start_java()
    doomed = await java_sides(await machine.connect(server_url, **SHORT_WATCHDOG))
    # Renewed before the hash can end with what Redisson left of it.
    client = clients(lease_time=SHORT)
    shared = Shared(redis, await java_sides(redisson), client, tasks)
    assert await doomed.acquire("a", "read")
    (key,) = await reader_keys(redis)
    # Not renewed: this is the lease that Redisson's renewal cuts off.
    other = clients().get_read_write_lock("k").read_lock()
    long = await tasks.call("c", other.acquire, lease_time=3000)
    assert await shared.ours.acquire("b", "read")
    await until_cut(redis)
    await asyncio.to_thread(machine.kill)

    async def forgotten() -> bool:
        return key not in await reader_keys(redis)

    await until_async(forgotten)
    await renewed(client, 1)
    writer = await shared.waiting(shared.java, "w", "write")
    await tasks.call("c", long.release)
    assert not writer.done()
    assert await shared.ours.release("b", "read")
    await gets_in(writer)
    assert await shared.java.release("w", "write")


async def test_our_killed_reader_keeps_a_writer_out_for_its_lease_at_most(
    redis: Redis,
    java: Java,
    redissons: RedissonFactory,
    client: Redisson,
    tasks: Tasks,
    server_url: str,
    only_messages: None,
) -> None:
    shared = Shared(redis, await java_sides(await redissons(**SHORT_WATCHDOG)), client, tasks)
    async with holding(SHORT, ["a reader of k"], server_url):
        (key,) = await reader_keys(redis)
        assert await shared.java.acquire("a", "read")

    async def forgotten() -> bool:
        return key not in await reader_keys(redis)

    if java.since(4, 4):
        await until_async(forgotten)
    # Older releases renew the leases of all readers, dead ones too, as long as they read.
    writer = await shared.waiting(shared.ours, "w", "write")
    assert await shared.java.release("a", "read")
    await gets_in(writer)
    assert await shared.ours.release("w", "write")
