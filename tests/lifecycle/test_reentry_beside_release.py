"""A re-entry that fails while another task gives back the first lease.

Each is sent without knowing of the other. In the end nothing is held, on the server or here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from redisson_py import ConnectionLostError, LeaseLostError, RedissonError
from redisson_py._time import now
from tests.fixtures.redis_server import ProxyFactory
from tests.support.kinds import DISTINCT_LOCKS, SINGLE, Party, Stage

reentrant = pytest.mark.parametrize("stage", DISTINCT_LOCKS, indirect=True)


class Reentry:
    """A task that holds the lock, and enters it again when it is told to.

    Attributes:
        first: Its first lease.
        task: The task; its result is the second lease.
    """

    def __init__(self, party: Party, **options: float) -> None:
        self.first: Any = None
        self._party = party
        self._options = options
        self._held = asyncio.Event()
        self._go_on = asyncio.Event()
        self.task = asyncio.create_task(self._work())

    async def _work(self) -> Any:
        self.first = await self._party.thing.acquire()
        self._held.set()
        await self._go_on.wait()
        return await self._party.thing.acquire(**self._options)

    async def held(self) -> None:
        await self._held.wait()

    def begin(self, beside: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Have both begin in the next turn of the event loop, the re-entry first."""
        self._go_on.set()

        async def run() -> None:
            await beside()

        return asyncio.create_task(run())


@reentrant
async def test_re_entry_answered_after_the_end_does_not_move_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = 0.0
    for module in ("hold", "watchdog"):
        monkeypatch.setattr(f"redisson_py._engine.{module}.now", lambda: now() + late)
    party = stage.party(lease_time=10)
    reentry = Reentry(party, lease_time=60)
    await reentry.held()

    async def end_passes() -> None:
        nonlocal late
        # The timers of the event loop do not know of it.
        late = 20.0
        assert reentry.first.lost

    await reentry.begin(end_passes)
    with pytest.raises(LeaseLostError):
        await reentry.task
    assert reentry.first.lost
    await stage.assert_nothing_held(party)


@reentrant
async def test_refused_re_entry_beside_a_release(stage: Stage) -> None:
    party = stage.party()
    reentry = Reentry(party)
    await reentry.held()
    async with stage.no_memory():
        releasing = reentry.begin(reentry.first.release)
        with pytest.raises(RedissonError):
            await reentry.task
        await releasing
    await stage.assert_nothing_held(party)


@pytest.mark.parametrize(
    "stage", [name for name in DISTINCT_LOCKS if name in SINGLE], indirect=True
)
async def test_re_entry_that_is_never_sent_beside_a_release(
    stage: Stage, proxy: ProxyFactory
) -> None:
    link = await proxy()
    party = stage.party(url=link.url)
    reentry = Reentry(party, timeout=0.5)
    await reentry.held()
    link.refuse()
    link.cut()
    await link.wait_until(lambda link: link.refused > 0)
    releasing = reentry.begin(reentry.first.release)
    with pytest.raises(ConnectionLostError):
        await reentry.task
    link.pass_through()
    await releasing
    await stage.assert_nothing_held(party)


@reentrant
async def test_cancelled_re_entry_beside_a_release(stage: Stage) -> None:
    party = stage.party()
    reentry = Reentry(party)
    await reentry.held()

    async def release_and_cancel() -> None:
        releasing = asyncio.create_task(reentry.first.release())
        await asyncio.sleep(0)
        reentry.task.cancel()
        await releasing

    releasing = reentry.begin(release_and_cancel)
    with pytest.raises(asyncio.CancelledError):
        await reentry.task
    await releasing
    await stage.assert_nothing_held(party)


@reentrant
@pytest.mark.more
async def test_granted_re_entry_beside_a_release(stage: Stage) -> None:
    """What the re-entry was granted is held on, under its own lease."""
    party, rival = stage.party(lease_time=6), await stage.rival().connected()
    reentry = Reentry(party)
    await reentry.held()
    releasing = reentry.begin(reentry.first.release)
    second = await reentry.task
    await releasing
    await party.renewed(2)
    assert not second.lost
    assert await rival.thing.try_acquire() is None
    await second.release()
    await stage.assert_nothing_held(party)


@reentrant
@pytest.mark.more
async def test_refused_re_entry_leaves_the_first_lease(stage: Stage) -> None:
    party, rival = stage.party(lease_time=6), await stage.rival().connected()
    async with party.thing as first:
        async with stage.no_memory():
            with pytest.raises(RedissonError):
                await party.thing.acquire()
        assert await party.thing.hold_count() == 1
        await party.renewed(2)
        assert not first.lost
        assert await rival.thing.try_acquire() is None
    await stage.assert_nothing_held(party)
