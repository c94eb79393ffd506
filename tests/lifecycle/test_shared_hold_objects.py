"""Two tasks that enter one `hold()` object (issue 12, item 3).

The second is refused at once, before it asks for anything, and the first is not affected.
"""

from __future__ import annotations

import asyncio
from typing import Any, Self

import pytest

from redisson_py import AcquireTimeoutError
from tests.support.kinds import SHARED, Stage
from tests.support.streams import answered
from tests.support.waiting import until

each_ownership = pytest.mark.parametrize("stage", ["lock", "red_lock", "semaphore"], indirect=True)
"""The blocks of `hold()` are of one class, which knows nothing of what it acquires."""

#: Seconds; shorter than anything else that could end the second's wait.
AT_ONCE = 5


class Visitor:
    """A task that enters a block and stays in it, at most until the `async with` of this ends.

    Attributes:
        task: The task; its result is whether it still had the lease when it left.
        inside: Set when it has entered.
    """

    def __init__(self, block: Any) -> None:
        self.inside = asyncio.Event()
        self._may_leave = asyncio.Event()
        self.task = asyncio.create_task(self._stay_in(block))

    async def _stay_in(self, block: Any) -> bool:
        async with block as lease:
            self.inside.set()
            await self._may_leave.wait()
            return bool(lease.remaining > 0)

    async def leave(self) -> bool:
        """Have it leave; return whether it still had the lease."""
        self._may_leave.set()
        return await self.task

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


async def assert_refused(block: Any) -> None:
    """Fail unless the current task is refused because another uses this block."""
    with pytest.raises(RuntimeError, match=r"hold\(\)"):
        async with asyncio.timeout(AT_ONCE), block:
            pass


@each_ownership
async def test_two_tasks_enter_at_once(stage: Stage) -> None:
    stage.permits = 2
    party = stage.party()
    block = party.thing.hold()
    async with Visitor(block) as first:
        await asyncio.create_task(assert_refused(block))
        await first.inside.wait()
        await assert_refused(block)
        assert await stage.out() == 1
        assert await first.leave() is True
    async with block as lease:
        assert lease.remaining > 0
    await stage.assert_nothing_held(party)


@each_ownership
async def test_second_comes_while_the_first_waits(stage: Stage) -> None:
    party, rival = stage.party(), stage.rival()
    theirs = await rival.thing.acquire()
    block = party.thing.hold()
    async with Visitor(block) as first:
        await until(lambda: party.waiters == 1)
        await assert_refused(block)
        assert not first.task.done()
        await theirs.release()
        await first.inside.wait()
        assert await first.leave() is True
    async with block:
        pass
    await stage.assert_nothing_held(party, rival)


@each_ownership
async def test_used_again_after_the_first_ran_out_of_time(stage: Stage) -> None:
    party, rival = stage.party(), stage.rival()
    theirs = await rival.thing.acquire()
    for client in party.clients:
        await answered(client)
    block = party.thing.hold(timeout=1)
    with pytest.raises(AcquireTimeoutError):
        async with block:
            pass
    await theirs.release()
    async with block as lease:
        assert lease.remaining > 0
        await asyncio.create_task(assert_refused(block))
    await stage.assert_nothing_held(party, rival)


@each_ownership
async def test_used_again_after_the_first_was_cancelled(stage: Stage) -> None:
    party, rival = stage.party(), stage.rival()
    theirs = await rival.thing.acquire()
    block = party.thing.hold()
    async with Visitor(block) as first:
        await until(lambda: party.waiters == 1)
        first.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first.task
    await theirs.release()
    async with block as lease:
        assert lease.remaining > 0
    await stage.assert_nothing_held(party, rival)


@pytest.mark.parametrize("stage", SHARED, indirect=True)
async def test_two_tasks_enter_blocks_of_their_own(stage: Stage) -> None:
    stage.permits = 2
    party = stage.party()
    async with Visitor(party.thing.hold()) as first, Visitor(party.thing.hold()) as second:
        await first.inside.wait()
        await second.inside.wait()
        assert await stage.out() == 2
        assert await first.leave() is True
        assert await second.leave() is True
    await stage.assert_nothing_held(party)
