"""Blocks left by other tasks, released inside, or shared: each gives back its own hold."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from itertools import product
from typing import Any, Self

import pytest

from redisson_py import LeaseLostError, NotHeldError
from tests.support.kinds import (
    DISTINCT,
    DISTINCT_LOCKS,
    SEMAPHORES,
    SHARED,
    Party,
    Stage,
    enter,
    in_a_task,
    leave,
)
from tests.support.waiting import until, until_async

spelt = pytest.mark.parametrize(
    ("stage", "spelling"),
    [
        *[(kind, "block") for kind in DISTINCT],
        *product(("lock", "red_lock", "semaphore"), ("hold", "lease")),
    ],
    indirect=["stage"],
)
"""How the block is written: `async with lock`, `lock.hold()`, or a lease of its own. The last two
are blocks of one class each, whatever they hold."""


async def block_of(party: Party, spelling: str) -> Any:
    """Return what stands after `async with`."""
    match spelling:
        case "block":
            return party.thing
        case "hold":
            return party.thing.hold()
        case _:
            return await party.thing.acquire()


async def items_of(party: Party, spelling: str = "block") -> AsyncIterator[Any]:
    """A generator that yields its lease inside a block; nothing awaits its end."""
    async with await block_of(party, spelling) as lease:
        yield lease
        yield None


@spelt
async def test_generator_left_by_break(stage: Stage, spelling: str) -> None:
    party = stage.party()
    async for lease in items_of(party, spelling):
        assert lease.remaining > 0
        break
    # The event loop closes the generator in a task of its own.
    gc.collect()
    await stage.assert_nothing_held(party)


@spelt
@pytest.mark.parametrize("end", ["closed", "exhausted"])
async def test_generator_ended_by_another_task(stage: Stage, spelling: str, end: str) -> None:
    """Exhausted, as a fixture whose tear-down runs in another task than its set-up."""
    party = stage.party()
    generator: Any = items_of(party, spelling)
    lease: Any = await in_a_task(anext(generator))
    assert lease.remaining > 0
    if end == "closed":
        await in_a_task(generator.aclose())
    else:
        assert [each async for each in generator] == [None]
    assert not lease.lost
    assert lease.remaining == 0
    await stage.assert_nothing_held(party)


@spelt
async def test_exit_stack_closed_by_another_task(stage: Stage, spelling: str) -> None:
    party = stage.party()
    stack = AsyncExitStack()
    lease = await in_a_task(stack.enter_async_context(await block_of(party, spelling)))
    assert lease.remaining > 0
    assert not await stage.free()
    await in_a_task(stack.aclose())
    assert lease.remaining == 0
    await stage.assert_nothing_held(party)


async def test_task_that_entered_is_not_cancelled_after_the_block_was_left(stage: Stage) -> None:
    party = stage.party()
    stack = AsyncExitStack()
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def work() -> int:
        await stack.enter_async_context(party.thing)
        entered.set()
        await go_on.wait()
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    task = asyncio.create_task(work())
    await entered.wait()
    await in_a_task(stack.aclose())
    await stage.wipe()
    async with stage.other(party):
        # What was held for that block, too, would be found lost by now.
        await party.renewed_at_once()
    go_on.set()
    assert await task == 0


@pytest.mark.parametrize("on_lost", ["cancel", "raise"])
async def test_loss_is_raised_where_the_block_is_left(stage: Stage, on_lost: str) -> None:
    party = stage.party(on_lost=on_lost)
    stack = AsyncExitStack()
    # The task that entered has ended, so there is nobody to cancel.
    lease = await in_a_task(stack.enter_async_context(party.thing))
    await stage.wipe()
    party.renew_now()
    async with asyncio.timeout(30):
        await lease.wait_lost()
    with pytest.raises(LeaseLostError):
        await in_a_task(stack.aclose())
    await until(lambda: party.held == 0)
    async with party.thing:
        pass
    await stage.assert_nothing_held(party)


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


async def test_left_by_hand_while_the_task_that_entered_goes_on(stage: Stage) -> None:
    party = stage.party()
    entered, go_on = asyncio.Event(), asyncio.Event()
    leases: list[Any] = []

    async def work() -> str:
        leases.append(await enter(party.thing))
        entered.set()
        await go_on.wait()
        # Its block is left, so this is a first acquisition and no re-entry.
        async with party.thing:
            assert await stage.out() == 1
        return "done"

    task = asyncio.create_task(work())
    await entered.wait()
    assert leases[0].remaining > 0
    await leave(party.thing)
    assert leases[0].remaining == 0
    await stage.assert_nothing_held(party)
    go_on.set()
    assert await task == "done"
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


async def test_exit_without_an_entry_is_refused(stage: Stage) -> None:
    party = stage.party()
    for block in (party.thing, party.thing.hold()):
        with pytest.raises(RuntimeError):
            await leave(block)
        await enter(block)
        await leave(block)
        with pytest.raises(RuntimeError):
            await leave(block)
    # What `acquire()` took is not a block's either.
    lease = await party.thing.acquire()
    with pytest.raises(RuntimeError):
        await leave(party.thing)
    assert lease.remaining > 0
    await lease.release()
    await stage.assert_nothing_held(party)


locks = pytest.mark.parametrize("stage", DISTINCT_LOCKS, indirect=True)
"""For locks; `release()` of a semaphore never touches a block's permit."""

spellings = pytest.mark.parametrize("spelling", ["block", "hold"])
"""How the block is written."""


def written_as(party: Party, spelling: str) -> Any:
    return party.thing if spelling == "block" else party.thing.hold()


@locks
@spellings
async def test_released_and_acquired_again(stage: Stage, spelling: str) -> None:
    party, rival = stage.party(), await stage.rival().connected()
    async with written_as(party, spelling) as first:
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
