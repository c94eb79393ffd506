"""Two tasks that enter one `hold()` object (issue 12, item 3).

The second is refused at once, before it asks for anything, and the first is not affected.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redisson_py import AcquireTimeoutError
from tests.lifecycle.kinds import SHARED, Stage
from tests.support import until

#: Less than anything else that could end the second's wait.
AT_ONCE = 5


async def stay_in(block: Any, inside: asyncio.Event, may_leave: asyncio.Event) -> Any:
    """Enter a block and stay until told to leave; return whether the lease was kept."""
    async with block as lease:
        inside.set()
        await may_leave.wait()
        return lease.remaining > 0


async def assert_refused(block: Any) -> None:
    """Fail unless the current task is refused because another uses this block."""
    with pytest.raises(RuntimeError, match=r"hold\(\)"):
        async with asyncio.timeout(AT_ONCE), block:
            pass


async def test_two_tasks_enter_at_once(stage: Stage) -> None:
    stage.permits = 2
    party = stage.party()
    block = party.thing.hold()
    inside, may_leave = asyncio.Event(), asyncio.Event()
    first = asyncio.create_task(stay_in(block, inside, may_leave))
    second = asyncio.create_task(assert_refused(block))
    await second
    await inside.wait()
    assert await stage.out() == 1
    may_leave.set()
    assert await first is True
    async with block as lease:
        assert lease.remaining > 0
    await stage.assert_nothing_held(party)


async def test_second_comes_while_the_first_is_inside(stage: Stage) -> None:
    stage.permits = 2
    party = stage.party()
    block = party.thing.hold()
    inside, may_leave = asyncio.Event(), asyncio.Event()
    first = asyncio.create_task(stay_in(block, inside, may_leave))
    await inside.wait()
    await assert_refused(block)
    # The same task, too: a block is entered once at a time.
    assert await stage.out() == 1
    may_leave.set()
    assert await first is True
    await stage.assert_nothing_held(party)


async def test_second_comes_while_the_first_waits(stage: Stage) -> None:
    party, rival = stage.party(), stage.rival()
    theirs = await rival.thing.acquire()
    block = party.thing.hold()
    inside, may_leave = asyncio.Event(), asyncio.Event()
    first = asyncio.create_task(stay_in(block, inside, may_leave))
    await until(lambda: party.waiters == 1)
    await assert_refused(block)
    assert not first.done()
    await theirs.release()
    await inside.wait()
    may_leave.set()
    assert await first is True
    async with block:
        pass
    await stage.assert_nothing_held(party, rival)


async def test_used_again_after_the_first_ran_out_of_time(stage: Stage) -> None:
    party, rival = stage.party(), stage.rival()
    theirs = await rival.thing.acquire()
    block = party.thing.hold(timeout=0.5)
    with pytest.raises(AcquireTimeoutError):
        async with block:
            pass
    await theirs.release()
    async with block as lease:
        assert lease.remaining > 0
        await asyncio.create_task(assert_refused(block))
    await stage.assert_nothing_held(party, rival)


async def test_used_again_after_the_first_was_cancelled(stage: Stage) -> None:
    party, rival = stage.party(), stage.rival()
    theirs = await rival.thing.acquire()
    block = party.thing.hold()
    inside, may_leave = asyncio.Event(), asyncio.Event()
    first = asyncio.create_task(stay_in(block, inside, may_leave))
    await until(lambda: party.waiters == 1)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await theirs.release()
    async with block as lease:
        assert lease.remaining > 0
    await stage.assert_nothing_held(party, rival)


@pytest.mark.parametrize("stage", SHARED, indirect=True)
async def test_two_tasks_enter_blocks_of_their_own(stage: Stage) -> None:
    stage.permits = 2
    party = stage.party()
    inside = [asyncio.Event(), asyncio.Event()]
    may_leave = asyncio.Event()
    tasks = [asyncio.create_task(stay_in(party.thing.hold(), each, may_leave)) for each in inside]
    for each in inside:
        await each.wait()
    assert await stage.out() == 2
    may_leave.set()
    assert await asyncio.gather(*tasks) == [True, True]
    await stage.assert_nothing_held(party)
