"""Readers and writers of both kinds at one read-write lock.

What all exclusive locks have in common is in test_exclusion.py, for the write side too.
"""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import Redisson
from tests.fixtures.client import ClientFactory
from tests.interop.java import JavaObject
from tests.interop.read_write import SOON, Shared, gets_in, java_sides, our_sides
from tests.interop.tasks import Tasks
from tests.interop.waits import until_asleep
from tests.support.waiting import set_safety_poll, until, until_waiting

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
    assert await shared.ours.acquire("w", "write", lease=10)
    theirs = await shared.waiting(shared.java, "a", "read")
    assert await shared.ours.acquire("w", "read")
    other = clients()
    mine = our_sides(other, tasks).wait("b", None, "read")
    await until_waiting(other, 1)
    await until(lambda: other.statistics().waiters and not other._context.pending)
    assert await shared.ours.release("w", "write")
    # Both long before the lease of the reads is over, which is what Redis says is left.
    await gets_in(mine)
    assert 10 < await shared.left() <= 30
    # Redisson ignores our message, as its fixture asserts, and asks when the writer's is over.
    await gets_in(theirs)
    assert {*(await shared.fields()).values()} == {"read", "1"}
    assert not await shared.java.acquire("x", "write")
    assert await our_sides(other, tasks).release("b", "read")
    assert await shared.java.release("a", "read")
    assert await shared.ours.release("w", "read")


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
    for number in (first, 1 - first):
        await gets_in(writers[number])
        assert await (shared.ours, shared.java)[number].release("w", "write")
