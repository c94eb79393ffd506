"""`wait_lost()` that is cancelled leaves nothing behind (issue 12, item 9)."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from types import FunctionType
from typing import Any

from tests.support.kinds import Stage

WAITS = 1000
#: Objects that a test may leave; a leak would be one for each wait.
FEW = WAITS // 10


def objects() -> Counter[type]:
    """Count the futures and the functions that are alive; tasks are another type."""
    gc.collect()
    found: Counter[type] = Counter()
    for each in gc.get_objects():
        if type(each) in (asyncio.Future, FunctionType):
            found[type(each)] += 1
    return found


async def wait_in_vain(lease: Any, count: int) -> None:
    """Start this many concurrent waits for a loss that does not come."""
    waits = [asyncio.create_task(lease.wait_lost()) for _ in range(count)]
    await asyncio.sleep(0)
    for wait in waits:
        wait.cancel()
    outcomes = await asyncio.gather(*waits, return_exceptions=True)
    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)


async def test_cancelled_waits_leave_nothing(stage: Stage) -> None:
    party = stage.party()
    async with party.thing as lease:
        await wait_in_vain(lease, 10)
        before = objects()
        await wait_in_vain(lease, WAITS)
        after = objects()
    assert {kind.__name__: count for kind, count in (after - before).items() if count > FEW} == {}


async def test_waits_one_after_another_leave_nothing_either(stage: Stage) -> None:
    party = stage.party()
    async with party.thing as lease:
        await wait_in_vain(lease, 1)
        before = objects()
        for _ in range(WAITS):
            await wait_in_vain(lease, 1)
        after = objects()
    assert {kind.__name__: count for kind, count in (after - before).items() if count > FEW} == {}


async def test_waits_that_go_on_are_told_after_others_were_cancelled(stage: Stage) -> None:
    party = stage.party(lease_time=1)
    lease = await party.thing.acquire()
    waiting = [asyncio.create_task(lease.wait_lost()) for _ in range(2)]
    await asyncio.sleep(0)
    await wait_in_vain(lease, 10)
    await stage.wipe()
    async with asyncio.timeout(10):
        await asyncio.gather(*waiting)
    assert lease.lost
    await asyncio.gather(lease.release(), return_exceptions=True)
    await stage.assert_nothing_held(party)
