"""Blocks that several tasks have open on one object, and exits that cannot be attributed.

Issue 12, item 1: an exit gives back the acquisition of its own block, or it is a RuntimeError
that names `hold()`. It never gives back the acquisition of another block, and never returns
without an error while its own is still held.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.support.kinds import DISTINCT_LOCKS, SHARED, Stage, enter, in_a_task, leave
from tests.support.waiting import until, until_async

shared = pytest.mark.parametrize("stage", SHARED, indirect=True)
"""For what several tasks can hold at once."""

reentrant = pytest.mark.parametrize("stage", DISTINCT_LOCKS, indirect=True)
"""For what a task can acquire again."""


async def items(block: Any) -> AsyncIterator[Any]:
    async with block as lease:
        yield lease


@shared
@pytest.mark.parametrize("spelling", ["block", "hold"])
async def test_generator_closed_inside_the_block_of_another_task(
    stage: Stage, spelling: str
) -> None:
    stage.permits = 2
    party = stage.party()
    generator: Any = items(party.thing if spelling == "block" else party.thing.hold())
    theirs: Any = await in_a_task(anext(generator))
    async with party.thing as mine:
        assert await stage.out() == 2
        await generator.aclose()
        assert theirs.remaining == 0
        assert mine.remaining > 0
        mine.check()
        await until_async(lambda: out_is(stage, 1))
    await stage.assert_nothing_held(party)


async def out_is(stage: Stage, count: int) -> bool:
    return await stage.out() == count


@shared
async def test_two_tasks_leave_their_own_blocks_in_any_order(stage: Stage) -> None:
    stage.permits = 2
    party = stage.party()
    first_leaves, second_leaves = asyncio.Event(), asyncio.Event()
    leases: list[Any] = []

    async def work(may_leave: asyncio.Event) -> None:
        async with party.thing as lease:
            leases.append(lease)
            await may_leave.wait()

    first = asyncio.create_task(work(first_leaves))
    second = asyncio.create_task(work(second_leaves))
    await until(lambda: len(leases) == 2)
    first_leaves.set()
    await first
    assert [lease.remaining > 0 for lease in leases] == [False, True]
    await until_async(lambda: out_is(stage, 1))
    second_leaves.set()
    await second
    await stage.assert_nothing_held(party)


@shared
async def test_exit_by_hand_that_could_mean_two_blocks_is_refused(stage: Stage) -> None:
    stage.permits = 2
    party = stage.party()
    may_leave = asyncio.Event()
    leases: list[Any] = []

    async def work() -> None:
        leases.append(await enter(party.thing))
        await may_leave.wait()
        # Each of the tasks has one block open, so their exits are unambiguous.
        await leave(party.thing)

    tasks = [asyncio.create_task(work()) for _ in range(2)]
    # What Redis has granted need not be known here yet.
    await until(lambda: len(leases) == 2)
    with pytest.raises(RuntimeError, match=r"hold\(\)"):
        await leave(party.thing)
    assert all(lease.remaining > 0 for lease in leases)
    assert await stage.out() == 2
    may_leave.set()
    await asyncio.gather(*tasks)
    await stage.assert_nothing_held(party)


@shared
async def test_exit_stacks_of_two_tasks_closed_by_a_third(stage: Stage) -> None:
    """The blocks of one object: each stack gives back its own, or says that it cannot know."""
    stage.permits = 2
    party = stage.party()
    stacks = [AsyncExitStack(), AsyncExitStack()]
    leases: list[Any] = [
        await in_a_task(stack.enter_async_context(party.thing)) for stack in stacks
    ]
    for number, stack in enumerate(stacks):
        before = [lease.remaining > 0 for lease in leases]
        (refusal,) = await asyncio.gather(in_a_task(stack.aclose()), return_exceptions=True)
        if refusal is not None:
            assert isinstance(refusal, RuntimeError)
            assert "hold()" in str(refusal)
            assert [lease.remaining > 0 for lease in leases] == before
            await leases[number].release()
        assert leases[number].remaining == 0
        assert [lease.remaining > 0 for lease in leases] == [False, number == 0]
    await stage.assert_nothing_held(party)


@shared
async def test_hold_blocks_of_two_tasks_are_told_apart(stage: Stage) -> None:
    stage.permits = 2
    party = stage.party()
    stacks = [AsyncExitStack(), AsyncExitStack()]
    leases: list[Any] = [
        await in_a_task(stack.enter_async_context(party.thing.hold())) for stack in stacks
    ]
    for number, stack in enumerate(stacks):
        await in_a_task(stack.aclose())
        assert [lease.remaining > 0 for lease in leases] == [False, number == 0]
    await stage.assert_nothing_held(party)


@reentrant
async def test_generator_that_outlives_the_block_around_it(stage: Stage) -> None:
    party, rival = stage.party(), await stage.rival().connected()
    generator: Any = items(party.thing)
    async with party.thing:
        await anext(generator)
        assert await party.thing.hold_count() == 2
    # One of the two is left, whichever it is: the generator's block is open.
    assert await party.thing.hold_count() == 1
    assert await rival.thing.try_acquire() is None
    await generator.aclose()
    await stage.assert_nothing_held(party)


@reentrant
async def test_blocks_of_one_task_that_another_task_leaves(stage: Stage) -> None:
    party, rival = stage.party(), await stage.rival().connected()
    stack = AsyncExitStack()

    async def set_up() -> None:
        for _ in range(3):
            await stack.enter_async_context(party.thing)
        assert await party.thing.hold_count() == 3

    await in_a_task(set_up())
    assert await rival.thing.try_acquire() is None
    await in_a_task(stack.aclose())
    await stage.assert_nothing_held(party)


async def test_exit_without_an_entry_is_refused(stage: Stage) -> None:
    party = stage.party()
    for block in (party.thing, party.thing.hold()):
        with pytest.raises(RuntimeError):
            await leave(block)
        await enter(block)
        await leave(block)
        with pytest.raises(RuntimeError):
            await leave(block)
    async with party.thing:
        pass
    await stage.assert_nothing_held(party)


async def test_exit_of_an_object_whose_hold_was_not_taken_by_a_block(stage: Stage) -> None:
    """What `acquire()` took is not a block's, and an exit without an entry leaves it alone."""
    party = stage.party()
    lease = await party.thing.acquire()
    with pytest.raises(RuntimeError):
        await leave(party.thing)
    assert lease.remaining > 0
    await lease.release()
    await stage.assert_nothing_held(party)
