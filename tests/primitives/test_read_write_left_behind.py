"""Read-write locks when an answer is lost or nobody waits for it any more: nothing is left behind.

The write side goes through the contract's sweep like every exclusive lock. Here are the ways
that only a reader has: beside others, after a writer, under its own write hold.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import Lease, LeaseLostError, Redisson
from redisson_py.locks.read_write_lock import ReadWriteLock
from tests.fixtures.client import ClientFactory, assert_idle
from tests.fixtures.redis_server import ProxyFactory
from tests.primitives.read_write import (
    Held,
    all_asleep,
    fields,
    held_by_another_task,
    read_write_lock,
)
from tests.support.cancellation_scene import SOON, finish
from tests.support.cancellation_sweep import Probe, sweep
from tests.support.streams import answered
from tests.support.waiting import set_safety_poll


class TestReadsUnderAWriteHold:
    """What is left of a read does not spoil the next under the same owner."""

    async def test_reads_go_on_after_one_was_cancelled(
        self, clients: ClientFactory, proxy: ProxyFactory, redis: Redis
    ) -> None:
        link = await proxy()
        lock = read_write_lock(clients(link.url))
        async with lock.write_lock() as write:
            link.hold()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await lock.read_lock().acquire()
            link.release_held()
            await read_twice(lock)
            assert await fields(redis) == {"mode": "write", write.owner + ":write": "1"}
        assert await fields(redis) == {}

    async def test_reads_go_on_after_one_was_lost_while_it_was_extended(
        self, clients: ClientFactory, proxy: ProxyFactory, redis: Redis
    ) -> None:
        """The answer will be followed by an undo."""
        link = await proxy()
        lock = read_write_lock(clients(link.url))
        async with lock.write_lock() as write:
            read = await lock.read_lock().acquire(lease_time=1)
            link.hold()
            extending = asyncio.create_task(read.extend(5))
            await read.wait_lost()
            link.release_held()
            with pytest.raises(LeaseLostError):
                await extending
            await read_twice(lock)
            assert await fields(redis) == {"mode": "write", write.owner + ":write": "1"}
        with pytest.raises(LeaseLostError):
            await read.release()


async def read_twice(lock: ReadWriteLock) -> None:
    """Enter the read side again, as often as two late duplicates could spoil it."""
    for _ in range(2):
        async with lock.read_lock() as read:
            assert await lock.read_lock().hold_count() == 1
        assert not read.lost


class Scene:
    """The lock of a client whose operation is cancelled, and of another client."""

    def __init__(self, lock: ReadWriteLock, far: ReadWriteLock) -> None:
        self.lock = lock
        self.far = far

    def when_asleep(self, act: Callable[[], object]) -> Callable[[], object]:
        """Act at the suspensions where the operation waits for a release."""
        context = self.lock.read_lock()._context
        return lambda: context.pending or act()


Trial = Callable[[Scene, Probe], Coroutine[Any, Any, None]]


async def read(scene: Scene, cut: Probe) -> None:
    await finish(await cut(scene.lock.read_lock().acquire()))


async def read_beside_others(scene: Scene, cut: Probe) -> None:
    async with scene.far.read_lock() as others:
        await finish(await cut(scene.lock.read_lock().acquire()))
        assert not others.lost
        assert await scene.far.read_lock().hold_count() == 1


async def read_again(scene: Scene, cut: Probe) -> None:
    async with scene.lock.read_lock():
        await finish(await cut(scene.lock.read_lock().acquire()))
        assert await scene.lock.read_lock().hold_count() == 1


async def stop_reading_beside_others(scene: Scene, cut: Probe) -> None:
    async with scene.far.read_lock():
        await scene.lock.read_lock().acquire(lease_time=20)
        await cut(scene.lock.read_lock().release())


async def read_after_a_writer(scene: Scene, cut: Probe) -> None:
    await after_a_writer(scene, cut, others=0)


async def read_after_a_writer_with_others(scene: Scene, cut: Probe) -> None:
    await after_a_writer(scene, cut, others=3)


async def after_a_writer(scene: Scene, cut: Probe, others: int) -> None:
    """Cancelled in its sleep, it is away before the writer, and the others enter all the same."""
    write = await held_by_another_task(scene.far.write_lock())
    waiting = [
        asyncio.create_task(held_by_another_task(scene.lock.read_lock())) for _ in range(others)
    ]
    await all_asleep(scene.lock, others)
    await get_after([write], scene, cut, scene.lock.read_lock().acquire())
    for each in await asyncio.gather(*waiting):
        await each.let_go()


async def get_after(
    holders: list[Held], scene: Scene, cut: Probe, operation: Coroutine[Any, Any, Lease]
) -> None:
    """Cancel an operation that waits for others, which leave when it sleeps."""
    leaving: list[asyncio.Task[None]] = []

    def leave() -> None:
        if not leaving:
            leaving.extend(asyncio.create_task(each.let_go()) for each in holders)

    def leave_unless_cancelled() -> None:
        if cut.answered or cut.point is None:
            leave()

    lease = await cut(operation, scene.when_asleep(leave_unless_cancelled))
    leave()
    await asyncio.gather(*leaving)
    await finish(lease)


async def read_what_one_writes(scene: Scene, cut: Probe) -> None:
    async with scene.lock.write_lock():
        await finish(await cut(scene.lock.read_lock().acquire()))


async def stop_reading_what_one_writes(scene: Scene, cut: Probe) -> None:
    async with scene.lock.write_lock():
        await scene.lock.read_lock().acquire()
        await cut(scene.lock.read_lock().release())


async def go_on_reading_what_one_wrote(scene: Scene, cut: Probe) -> None:
    await scene.lock.write_lock().acquire()
    async with scene.lock.read_lock():
        await cut(scene.lock.write_lock().release())
        # The downgrade is carried out, whatever its caller waits for.
        async with scene.far.read_lock().hold(timeout=SOON):
            pass


async def write_after_readers(scene: Scene, cut: Probe) -> None:
    reads = [await held_by_another_task(scene.far.read_lock()) for _ in range(2)]
    await get_after(reads, scene, cut, scene.lock.write_lock().acquire())


TRIALS: list[Trial] = [
    read,
    read_beside_others,
    read_again,
    stop_reading_beside_others,
    read_after_a_writer,
    read_after_a_writer_with_others,
    read_what_one_writes,
    stop_reading_what_one_writes,
    go_on_reading_what_one_wrote,
    write_after_readers,
]


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.__name__)
async def test_cancelled_at_any_point_it_leaves_nothing(
    trial: Trial,
    client: Redisson,
    clients: ClientFactory,
    redis: Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Nobody is to be woken by anything but what this is about.
    set_safety_poll(monkeypatch, 6 * SOON)
    other = clients()
    scene = Scene(read_write_lock(client), read_write_lock(other))

    async def run(cut: Probe) -> None:
        await trial(scene, cut)
        await answered(client)
        assert await fields(redis) == {}
        assert await redis.keys("*rwlock_timeout*") == []
        for each in (client, other):
            assert_idle(each)
        for lock in (scene.lock, scene.far):
            # The other client may have a turn.
            async with lock.write_lock().hold(timeout=SOON), lock.read_lock().hold(timeout=0):
                pass

    swept = await sweep(run)
    assert swept.cancellations >= 3
