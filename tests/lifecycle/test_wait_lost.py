"""`wait_lost()` that is cancelled leaves nothing behind (issue 12, item 9)."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from types import FunctionType
from typing import Any

import pytest

from tests.support.kinds import Stage

#: A lease of one hold, of several, and a permit: `wait_lost()` is one method of them all.
pytestmark = pytest.mark.parametrize("stage", ["lock", "red_lock", "semaphore"], indirect=True)

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
