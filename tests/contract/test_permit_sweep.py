"""Cancelled at any suspension point, in any way, a semaphore's operation leaves nothing behind.

As `test_cancellation_sweep.py`, for what has permits instead of a holder. After each trial all
units are free, nothing is kept beside the counter, and both clients are idle.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass

import pytest
from redis.asyncio import Redis

from redisson_py import (
    ClientClosedError,
    NotHeldError,
    Permit,
    PermitExpirableSemaphore,
    Redisson,
    Semaphore,
)
from redisson_py._engine.request import AcquireRequest
from tests.fixtures.client import ClientFactory, assert_idle
from tests.fixtures.measured import Measured
from tests.support.cancellation_scene import SOON, Release, finish, once
from tests.support.cancellation_sweep import Probe, Swept, sweep
from tests.support.streams import answered, stream_of
from tests.support.waiting import set_safety_poll, until, until_listening, until_waiting

NAME = "semaphore"

AnySemaphore = Semaphore | PermitExpirableSemaphore


@dataclass(frozen=True)
class PermitKind:
    """A kind of semaphore, and how many units an acquire takes; they are all there are."""

    make: Callable[[Redisson], AnySemaphore]
    units: int = 1

    async def acquire(self, client: Redisson, timeout: float | None = None) -> Permit:
        """Take all units."""
        semaphore = self.make(client)
        if isinstance(semaphore, Semaphore):
            return await semaphore.acquire(self.units, timeout=timeout)
        return await semaphore.acquire(timeout=timeout)

    async def try_acquire(self, client: Redisson) -> Permit | None:
        """Take all units if they are free."""
        semaphore = self.make(client)
        if isinstance(semaphore, Semaphore):
            return await semaphore.try_acquire(self.units)
        return await semaphore.try_acquire()


KINDS = {
    "semaphore": PermitKind(lambda client: client.get_semaphore(NAME, 1)),
    "semaphore, two at once": PermitKind(lambda client: client.get_semaphore(NAME, 2), units=2),
    "expirable": PermitKind(lambda client: client.get_permit_expirable_semaphore(NAME, 1)),
}


class Scene:
    """A client whose operation is cancelled, another client, and one semaphore of both."""

    def __init__(self, kind: PermitKind, clients: ClientFactory, redis: Redis) -> None:
        self.kind = kind
        self.redis = redis
        # A turn so long that a hold is passed on however slow the machine is.
        self.new_client = functools.partial(clients, turn=30)
        self.client, self.other = self.new_client(), self.new_client()

    def asleep(self) -> bool:
        """Whether every waiter waits for a release, and not for an answer."""
        pending = self.client._context.pending
        return not any(
            isinstance(request, AcquireRequest) and request.is_pending for request in pending
        )

    async def taken_by(self, client: Redisson) -> Release:
        """Have a task take all units; return what gives them back."""
        return once((await asyncio.create_task(self.kind.acquire(client))).release)

    async def get_after(self, leave: Release, cut: Probe, others: int = 0) -> None:
        """Cancel an acquire that waits for a release, which comes when it sleeps."""

        def leave_unless_cancelled() -> None:
            if self.asleep() and (cut.answered or cut.place is None):
                leave()

        permit = await cut(self.kind.acquire(self.client), leave_unless_cancelled)
        assert self.client.statistics().waiters <= others
        await leave()
        await finish(permit)

    async def follow(self) -> None:
        """The operation of a client that comes later."""
        permit = await self.kind.acquire(self.client, timeout=SOON)
        await permit.release()

    async def check(self) -> None:
        """Fail if anything is left."""
        await answered(self.client)
        assert await self.kind.make(self.client).available() == self.kind.units
        beside = [key for key in await self.redis.keys("*redisson_py*") if b"tombstone" not in key]
        assert [key for key in beside if b"client:" not in key and b"receipt" not in key] == []
        assert_idle(self.client)
        for client in (self.client, self.other):
            permit = await self.kind.acquire(client, timeout=SOON)
            await permit.release()


Trial = Callable[[Scene, Probe], Coroutine[object, object, None]]
TRIALS: list[Trial] = []


def trial(function: Trial) -> Trial:
    """Have the sweep run this."""
    TRIALS.append(function)
    return function


@trial
async def acquire_free_units(scene: Scene, cut: Probe) -> None:
    await finish(await cut(scene.kind.acquire(scene.client)))


@trial
async def try_acquire_once(scene: Scene, cut: Probe) -> None:
    await finish(await cut(scene.kind.try_acquire(scene.client)))


@trial
async def acquire_while_connecting(scene: Scene, cut: Probe) -> None:
    client = scene.new_client()
    await finish(await cut(scene.kind.acquire(client)))
    assert_idle(client)
    await client.aclose()


@trial
async def acquire_while_reconnecting(scene: Scene, cut: Probe) -> None:
    await answered(scene.client)
    stream_of(scene.client).abort("the test says so")
    await finish(await cut(scene.kind.acquire(scene.client)))


@trial
async def acquire_after_another_client(scene: Scene, cut: Probe) -> None:
    await scene.get_after(await scene.taken_by(scene.other), cut)


@trial
async def acquire_passed_from_another_task(scene: Scene, cut: Probe) -> None:
    await scene.get_after(await scene.taken_by(scene.client), cut)


@trial
async def acquire_passed_and_to_be_passed_on(scene: Scene, cut: Probe) -> None:
    leave = await scene.taken_by(scene.client)
    follow = once(scene.follow)
    permit = await cut(
        scene.kind.acquire(scene.client), lambda: scene.asleep() and (follow(), leave())
    )
    await leave()
    await finish(permit)
    await follow()


@trial
async def acquire_behind_another_task(scene: Scene, cut: Probe) -> None:
    leave = await scene.taken_by(scene.other)
    before = asyncio.create_task(scene.follow())
    await until_listening(scene.client)
    await scene.get_after(leave, cut, others=1)
    await before


@trial
async def release(scene: Scene, cut: Probe) -> None:
    permit = await scene.kind.acquire(scene.client)
    await cut(permit.release())
    with pytest.raises(NotHeldError):
        await permit.release()


@trial
async def release_by_passing_to_another_task(scene: Scene, cut: Probe) -> None:
    permit = await scene.kind.acquire(scene.client)
    following = asyncio.create_task(scene.follow())
    await until_waiting(scene.client, 1)
    await cut(permit.release())
    await following


@trial
async def release_while_another_client_listens(scene: Scene, cut: Probe) -> None:
    permit = await scene.kind.acquire(scene.client)
    following = asyncio.create_task(scene.kind.acquire(scene.other, timeout=SOON))
    await until_listening(scene.other)
    await cut(permit.release())
    await (await following).release()


@trial
async def extend(scene: Scene, cut: Probe) -> None:
    permit = await scene.kind.acquire(scene.client)
    await cut(permit.extend(60))
    assert not permit.lost
    await permit.release()


@trial
async def block(scene: Scene, cut: Probe) -> None:
    async def work() -> None:
        async with scene.kind.make(scene.client):
            await answered(scene.client)

    await cut(work())


@trial
async def aclose(scene: Scene, cut: Probe) -> None:
    client = scene.new_client()
    permit = await scene.kind.acquire(client)
    waiting = [asyncio.create_task(scene.kind.acquire(client)) for _ in range(2)]
    await until_waiting(client, 2)
    await until_listening(client)
    root = client._root
    assert root is not None
    await cut(client.aclose())
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {ClientClosedError}
    await client.aclose()
    await until(root.done)
    assert permit.remaining == 0


@pytest.fixture(autouse=True)
def no_safety_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch off the safety poll, so that only messages wake waiters."""
    set_safety_poll(monkeypatch, 6 * SOON)


_swept: dict[str, Swept] = {}


@pytest.mark.parametrize("each", TRIALS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("kind", KINDS)
async def test_sweep(each: Trial, kind: str, clients: ClientFactory, redis: Redis) -> None:
    scene = Scene(KINDS[kind], clients, redis)

    async def run(cut: Probe) -> None:
        await each(scene, cut)
        await scene.check()

    _swept.setdefault(kind, Swept()).add(await sweep(run))


def test_points_swept(measured: Measured) -> None:
    if not _swept:
        pytest.skip("nothing was swept in this run")
    for kind, swept in _swept.items():
        measured(f"points swept, {kind}", swept)
