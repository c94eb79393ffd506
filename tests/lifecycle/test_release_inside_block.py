"""`release()` and `acquire()` inside a block, as with `asyncio.Lock` (issue 12, item 2)."""

from __future__ import annotations

from typing import Any

import pytest

from redisson_py import NotHeldError
from tests.support.kinds import DISTINCT_LOCKS, SEMAPHORES, Party, Stage, in_a_task
from tests.support.waiting import until_async

locks = pytest.mark.parametrize("stage", DISTINCT_LOCKS, indirect=True)
"""For locks; `release()` of a semaphore never touches a block's permit."""

spellings = pytest.mark.parametrize("spelling", ["block", "hold"])
"""How the block is written."""


def block_of(party: Party, spelling: str) -> Any:
    return party.thing if spelling == "block" else party.thing.hold()


@locks
@spellings
async def test_released_and_acquired_again(stage: Stage, spelling: str) -> None:
    party, rival = stage.party(), await stage.rival().connected()
    async with block_of(party, spelling) as first:
        for _ in range(3):
            await party.thing.release()
            assert first.remaining == 0
            async with rival.thing.hold(timeout=10):
                pass
            second = await party.thing.acquire()
            assert await party.thing.hold_count() == 1
            assert await rival.thing.try_acquire() is None
    assert second.remaining == 0
    assert not second.lost
    await stage.assert_nothing_held(party)


@locks
async def test_released_inside_and_taken_by_another_task(stage: Stage) -> None:
    """The block does not release what another task of this client holds by then."""
    party, rival = stage.party(), await stage.rival().connected()
    async with party.thing:
        await party.thing.release()
        theirs = await in_a_task(party.thing.acquire())
    assert theirs.remaining > 0
    assert await rival.thing.try_acquire() is None
    await theirs.release()
    await stage.assert_nothing_held(party)


@locks
async def test_released_and_acquired_again_inside_two_blocks(stage: Stage) -> None:
    party, rival = stage.party(), await stage.rival().connected()
    async with party.thing:
        async with party.thing:
            await party.thing.release()
            await party.thing.acquire()
            assert await party.thing.hold_count() == 2
        assert await party.thing.hold_count() == 1
        assert await rival.thing.try_acquire() is None
        await party.thing.release()
        await party.thing.acquire()
    await stage.assert_nothing_held(party)


@pytest.mark.parametrize("stage", ["semaphore"], indirect=True)
async def test_release_of_a_semaphore_leaves_the_permit_of_the_block(stage: Stage) -> None:
    stage.permits = 2
    party = stage.party()
    async with party.thing as permit:
        with pytest.raises(NotHeldError):
            await party.thing.release()
        with pytest.raises(NotHeldError):
            await in_a_task(party.thing.release())
        assert permit.remaining > 0
        assert await stage.out() == 1
        await party.thing.acquire()
        # The newest that this task took outside a block, and not the block's.
        await party.thing.release()
        assert permit.remaining > 0
        assert await stage.out() == 1
    assert permit.remaining == 0
    await stage.assert_nothing_held(party)
    with pytest.raises(NotHeldError):
        await party.thing.release()
    assert await party.thing.available() == 2


@pytest.mark.parametrize("stage", SEMAPHORES, indirect=True)
async def test_permit_released_inside_its_block(stage: Stage) -> None:
    """The block has nothing left to release, and does not release what the task took since."""
    party = stage.party()
    async with party.thing as permit:
        await permit.release()
        await until_async(stage.free)
        mine = await party.thing.acquire()
    assert mine.remaining > 0
    assert await stage.out() == 1
    await mine.release()
    await stage.assert_nothing_held(party)
