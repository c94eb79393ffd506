"""Watchdogs of both sides at work at once, and holders of either that are killed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import LeaseLostError
from redisson_py._time import now
from tests.fixtures.fleet import Fleet
from tests.fixtures.java import JavaFactory
from tests.interop.holder import holding
from tests.interop.java import JavaObject
from tests.interop.kinds import LONG, SOON, Scene, at_once, that_look_again, until_ours_waits
from tests.support.waiting import set_safety_poll, until_async

#: The lease of the watchdogs, in seconds: each side may stand still for most of it.
LEASE = 12.0
#: More than there are in one of its lengths.
RENEWALS = 4


class Renewals:
    """Counts how often the lease of a lock was set anew."""

    def __init__(self, redis: Redis, key: str) -> None:
        self._redis = redis
        self._key = key
        self._left = 0
        self.count = 0

    async def look(self) -> bool:
        """Look at it once; return whether it was renewed often enough."""
        left = await self._redis.pttl(self._key)
        assert 0 < left <= 1000 * LEASE, f"{self._key!r} has {left} ms left"
        self.count += left > self._left
        self._left = left
        return self.count >= RENEWALS


async def until_renewed(scene: Scene) -> None:
    """Return when the lock was kept, where it is held, for several lengths of its lease."""
    async with asyncio.TaskGroup() as group:
        for redis in await scene.holding():
            group.create_task(until_async(Renewals(redis, scene.name).look, 120))


async def ours_is_kept(scene: Scene) -> None:
    theirs = await scene.theirs(lockWatchdogTimeout=round(1000 * LEASE))
    async with scene.ours(lease_time=LEASE) as lease:
        waiting = await theirs.waits()
        await until_renewed(scene)
        assert not waiting.done()
        lease.check()
    assert await waiting
    await theirs.unlock("b")


async def theirs_is_kept(scene: Scene) -> None:
    theirs = await scene.theirs(lockWatchdogTimeout=round(1000 * LEASE))
    assert await theirs.try_lock()
    waiting = asyncio.create_task(scene.ours(lease_time=LEASE).acquire())
    await until_renewed(scene)
    assert not waiting.done()
    await theirs.unlock()
    await (await waiting).release()


async def our_long_lease_is_left_alone(scene: Scene) -> None:
    theirs = await scene.theirs(lockWatchdogTimeout=round(1000 * LEASE))
    assert await theirs.try_lock()
    ours = scene.ours()
    # Java's watchdog is not told.
    assert await ours.force_release()
    async with ours.hold(lease_time=LONG) as lease:
        looks = zip(theirs.redissons, scene.redis, strict=True)
        await asyncio.gather(*(renews(*each, f"{scene.name} too") for each in looks))
        for redis in await scene.holding():
            assert await redis.pttl(scene.name) > 1000 * LONG / 2
        lease.check()


async def renews(redisson: JavaObject, redis: Redis, name: str) -> None:
    """Return when a client has renewed another lock several times."""
    thread = redisson.java.new_name()
    lock = await redisson.get("getLock", name)
    await lock.call("lock", thread=thread)
    await until_async(Renewals(redis, name).look, 120)
    await lock.call("unlock", thread=thread)


async def their_long_lease_is_left_alone(scene: Scene) -> None:
    theirs = await scene.theirs()
    lease = await scene.ours(lease_time=LEASE).acquire()
    await theirs.force_unlock()
    assert await theirs.try_lock(lease_time=LONG)
    # That it is lost is what its renewal is told.
    await lease.wait_lost()
    for redis in await scene.holding():
        assert await redis.pttl(scene.name) > 1000 * LONG / 2
    await theirs.unlock()
    with pytest.raises(LeaseLostError):
        await lease.release()


async def test_each_watchdog_keeps_what_its_side_holds_and_nothing_else(
    scenes: list[Scene],
) -> None:
    plays = [
        ours_is_kept,
        theirs_is_kept,
        our_long_lease_is_left_alone,
        their_long_lease_is_left_alone,
    ]
    async with asyncio.TaskGroup() as group:
        for number, play in enumerate(plays):
            named = [scene.called(f"{number}{scene.name}") for scene in scenes]
            group.create_task(at_once(named, play))


async def test_we_get_in_when_java_was_killed_but_not_before_its_lease_has_ended(
    scenes: list[Scene], start_java: JavaFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = start_java()
    for scene in scenes:
        theirs = await scene.theirs(java, lockWatchdogTimeout=round(1000 * LEASE))
        assert await theirs.try_lock()

    async def we_get_in(scene: Scene) -> None:
        ours = scene.ours()
        waiting = asyncio.create_task(ours.acquire(timeout=SOON))
        await until_ours_waits(ours)
        asleep.release()
        await killed.wait()
        await in_when_the_lease_has_ended(scene, waiting)
        await (await waiting).release()

    set_safety_poll(monkeypatch, 1000.0)
    asleep, killed = asyncio.Semaphore(0), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(at_once(scenes, we_get_in))
        for _ in scenes:
            await asleep.acquire()
        java.kill()
        killed.set()


async def test_java_gets_in_when_we_were_killed_but_not_before_our_lease_has_ended(
    scenes: list[Scene], server_url: str, fleet: Fleet
) -> None:
    scenes = that_look_again(scenes)
    urls = [server_url, *(server.url for server in fleet.servers[:3])]
    kinds = [scene.name.removeprefix("a ") for scene in scenes]

    async def java_gets_in(scene: Scene) -> None:
        theirs = await scene.theirs()
        waiting = await theirs.waits()
        asleep.release()
        await killed.wait()
        await in_when_the_lease_has_ended(scene, waiting)
        assert await waiting
        await theirs.unlock("b")

    asleep, killed = asyncio.Semaphore(0), asyncio.Event()
    async with holding(LEASE, kinds, *urls) as process, asyncio.TaskGroup() as group:
        group.create_task(at_once(scenes, java_gets_in))
        for _ in scenes:
            await asleep.acquire()
        process.kill()
        await process.wait()
        killed.set()


async def in_when_the_lease_has_ended(scene: Scene, waiting: asyncio.Future[Any]) -> None:
    """Check that a waiter is let in by the end of a lease that nobody renews any more."""
    start, left = now(), [await redis.pttl(scene.name) for redis in scene.redis]
    # A red lock needs two of three.
    needed = sorted(left)[len(left) // 2]
    assert 0 < needed <= 1000 * LEASE
    assert not waiting.done()
    await asyncio.wait([waiting])
    # The server's milliseconds may begin before ours.
    assert now() - start >= needed / 1000 - 0.002
