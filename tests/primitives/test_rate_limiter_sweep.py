"""Cancelled at any suspension point, in any way, a rate limiter loses no unit and gives none twice.

Each trial puts one operation through a probe (see `tests.support.cancellation_sweep`). The interval
is so long that nothing comes back by itself: afterwards exactly those units are gone that a caller
was admitted for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import AcquireTimeoutError, Admission, ClientClosedError
from tests.fixtures.client import ClientFactory, assert_idle
from tests.support.cancellation_scene import SOON, once
from tests.support.cancellation_sweep import Probe, sweep
from tests.support.streams import answered, stream_of
from tests.support.waiting import until_listening

RATE = 5
LONG = 600.0


@pytest_asyncio.fixture(autouse=True)
async def _removed(redis: Redis) -> AsyncIterator[None]:
    """A limiter stays until it is deleted, as Redisson's does."""
    yield
    await redis.flushdb()


class Scene:
    """A client whose operation is cancelled, and another; one limiter of both."""

    def __init__(self, clients: ClientFactory) -> None:
        self.new_client = clients
        self.client, self.other = clients(), clients()
        self.limiter, self.others = (
            each.get_rate_limiter("k", RATE, LONG) for each in (self.client, self.other)
        )
        #: The units that callers were admitted for.
        self.taken = 0

    async def begin(self, taken: int) -> None:
        """Set the limiter, with so many units taken."""
        await self.others.set_rate(RATE, LONG)
        if taken:
            await self.others.acquire(taken)
        self.taken = taken

    def count(self, admission: Admission | None, n: int = 1) -> None:
        """Count what a call returned."""
        if admission:
            self.taken += n

    def asleep(self) -> bool:
        """Whether whoever waits does so for a moment, and not for an answer."""
        stream = stream_of(self.client)
        return self.client._context.bus.table.seats > 0 and stream.ready and not stream.waiting

    def when_asleep(self, cut: Probe, act: Callable[[], object]) -> Callable[[], object]:
        """Act when the operation sleeps, unless it is cancelled there and then."""
        return lambda: self.asleep() and (cut.answered or cut.point is None) and act()

    async def check(self) -> None:
        """Fail if units are missing or were taken twice, or anything else is left."""
        await answered(self.client)
        assert_idle(self.client)
        assert await self.others.available() == RATE - self.taken
        assert await self.limiter.try_acquire(RATE - self.taken or 1) or self.taken == RATE
        assert_idle(self.client)


Trial = Callable[[Scene, Probe], Coroutine[object, object, None]]
TRIALS: list[Trial] = []


def trial(function: Trial) -> Trial:
    TRIALS.append(function)
    return function


@trial
async def acquire(scene: Scene, cut: Probe) -> None:
    await scene.begin(0)
    scene.count(await cut(scene.limiter.acquire(2)), 2)


@trial
async def try_acquire(scene: Scene, cut: Probe) -> None:
    await scene.begin(0)
    scene.count(await cut(scene.limiter.try_acquire()))


@trial
async def try_acquire_in_vain(scene: Scene, cut: Probe) -> None:
    await scene.begin(RATE)
    scene.count(await cut(scene.limiter.try_acquire()))


@trial
async def acquire_while_reconnecting(scene: Scene, cut: Probe) -> None:
    await scene.begin(0)
    await answered(scene.client)
    stream_of(scene.client).abort("the test says so")
    scene.count(await cut(scene.limiter.acquire()))


@trial
async def wait_until_there_is_a_new_rate(scene: Scene, cut: Probe) -> None:
    await scene.begin(RATE)
    change = once(lambda: scene.others.set_rate(RATE, LONG))
    admission = await cut(scene.limiter.acquire(2), scene.when_asleep(cut, change))
    await change()
    # What was admitted before does not count any more.
    scene.taken = 2 if admission else 0


@trial
async def more_than_the_rate_behind_others(scene: Scene, cut: Probe) -> None:
    await scene.begin(RATE)
    waiting = asyncio.create_task(scene.limiter.acquire())
    await until_listening(scene.client)
    try:
        await cut(scene.limiter.acquire(RATE + 1))
    except ValueError:
        assert not waiting.done()
    waiting.cancel()
    await asyncio.wait([waiting])


@trial
async def wait_before_others(scene: Scene, cut: Probe) -> None:
    await scene.begin(RATE)
    follow = [once(lambda: scene.limiter.acquire(1)) for _ in range(2)]
    change = once(lambda: scene.others.set_rate(RATE, LONG))

    def act() -> None:
        for each in follow:
            each()
        change()

    admission = await cut(scene.limiter.acquire(2), scene.when_asleep(cut, act))
    act()
    await change()
    async with asyncio.timeout(SOON):
        await asyncio.gather(*(each() for each in follow))
    scene.taken = 4 if admission else 2


@trial
async def wait_behind_another(scene: Scene, cut: Probe) -> None:
    await scene.begin(RATE)
    head = asyncio.create_task(scene.limiter.acquire(2))
    await until_listening(scene.client)
    change = once(lambda: scene.others.set_rate(RATE, LONG))
    admission = await cut(scene.limiter.acquire(1), scene.when_asleep(cut, change))
    await change()
    async with asyncio.timeout(SOON):
        assert await head
    scene.taken = 3 if admission else 2


@trial
async def take_over_from_a_head_that_left(scene: Scene, cut: Probe) -> None:
    await scene.begin(RATE - 1)
    head = asyncio.create_task(scene.limiter.acquire(2))
    await until_listening(scene.client)
    leave = scene.when_asleep(cut, head.cancel)
    scene.count(await cut(scene.limiter.acquire(1), leave))
    head.cancel()
    await asyncio.wait([head])


@trial
async def wait_until_time_is_up(scene: Scene, cut: Probe) -> None:
    await scene.begin(RATE)
    try:
        scene.count(await cut(scene.limiter.acquire(timeout=0.03)))
    except AcquireTimeoutError:
        assert not cut.cancelled


@trial
async def wait_for_units_that_come_back(scene: Scene, cut: Probe) -> None:
    limiter = scene.client.get_rate_limiter("soon", 1, 0.02)
    await limiter.acquire()
    await cut(limiter.acquire())
    await scene.begin(0)


@trial
async def set_rate(scene: Scene, cut: Probe) -> None:
    await scene.begin(RATE)
    await cut(scene.limiter.set_rate(RATE, LONG))
    scene.taken = 0


@trial
async def delete(scene: Scene, cut: Probe) -> None:
    await scene.begin(RATE)
    await cut(scene.limiter.delete())
    scene.taken = 0


@trial
async def aclose_while_tasks_wait(scene: Scene, cut: Probe) -> None:
    await scene.begin(RATE - 1)
    client = scene.new_client()
    limiter = client.get_rate_limiter("k", RATE, LONG)
    waiting = [asyncio.create_task(limiter.acquire(2)) for _ in range(2)]
    await until_listening(client)
    await cut(client.aclose())
    await client.aclose()
    for outcome in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(outcome, ClientClosedError)


@trial
async def aclose_while_tasks_ask(scene: Scene, cut: Probe) -> None:
    await scene.begin(0)
    client = scene.new_client()
    limiter = client.get_rate_limiter("k", RATE, LONG)
    await answered(client)
    asking = [asyncio.create_task(limiter.try_acquire()) for _ in range(2)]
    asking.append(asyncio.create_task(limiter.acquire()))
    await asyncio.sleep(0)
    await cut(client.aclose())
    await client.aclose()
    for outcome in await asyncio.gather(*asking, return_exceptions=True):
        assert isinstance(outcome, ClientClosedError | Admission)
        scene.count(outcome if isinstance(outcome, Admission) else None)


@pytest.mark.parametrize("each", TRIALS, ids=lambda each: each.__name__)
async def test_sweep(each: Trial, clients: ClientFactory) -> None:
    scene = Scene(clients)

    async def run(cut: Probe) -> None:
        await each(scene, cut)
        await scene.check()

    assert (await sweep(run)).cancellations
