"""A loss cancels a block as `asyncio.timeout` does, and swallows nothing of anybody else's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import anyio
import anyio.lowlevel
import pytest

from redisson_py._engine.hold import Lease
from redisson_py.errors import LeaseLostError
from tests.unit.fakes import FakeOwnership, make_hold, make_lease


@asynccontextmanager
async def block(name: str = "block") -> AsyncIterator[Lease]:
    """A block of a lease of its own."""
    async with make_lease(make_hold(FakeOwnership(name))) as lease:
        yield lease


def lose(lease: Lease) -> bool:
    return lease._lose("taken")


def cancels(lease: Lease) -> bool:
    """Return whether its loss has cancelled, or will cancel, the body."""
    return lease._block is not None and lease._block._cancelled


async def for_ever() -> None:
    await asyncio.Event().wait()


def soon(callback: Callable[..., object], *args: object) -> None:
    asyncio.get_running_loop().call_soon(callback, *args)


def cancelling() -> int:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


@pytest.mark.parametrize("loss_first", [True, False])
async def test_a_timeout_outside_that_ends_in_the_same_iteration_wins(loss_first: bool) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(None) as limit, block() as lease:
            end: list[Callable[[], object]] = [partial(soon, lose, lease), expire(limit)]
            for each in end if loss_first else end[::-1]:
                each()
            await both_cancelled(lease, limit)
    assert cancelling() == 0


@pytest.mark.parametrize("loss_first", [True, False])
async def test_a_timeout_inside_that_ends_in_the_same_iteration_loses(loss_first: bool) -> None:
    with pytest.raises(LeaseLostError):
        async with block() as lease, asyncio.timeout(None) as limit:
            end: list[Callable[[], object]] = [partial(soon, lose, lease), expire(limit)]
            for each in end if loss_first else end[::-1]:
                each()
            await both_cancelled(lease, limit)
    assert cancelling() == 0


def expire(limit: asyncio.Timeout) -> Callable[[], object]:
    return lambda: limit.reschedule(0)


async def both_cancelled(lease: Lease, limit: asyncio.Timeout) -> None:
    """Sleep through the first of two cancellations, as a body in `finally` would."""
    try:
        await for_ever()
    finally:
        while not (cancels(lease) and limit.expired()):
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                continue


@pytest.mark.parametrize("loss_first", [True, False])
async def test_a_cancellation_from_outside_at_the_same_time_is_not_swallowed(
    loss_first: bool,
) -> None:
    entered: list[Lease] = []

    async def work() -> None:
        async with block() as lease:
            entered.append(lease)
            await for_ever()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    both: list[Callable[[], object]] = [lambda: lose(entered[0]), task.cancel]
    for each in both if loss_first else both[::-1]:
        each()
    await asyncio.wait([task])
    assert task.cancelled()
    assert task.cancelling() == 1


async def test_a_block_begun_during_a_cancellation_keeps_that_cancellation() -> None:
    """Clean-up code may take a lock: the count of cancellations is then not zero before."""

    async def work() -> str:
        try:
            await for_ever()
        finally:
            with pytest.raises(LeaseLostError):
                async with block() as lease:
                    soon(lose, lease)
                    await for_ever()
            assert cancelling() == 1
        return "not reached"

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


@pytest.mark.parametrize("inner_first", [True, False])
async def test_two_blocks_lost_in_one_iteration_raise_the_outer_error(inner_first: bool) -> None:
    with pytest.raises(LeaseLostError, match="outer"):
        async with block("outer") as outer, block("inner") as inner:
            for each in (inner, outer) if inner_first else (outer, inner):
                soon(lose, each)
            await for_ever()
    assert cancelling() == 0


@pytest.mark.parametrize("loss_first", [True, False])
async def test_a_scope_outside_cancelled_in_the_same_iteration_leaves_the_task_usable(
    loss_first: bool,
) -> None:
    try:
        with anyio.CancelScope() as scope:
            async with block() as lease:
                both: list[Callable[[], object]] = [lambda: lose(lease), scope.cancel]
                for each in both if loss_first else both[::-1]:
                    soon(each)
                await for_ever()
    except LeaseLostError:
        pass
    assert cancelling() == 0
    await asyncio.sleep(0)
    await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("loss_first", [True, False])
async def test_a_scope_inside_cancelled_in_the_same_iteration_does_not_hide_the_loss(
    loss_first: bool,
) -> None:
    with pytest.raises(LeaseLostError):
        async with block() as lease:
            with anyio.CancelScope() as scope:
                both: list[Callable[[], object]] = [lambda: lose(lease), scope.cancel]
                for each in both if loss_first else both[::-1]:
                    soon(each)
                await for_ever()
            await for_ever()
    assert cancelling() == 0
