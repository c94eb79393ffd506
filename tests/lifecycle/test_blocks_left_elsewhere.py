"""Blocks that are left by another task than the one that entered them (issue 12, item 1).

The exit releases exactly the acquisition of its block, in any task, and nothing is renewed
that cannot be released any more.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from itertools import product
from typing import Any

import pytest

from redisson_py import LeaseLostError
from tests.support.kinds import DISTINCT, Party, Stage, enter, in_a_task, leave
from tests.support.leases import renew_now
from tests.support.waiting import until

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


async def items(party: Party, spelling: str = "block") -> AsyncIterator[Any]:
    """A generator that yields its lease inside a block; nothing awaits its end."""
    async with await block_of(party, spelling) as lease:
        yield lease
        yield None


@spelt
async def test_generator_left_by_break(stage: Stage, spelling: str) -> None:
    party = stage.party()
    async for lease in items(party, spelling):
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
    generator: Any = items(party, spelling)
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


@pytest.mark.parametrize("stage", ["lock", "red_lock", "semaphore"], indirect=True)
async def test_nothing_is_renewed_after_the_block_was_left(stage: Stage) -> None:
    party = stage.party()
    async for _ in items(party):
        break
    gc.collect()
    await stage.assert_nothing_held(party)
    renewals = [each.statistics().renewals for each in party.clients]
    for each in party.clients:
        # A watched hold would be renewed.
        renew_now(each)
        await each.ping()
    assert [each.statistics().renewals for each in party.clients] == renewals
    assert [each.statistics().losses for each in party.clients] == [0] * len(party.clients)


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


async def test_loss_in_a_block_of_a_generator_that_another_task_ends(stage: Stage) -> None:
    party = stage.party(on_lost="raise")
    generator: Any = items(party)
    lease: Any = await in_a_task(anext(generator))
    await stage.wipe()
    party.renew_now()
    async with asyncio.timeout(30):
        await lease.wait_lost()
    assert await anext(generator) is None
    with pytest.raises(LeaseLostError):
        await anext(generator)
    await stage.assert_nothing_held(party)


async def test_error_of_a_body_in_another_task_is_not_masked(stage: Stage) -> None:
    party = stage.party()
    generator: Any = items(party)
    await in_a_task(anext(generator))
    with pytest.raises(ZeroDivisionError):
        await in_a_task(generator.athrow(ZeroDivisionError()))
    await stage.assert_nothing_held(party)
