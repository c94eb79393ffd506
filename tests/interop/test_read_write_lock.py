"""Readers and writers of both kinds at one read-write lock.

What all exclusive locks have in common is in test_exclusion.py, for the write side too.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import LeaseLostError, NotHeldError, Redisson
from tests.fixtures.client import ClientFactory
from tests.fixtures.java import JavaFactory, RedissonFactory
from tests.interop.java import Java, JavaObject
from tests.interop.read_write import SOON, Shared, gets_in, java_sides, our_sides
from tests.interop.tasks import Tasks
from tests.interop.waits import until_asleep
from tests.support.waiting import set_safety_poll, until, until_async, until_waiting

pytestmark = pytest.mark.also("interop-cluster")


@pytest_asyncio.fixture
async def shared(
    redis: Redis, redisson: JavaObject, client: Redisson, tasks: Tasks, only_messages: None
) -> Shared:
    """A client on each side; ours wake by messages only."""
    return Shared(redis, await java_sides(redisson), client, tasks)


async def test_readers_of_both_kinds_keep_writers_of_both_out(shared: Shared) -> None:
    java, ours = shared.java, shared.ours
    assert await java.acquire("a", "read")
    assert await ours.acquire("b", "read")
    for locks in (java, ours):
        assert not await locks.acquire("w", "write")
        assert not await locks.wait("w", 0.5, "write")
        assert await locks.acquire("c", "read")
        assert await locks.release("c", "read")
    # Each kind is the last to leave once.
    assert await java.release("a", "read")
    assert not await java.acquire("w", "write")
    assert await java.acquire("a", "read")
    assert await ours.release("b", "read")
    assert not await ours.acquire("w", "write")
    assert await java.release("a", "read")
    assert await shared.redis.exists("k") == 0


@pytest.mark.parametrize("ours_is_last", [False, True])
async def test_the_last_reader_lets_a_writer_of_the_other_side_in(
    shared: Shared, ours_is_last: bool
) -> None:
    last, other = shared.sides(ours_is_last)
    assert await last.acquire("a", "read")
    assert await other.acquire("b", "read")
    writer = await shared.waiting(other, "w", "write")
    # Readers come in while a writer waits.
    assert await last.acquire("c", "read")
    for locks, who in ((other, "b"), (last, "c")):
        assert await locks.release(who, "read")
        assert not writer.done()
    assert await last.release("a", "read")
    await gets_in(writer)
    assert not await last.acquire("a", "read")
    assert await other.release("w", "write")


@pytest.mark.parametrize("ours_writes", [False, True])
async def test_a_writer_lets_all_readers_of_both_sides_in(
    shared: Shared, client: Redisson, ours_writes: bool
) -> None:
    writes, _ = shared.sides(ours_writes)
    assert await writes.acquire("w", "write")
    readers = [
        (locks, who, await shared.waiting(locks, who, "read"))
        for locks, who in ((shared.java, "a"), (shared.ours, "b"))
    ]
    for locks, who in ((shared.java, "c"), (shared.ours, "d")):
        readers.append((locks, who, locks.wait(who, None, "read")))
    # A thread that does not sleep yet would not hear of it: docs/redisson.md.
    await until_asleep(shared.java.lock("read"), "c")
    await until_waiting(client, 2)
    assert await writes.release("w", "write")
    for _, _, waiting in readers:
        await gets_in(waiting)
    assert len(await shared.fields()) == 5
    for locks, who, _ in readers:
        assert await locks.release(who, "read")


async def test_both_sides_see_the_same(shared: Shared, tasks: Tasks) -> None:
    java, ours = shared.java, shared.ours

    async def seen(side: str) -> None:
        theirs, mine = java.lock(side), ours.lock(side)
        assert await theirs.call("isLocked") == await mine.locked()
        left = await mine.remaining()
        assert await theirs.call("remainTimeToLive") == pytest.approx((left or -0.002) * 1000, 0.1)

    async def all_seen(*locked: str) -> None:
        for side in ("read", "write"):
            await seen(side)
            assert await ours.lock(side).locked() == (side in locked)

    async def held(side: str) -> tuple[list[object], list[object]]:
        lock, mine = java.lock(side), ours.lock(side)
        return (
            [
                await lock.call(each, thread="a")
                for each in ("isHeldByCurrentThread", "getHoldCount")
            ],
            [await tasks.call("b", each) for each in (mine.owned, mine.hold_count)],
        )

    await all_seen()
    assert await held("read") == await held("write") == ([False, 0], [False, 0])
    assert await java.acquire("a", "read")
    assert await ours.acquire("b", "read", lease=20)
    assert await ours.acquire("b", "read", lease=40)
    await all_seen("read")
    assert await held("read") == ([True, 1], [True, 2])
    assert await held("write") == ([False, 0], [False, 0])
    assert await java.release("a", "read")
    await all_seen("read")
    assert await ours.release("b", "read")
    assert await ours.release("b", "read")
    await all_seen()
    for locks, who, expected in (
        (java, "a", ([True, 1], [False, 0])),
        (ours, "b", ([False, 0], [True, 1])),
    ):
        assert await locks.acquire(who, "write")
        await all_seen("write")
        assert await locks.acquire(who, "read")
        await all_seen("read", "write")
        assert await held("read") == await held("write") == expected
        assert await locks.release(who, "write")
        await all_seen("read")
        assert await locks.release(who, "read")


async def test_an_upgrade_is_refused_by_redisson_for_ever_and_by_us_at_once(
    shared: Shared,
) -> None:
    java, ours = shared.java, shared.ours
    assert await java.acquire("a", "read")
    assert not await java.wait("a", 0.05, "write")
    assert await ours.acquire("b", "read")
    with pytest.raises(RuntimeError, match="would wait for itself"):
        await ours.wait("b", None, "write")
    assert await java.release("a", "read")
    assert not await java.acquire("a", "write")
    assert await ours.release("b", "read")


async def test_our_downgrade_admits_our_readers_at_once_and_javas_at_lease_end(
    shared: Shared, clients: ClientFactory, tasks: Tasks
) -> None:
    assert await shared.ours.acquire("w", "write", lease=6)
    theirs = await shared.waiting(shared.java, "a", "read")
    assert await shared.ours.acquire("w", "read")
    other = clients()
    mine = our_sides(other, tasks).wait("b", None, "read")
    await until_waiting(other, 1)
    await until(lambda: other.statistics().waiters and not other._context.pending)
    assert await shared.ours.release("w", "write")
    # Both long before the lease of the reads is over, which is what Redis says is left.
    await gets_in(mine)
    assert 20 < await shared.left() <= 30
    # Redisson ignores our message, as its fixture asserts, and asks when the writer's is over.
    await gets_in(theirs)
    assert {*(await shared.fields()).values()} == {"read", "1"}
    assert not await shared.java.acquire("x", "write")
    await our_release(tasks, other)
    assert await shared.java.release("a", "read")
    assert await shared.ours.release("w", "read")


async def our_release(tasks: Tasks, client: Redisson) -> None:
    """Have the reader of another client leave."""
    assert await our_sides(client, tasks).release("b", "read")


async def test_our_readers_see_a_downgrade_by_redisson_at_their_next_safety_poll(
    shared: Shared, clients: ClientFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await shared.java.acquire("w", "write")
    assert await shared.java.acquire("w", "read")
    set_safety_poll(monkeypatch, 0.2)
    reader = await shared.waiting(shared.ours, "a", "read")
    assert await shared.java.release("w", "write")
    # Redisson published nothing.
    await gets_in(reader)
    assert not await shared.ours.acquire("x", "write")
    assert await shared.java.release("w", "read")
    assert not await shared.java.acquire("x", "write")
    assert await shared.ours.release("a", "read")


@pytest.mark.parametrize("ours_forces", [False, True])
async def test_a_forced_release_frees_it_from_readers_of_both_sides(
    shared: Shared, ours_forces: bool
) -> None:
    forces, _ = shared.sides(ours_forces)
    for locks, who in ((shared.java, "a"), (shared.ours, "b")):
        assert await locks.acquire(who, "read")
    assert not await forces.force("write")
    writers = [await shared.waiting(locks, "w", "write") for locks in (shared.ours, shared.java)]
    assert await forces.force("read")
    async with asyncio.timeout(SOON):
        await asyncio.wait(writers, return_when=asyncio.FIRST_COMPLETED)
    # The leases of readers who were forced out end by themselves, and let nobody in.
    assert len(await shared.redis.keys("*:rwlock_timeout:*")) == 2
    for locks, who in ((shared.java, "a"), (shared.ours, "b")):
        assert not await locks.release(who, "read")
        assert not await locks.acquire(who, "read")
    first = 0 if writers[0].done() else 1
    for place in (first, 1 - first):
        await gets_in(writers[place])
        assert await (shared.ours, shared.java)[place].release("w", "write")


@pytest.mark.parametrize("ours_forces", [False, True])
async def test_a_forced_release_frees_it_from_a_writer_of_the_other_side(
    shared: Shared, ours_forces: bool
) -> None:
    forces, holds = shared.sides(ours_forces)
    assert await holds.acquire("w", "write")
    assert await holds.acquire("w", "read")
    assert not await forces.force("read")
    readers = [await shared.waiting(locks, "a", "read") for locks in (shared.java, shared.ours)]
    assert await forces.force("write")
    for reader in readers:
        await gets_in(reader)
    for side in ("read", "write"):
        assert not await holds.release("w", side)
    for locks in (shared.java, shared.ours):
        assert await locks.release("a", "read")


async def test_what_is_over_is_released_in_vain(
    shared: Shared, java: Java, tasks: Tasks, redis: Redis
) -> None:
    for side in ("read", "write"):
        assert await shared.ours.acquire("b", side)
        await redis.delete("k")
        with pytest.raises(LeaseLostError):
            await tasks.call("b", shared.ours.lock(side).release)
        with pytest.raises(NotHeldError):
            await tasks.call("b", shared.ours.lock(side).release)
        assert await shared.java.acquire("a", side)
        await redis.delete("k")
        # Until 3.44.0 Redisson said that it succeeded.
        assert await shared.java.release("a", side) == (not java.since(3, 44))


#: Seconds: short enough to outlive in a test, long enough for a busy machine.
SHORT = 2.25
#: Milliseconds: far more than is left of a short lease.
MUCH = 15_000
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
    """What may be left of a lease after a while."""
    return pytest.approx(seconds - 20, abs=20)


async def test_each_side_finds_the_longest_lease_among_both(
    redis: Redis, redisson: JavaObject, client: Redisson, java: Java, tasks: Tasks
) -> None:
    theirs, ours = await java_sides(redisson), our_sides(client, tasks)
    thread = f"{await redisson.call('getId')}:{await java.driver.call('threadId', 'a')}"
    assert await theirs.acquire("a", "read", lease=300)
    assert await theirs.acquire("a", "read", lease=50)
    lease = await tasks.call("b", ours.lock("read").acquire, lease_time=600)
    assert await ours.acquire("b", "read", lease=100)
    assert await reader_keys(redis) == {
        f"{{k}}:{thread}:rwlock_timeout:1": about(300),
        f"{{k}}:{thread}:rwlock_timeout:2": about(50),
        f"{{k}}:{lease.owner}:rwlock_timeout:1": about(600),
        f"{{k}}:{lease.owner}:rwlock_timeout:2": about(100),
    }
    shared = Shared(redis, theirs, client, tasks)
    assert await shared.fields() == {"mode": "read", thread: "2", lease.owner: "2"}
    assert await shared.left() == about(600)
    # Redisson's unlock finds our longest lease.
    assert await theirs.release("a", "read")
    assert await shared.left() == about(600)
    # Ours find Redisson's.
    for _ in range(2):
        assert await ours.release("b", "read")
    assert await shared.left() == about(300)
    assert await ours.acquire("b", "read", lease=100)
    assert await shared.left() == about(300)
    assert await theirs.release("a", "read")
    assert await shared.left() == about(100)
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


async def test_our_short_leases_never_shorten_redissons_long_one(
    redis: Redis, redisson: JavaObject, clients: ClientFactory, tasks: Tasks
) -> None:
    client = clients(lease_time=SHORT)
    theirs, ours = await java_sides(redisson), our_sides(client, tasks)
    assert await theirs.acquire("a", "read")
    assert await ours.acquire("b", "read")
    await renewed(client, 1)
    assert await redis.pttl("k") > MUCH
    assert await ours.release("b", "read")
    assert await redis.pttl("k") > MUCH
    assert await theirs.release("a", "read")


async def until_cut(redis: Redis) -> None:
    """Return when Redisson's renewal has shortened what is left of the lock."""

    async def short() -> bool:
        return 0 < await redis.pttl("k") <= SHORT * 1000

    await until_async(short)


async def test_redissons_renewal_shortens_the_hash_and_its_unlock_mends_it(
    redis: Redis, java: Java, redissons: RedissonFactory, client: Redisson, tasks: Tasks
) -> None:
    theirs, ours = await java_sides(await redissons(**SHORT_WATCHDOG)), our_sides(client, tasks)
    assert await ours.acquire("b", "read", lease=600)
    assert await theirs.acquire("a", "read")
    await until_cut(redis)
    # Before 4.4.0 it did the same to the leases of all readers, and there was nothing to mend.
    longest = 600 if java.since(4, 4) else SHORT
    assert max((await reader_keys(redis)).values()) == about(longest)
    assert await theirs.release("a", "read")
    assert await redis.pttl("k") / 1000 == about(longest)
    assert await ours.release("b", "read") or not java.since(4, 4)


async def test_a_long_lease_that_redisson_cut_off_outlives_the_machine_that_did(
    redis: Redis,
    java: Java,
    start_java: JavaFactory,
    clients: ClientFactory,
    tasks: Tasks,
    server_url: str,
) -> None:
    machine = start_java()
    doomed = await java_sides(await machine.connect(server_url, **SHORT_WATCHDOG))
    lock = clients(lease_time=SHORT).get_read_write_lock("k").read_lock()
    lease = await tasks.call("b", lock.acquire, lease_time=60)
    assert await doomed.acquire("a", "read")
    (key,) = set(await reader_keys(redis)) - {f"{{k}}:{lease.owner}:rwlock_timeout:1"}
    await until_cut(redis)
    await asyncio.to_thread(machine.kill)

    async def forgotten() -> bool:
        return key not in await reader_keys(redis)

    await until_async(forgotten)
    if not java.since(4, 4):
        # It did the same to the lease of our reader, whose task is told.
        async with asyncio.timeout(30):
            await lease.wait_lost()
        return
    assert await redis.pttl("k") / 1000 == about(60)
    assert not lease.lost
    assert await tasks.call("b", lock.release) is None


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
    long = await tasks.call("c", other.acquire, lease_time=60)
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
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.interop.reader", server_url, str(SHORT), stdout=PIPE
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"reading\n"
        (key,) = await reader_keys(redis)
        assert await shared.java.acquire("a", "read")
    finally:
        process.kill()
        await process.communicate()

    async def forgotten() -> bool:
        return key not in await reader_keys(redis)

    if java.since(4, 4):
        await until_async(forgotten)
    # Older releases renew the leases of all readers, dead ones too, as long as they read.
    writer = await shared.waiting(shared.ours, "w", "write")
    assert await shared.java.release("a", "read")
    await gets_in(writer)
    assert await shared.ours.release("w", "write")
