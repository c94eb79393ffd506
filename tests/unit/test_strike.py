"""A strike cancels a block as `asyncio.timeout` does, and swallows nothing of anybody else's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import anyio
import anyio.lowlevel
import pytest

from redisson_py._loop import Strike


class StruckError(Exception):
    """What a struck block raises in place of its cancellation."""


@asynccontextmanager
async def block(name: str = "block") -> AsyncIterator[Strike]:
    """Use a strike as `Lease` does."""
    strike = Strike()
    try:
        yield strike
    except BaseException as error:
        if strike.close(error):
            raise StruckError(name) from None
        raise
    strike.close(None)


async def for_ever() -> None:
    await asyncio.Event().wait()


def soon(callback: Callable[..., object], *args: object) -> None:
    asyncio.get_running_loop().call_soon(callback, *args)


def cancelling() -> int:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


def this_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    assert task is not None
    return task


async def test_a_struck_block_raises_its_own_error_and_the_task_goes_on() -> None:
    with pytest.raises(StruckError):
        async with block() as strike:
            soon(strike, "lost")
            await for_ever()
    assert strike.struck
    assert cancelling() == 0
    await asyncio.sleep(0)


async def test_a_block_that_is_not_struck_is_not_noticed() -> None:
    async with block() as strike:
        await asyncio.sleep(0)
    assert not strike.struck
    assert cancelling() == 0


async def test_a_block_that_was_left_is_not_struck() -> None:
    async with block() as strike:
        pass
    soon(strike, "lost")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not strike.struck
    assert cancelling() == 0


async def test_a_task_does_not_strike_itself() -> None:
    async with block() as strike:
        strike("lost")
        await asyncio.sleep(0)
    assert not strike.struck


async def test_a_block_is_struck_once() -> None:
    with pytest.raises(StruckError):
        async with block() as strike:
            soon(strike, "lost")
            soon(strike, "lost again")
            await for_ever()
    assert cancelling() == 0


async def test_a_loss_comes_before_a_result_that_is_ready() -> None:
    ready = asyncio.get_running_loop().create_future()
    with pytest.raises(StruckError):
        async with block() as strike:
            soon(ready.set_result, None)
            soon(strike, "lost")
            await ready
            pytest.fail("code of the body ran after the loss")


async def test_what_the_body_raised_instead_is_left_alone() -> None:
    with pytest.raises(ValueError, match="from the body"):
        async with block() as strike:
            soon(strike, "lost")
            try:
                await for_ever()
            finally:
                raise ValueError("from the body")
    assert cancelling() == 0


async def test_a_body_that_swallows_the_cancellation_leaves_no_trace() -> None:
    async with block() as strike:
        soon(strike, "lost")
        with suppress(asyncio.CancelledError):
            await for_ever()
    assert strike.struck
    assert cancelling() == 0
    await asyncio.sleep(0)


async def test_a_timeout_inside_the_block_does_not_take_the_strike_for_its_own() -> None:
    with pytest.raises(StruckError):
        async with block() as strike, asyncio.timeout(60):
            soon(strike, "lost")
            await for_ever()
    assert cancelling() == 0


async def test_a_timeout_outside_the_block_sees_an_error_and_not_its_own_end() -> None:
    with pytest.raises(StruckError):
        async with asyncio.timeout(60) as limit, block() as strike:
            soon(strike, "lost")
            await for_ever()
    assert not limit.expired()
    assert cancelling() == 0


async def test_a_timeout_inside_the_block_ends_as_ever() -> None:
    async with block() as strike:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await for_ever()
        await asyncio.sleep(0)
    assert not strike.struck
    assert cancelling() == 0


async def test_a_timeout_outside_the_block_ends_as_ever() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0), block() as strike:
            await for_ever()
    assert not strike.struck
    assert cancelling() == 0


@pytest.mark.parametrize("strike_first", [True, False])
async def test_a_timeout_outside_that_ends_in_the_same_turn_wins(strike_first: bool) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(None) as limit, block() as strike:
            end: list[Callable[[], object]] = [partial(soon, strike, "lost"), expire(limit)]
            for each in end if strike_first else end[::-1]:
                each()
            await both_struck(strike, limit)
    assert cancelling() == 0


@pytest.mark.parametrize("strike_first", [True, False])
async def test_a_timeout_inside_that_ends_in_the_same_turn_loses(strike_first: bool) -> None:
    with pytest.raises(StruckError):
        async with block() as strike, asyncio.timeout(None) as limit:
            end: list[Callable[[], object]] = [partial(soon, strike, "lost"), expire(limit)]
            for each in end if strike_first else end[::-1]:
                each()
            await both_struck(strike, limit)
    assert cancelling() == 0


def expire(limit: asyncio.Timeout) -> Callable[[], object]:
    return lambda: limit.reschedule(0)


async def both_struck(strike: Strike, limit: asyncio.Timeout) -> None:
    """Sleep through the first of two cancellations, as a body in `finally` would."""
    try:
        await for_ever()
    finally:
        while not (strike.struck and limit.expired()):
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                continue


@pytest.mark.parametrize("strike_first", [True, False])
async def test_a_cancellation_from_outside_at_the_same_time_is_not_swallowed(
    strike_first: bool,
) -> None:
    struck: list[Strike] = []

    async def work() -> None:
        async with block() as strike:
            struck.append(strike)
            await for_ever()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    both: list[Callable[[], object]] = [lambda: struck[0]("lost"), task.cancel]
    for each in both if strike_first else both[::-1]:
        each()
    await asyncio.wait([task])
    assert task.cancelled()
    assert task.cancelling() == 1


async def test_a_cancellation_from_outside_alone_is_not_ours() -> None:
    async def work() -> None:
        async with block():
            await for_ever()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_a_block_begun_during_a_cancellation_keeps_that_cancellation() -> None:
    """Clean-up code may take a lock: the count of cancellations is then not zero before."""

    async def work() -> str:
        try:
            await for_ever()
        finally:
            with pytest.raises(StruckError):
                async with block() as strike:
                    soon(strike, "lost")
                    await for_ever()
            assert cancelling() == 1
        return "not reached"

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_a_struck_inner_block_does_not_end_the_outer_one() -> None:
    async with block("outer") as outer:
        with pytest.raises(StruckError, match="inner"):
            async with block("inner") as inner:
                soon(inner, "lost")
                await for_ever()
        await asyncio.sleep(0)
    assert not outer.struck
    assert cancelling() == 0


async def test_a_struck_outer_block_ends_the_inner_one() -> None:
    with pytest.raises(StruckError, match="outer"):
        async with block("outer") as outer, block("inner") as inner:
            soon(outer, "lost")
            await for_ever()
    assert not inner.struck
    assert cancelling() == 0


@pytest.mark.parametrize("inner_first", [True, False])
async def test_two_blocks_struck_in_one_turn_raise_the_outer_error(inner_first: bool) -> None:
    with pytest.raises(StruckError, match="outer"):
        async with block("outer") as outer, block("inner") as inner:
            for each in (inner, outer) if inner_first else (outer, inner):
                soon(each, "lost")
            await for_ever()
    assert cancelling() == 0


async def test_an_anyio_scope_inside_lets_the_strike_through() -> None:
    with pytest.raises(StruckError):
        async with block() as strike:
            with anyio.CancelScope() as scope:
                soon(strike, "lost")
                await for_ever()
    assert not scope.cancelled_caught
    assert cancelling() == 0


async def test_an_anyio_scope_outside_sees_an_error() -> None:
    with pytest.raises(StruckError), anyio.CancelScope() as scope:
        async with block() as strike:
            soon(strike, "lost")
            await for_ever()
    assert not scope.cancelled_caught
    assert cancelling() == 0


async def test_a_cancelled_anyio_scope_inside_ends_there() -> None:
    async with block() as strike:
        with anyio.CancelScope() as scope:
            soon(scope.cancel)
            await for_ever()
        assert scope.cancelled_caught
        await asyncio.sleep(0)
    assert not strike.struck
    assert cancelling() == 0


async def test_a_cancelled_anyio_scope_outside_ends_there() -> None:
    with anyio.CancelScope() as scope:
        async with block() as strike:
            soon(scope.cancel)
            await for_ever()
    assert scope.cancelled_caught
    assert not strike.struck
    assert cancelling() == 0


@pytest.mark.parametrize("strike_first", [True, False])
async def test_a_scope_outside_cancelled_in_the_same_turn_leaves_the_task_usable(
    strike_first: bool,
) -> None:
    try:
        with anyio.CancelScope() as scope:
            async with block() as strike:
                both: list[Callable[[], object]] = [lambda: strike("lost"), scope.cancel]
                for each in both if strike_first else both[::-1]:
                    soon(each)
                await for_ever()
    except StruckError:
        pass
    assert cancelling() == 0
    await asyncio.sleep(0)
    await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("strike_first", [True, False])
async def test_a_scope_inside_cancelled_in_the_same_turn_does_not_hide_the_strike(
    strike_first: bool,
) -> None:
    with pytest.raises(StruckError):
        async with block() as strike:
            with anyio.CancelScope() as scope:
                both: list[Callable[[], object]] = [lambda: strike("lost"), scope.cancel]
                for each in both if strike_first else both[::-1]:
                    soon(each)
                await for_ever()
            await for_ever()
    assert cancelling() == 0


async def test_a_task_group_in_the_body_is_cancelled_and_the_strike_comes_through() -> None:
    with pytest.raises(StruckError):
        async with block() as strike, asyncio.TaskGroup() as group:
            children = [group.create_task(for_ever()) for _ in range(3)]
            soon(strike, "lost")
    assert all(child.cancelled() for child in children)
    assert cancelling() == 0


async def test_an_anyio_task_group_in_the_body_is_cancelled_and_the_strike_comes_through() -> None:
    with pytest.raises(StruckError):
        async with block() as strike, anyio.create_task_group() as group:
            group.start_soon(for_ever)
            soon(strike, "lost")
    assert cancelling() == 0


async def test_a_failing_child_is_reported_and_not_the_strike() -> None:
    async def fail() -> None:
        raise ValueError("from a child")

    with pytest.raises(ExceptionGroup) as caught:
        async with block() as strike, asyncio.TaskGroup() as group:
            group.create_task(fail())
            await asyncio.sleep(0)
            soon(strike, "lost")
            await for_ever()
    assert caught.group_contains(ValueError, match="from a child")
    assert cancelling() == 0
