"""The local queue of one client's tasks: order, passing, and leaving it on any way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest

from redisson_py._engine.hold import Hold
from redisson_py._engine.local_queue import LocalQueue
from redisson_py.errors import ClientClosedError
from tests.unit.fakes import LEASE, FakeClock, make_hold, make_lease
from tests.unit.waiting_tasks import TURN, QueueOwnership, WaitingTask, send_away, turns, wait_in


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock()
    clock.control_leases(monkeypatch)
    return clock


@pytest.fixture
def queue() -> Iterator[LocalQueue[Hold]]:
    queue = LocalQueue[Hold]()
    yield queue
    queue.check()


@pytest.fixture
def lock(queue: LocalQueue[Hold]) -> QueueOwnership:
    return QueueOwnership(queue)


@pytest.fixture
def hold(clock: FakeClock, lock: QueueOwnership) -> Hold:
    """A hold of this client on the lock, granted just now, with its lease gone."""
    return lock.new_hold()


def pass_on(queue: LocalQueue[Hold], hold: Hold) -> bool:
    return queue.pass_on(hold, TURN, LEASE / 2)


async def test_alone_in_the_queue_asks_at_once(queue: LocalQueue[Hold]) -> None:
    assert queue.go_first()
    assert queue.asking
    assert not queue.go_first(), "one at a time"
    queue.asked()
    assert not queue.needed(0.0)


async def test_only_the_head_asks_and_the_next_when_it_left(queue: LocalQueue[Hold]) -> None:
    first, second, third = await wait_in(queue, 3)
    assert [waiter.got for waiter in (first, second, third)] == [True, None, None]
    await send_away(queue, first)
    await turns()
    assert [waiter.got for waiter in (second, third)] == [True, None]
    await send_away(queue, second)
    await turns()
    assert third.got is True
    await send_away(queue, third)
    assert not queue.needed(0.0)


async def test_a_hold_that_is_over_keeps_nobody_waiting(
    queue: LocalQueue[Hold], hold: Hold, clock: FakeClock
) -> None:
    clock.sleep(LEASE)
    (waiter,) = await wait_in(queue, 1)
    assert waiter.got is True


async def test_a_hold_is_passed_in_order_of_arrival(queue: LocalQueue[Hold], hold: Hold) -> None:
    waiters = await wait_in(queue, 5)
    for number, waiter in enumerate(waiters):
        assert pass_on(queue, hold)
        assert hold.task() is waiter.task
        await turns()
        assert [each.got for each in waiters] == [hold] * (number + 1) + [None] * (4 - number)
    assert not pass_on(queue, hold), "nobody is left"
    assert queue.hold is hold


def turn_is_over(clock: FakeClock, hold: Hold) -> None:
    clock.sleep(TURN * 1.01)


def less_than_half_a_lease_is_left(clock: FakeClock, hold: Hold) -> None:
    hold.lease_set(clock.present, LEASE / 2)


def has_a_lease_of_its_own(clock: FakeClock, hold: Hold) -> None:
    make_lease(hold, limit=clock.present + LEASE)
    hold.reviewed()


def a_reply_was_lost(clock: FakeClock, hold: Hold) -> None:
    hold.became_uncertain()


def it_is_lost(clock: FakeClock, hold: Hold) -> None:
    hold.end("lost")


def something_is_read_under_it(clock: FakeClock, hold: Hold) -> None:
    hold.count_read(1)


def tokens_are_used_up(clock: FakeClock, hold: Hold) -> None:
    hold.bring_tokens(64, 1)
    hold.take_token()


@pytest.mark.parametrize(
    "spoil",
    [
        turn_is_over,
        less_than_half_a_lease_is_left,
        has_a_lease_of_its_own,
        a_reply_was_lost,
        it_is_lost,
        something_is_read_under_it,
        tokens_are_used_up,
    ],
)
async def test_a_hold_is_not_passed_when(
    queue: LocalQueue[Hold], hold: Hold, clock: FakeClock, spoil: Callable[[FakeClock, Hold], None]
) -> None:
    (waiter,) = await wait_in(queue, 1)
    spoil(clock, hold)
    assert not pass_on(queue, hold)
    await turns()
    assert waiter.got is None
    assert len(queue.waiters) == 1
    await send_away(queue, waiter)


async def test_a_hold_is_passed_just_before_the_turn_is_over(
    queue: LocalQueue[Hold], hold: Hold, clock: FakeClock
) -> None:
    (waiter,) = await wait_in(queue, 1)
    hold.lease_set(clock.present, LEASE * 0.52)
    hold.bring_tokens(64, 1)
    clock.sleep(TURN * 0.9)
    assert pass_on(queue, hold)
    await turns()
    assert waiter.got is hold


async def test_no_turn_is_no_passing(queue: LocalQueue[Hold], hold: Hold) -> None:
    (waiter,) = await wait_in(queue, 1)
    assert not queue.pass_on(hold, 0.0, LEASE / 2)
    await send_away(queue, waiter)


async def test_a_task_that_wants_a_lease_of_its_own_asks_redis(
    queue: LocalQueue[Hold], hold: Hold
) -> None:
    first = WaitingTask(queue, passable=False)
    (second,) = await wait_in(queue, 1)
    assert not pass_on(queue, hold), "nor is it passed over the head of the first"
    queue.hold = None
    queue.advance()
    await turns()
    assert (first.got, second.got) == (True, None)
    await send_away(queue, first, second)


async def test_a_task_that_asks_redis_is_passed_nothing(
    queue: LocalQueue[Hold], lock: QueueOwnership
) -> None:
    (first,) = await wait_in(queue, 1)
    hold = lock.new_hold()
    assert not pass_on(queue, hold)
    await send_away(queue, first)


async def test_a_hold_that_is_not_the_queues_is_not_passed(
    queue: LocalQueue[Hold], lock: QueueOwnership
) -> None:
    lock.new_hold()
    (waiter,) = await wait_in(queue, 1)
    assert not pass_on(queue, make_hold())
    await send_away(queue, waiter)


async def test_cancelled_in_the_turn_it_was_passed_to_passes_on(
    queue: LocalQueue[Hold], hold: Hold
) -> None:
    (waiter,) = await wait_in(queue, 1)
    assert pass_on(queue, hold)
    waiter.task.cancel()
    await asyncio.wait([waiter.task])
    assert waiter.task.cancelled()
    assert isinstance(hold.ownership, QueueOwnership)
    assert hold.ownership.given_back == [hold]


async def test_a_hold_is_passed_over_a_task_that_was_just_cancelled(
    queue: LocalQueue[Hold], hold: Hold
) -> None:
    first, second = await wait_in(queue, 2)
    first.task.cancel()
    assert pass_on(queue, hold)
    await turns()
    assert first.task.cancelled()
    assert second.got is hold
    assert not queue.waiters


@pytest.mark.parametrize("how", ["cancelled", "time is up", "passed"])
async def test_the_last_that_waits_takes_the_client_out_of_the_queue_of_clients(
    queue: LocalQueue[Hold], hold: Hold, how: str
) -> None:
    """The head, which joined that queue, has left while another task waited and could not ask."""
    left = 0

    def leave(*, closing: bool) -> None:
        assert not closing
        nonlocal left
        left += 1

    queue.joined = leave
    present = asyncio.get_running_loop().time()
    waiter = WaitingTask(queue, deadline=present if how == "time is up" else None)
    await asyncio.sleep(0)
    if how == "passed":
        assert pass_on(queue, hold)
    elif how == "cancelled":
        waiter.task.cancel()
    await asyncio.wait([waiter.task])
    assert left == 1


async def test_when_time_is_up_the_queue_is_left(queue: LocalQueue[Hold], hold: Hold) -> None:
    first = WaitingTask(queue, deadline=asyncio.get_running_loop().time())
    (second,) = await wait_in(queue, 1)
    assert await first.task is False
    assert len(queue.waiters) == 1
    assert pass_on(queue, hold)
    await turns()
    assert second.got is hold


async def test_a_head_whose_time_is_up_makes_room_for_the_next(queue: LocalQueue[Hold]) -> None:
    queue.releasing = True
    first = WaitingTask(queue, deadline=asyncio.get_running_loop().time())
    (second,) = await wait_in(queue, 1)
    assert await first.task is False
    queue.releasing = False
    queue.advance()
    await turns()
    assert second.got is True
    await send_away(queue, second)


async def test_a_hold_lost_between_the_pass_and_the_wake_up_is_asked_for_first(
    queue: LocalQueue[Hold], hold: Hold, clock: FakeClock
) -> None:
    first, second = await wait_in(queue, 2)
    assert pass_on(queue, hold)
    clock.sleep(LEASE)
    assert not hold.valid
    await turns()
    assert (first.got, second.got) == (True, None)
    await send_away(queue, first, second)


async def test_a_task_that_was_passed_a_lost_hold_is_the_next_to_ask(
    queue: LocalQueue[Hold], hold: Hold
) -> None:
    """The queue hears of the loss before the one it was passed to has had its turn."""
    make_lease(hold)
    first, second, third = await wait_in(queue, 3)
    assert pass_on(queue, hold)
    hold.lose("taken")
    await turns()
    assert [waiter.got for waiter in (first, second, third)] == [None, True, None]
    await send_away(queue, second)
    await turns()
    assert [waiter.got for waiter in (first, third)] == [True, None]
    await send_away(queue, first, third)
    assert not queue.needed(0.0)


async def test_a_lost_hold_is_not_waited_for_beyond_the_deadline(
    queue: LocalQueue[Hold], hold: Hold, clock: FakeClock
) -> None:
    waiter = WaitingTask(queue, deadline=asyncio.get_running_loop().time() + 1.2)
    await turns()
    assert pass_on(queue, hold)
    clock.sleep(LEASE)
    time.sleep(1.2)  # noqa: ASYNC251  # the loop's clock goes on, and the waiter is not told
    queue.releasing = True
    assert await waiter.task is False
    assert not queue.waiters


async def test_closing_sends_everybody_away(queue: LocalQueue[Hold], hold: Hold) -> None:
    waiters = await wait_in(queue, 3)
    queue.close(ClientClosedError("the client was closed"))
    for waiter in waiters:
        with pytest.raises(ClientClosedError):
            await waiter.task
    assert not queue.waiters


async def test_a_task_that_does_not_wait_is_behind_those_that_wait(
    queue: LocalQueue[Hold], hold: Hold
) -> None:
    assert not queue.is_ahead, "a hold is Redis' to tell of"
    (waiter,) = await wait_in(queue, 1)
    assert queue.is_ahead
    queue.hold = None
    queue.advance()
    await turns()
    assert queue.is_ahead, "the head waited here, and asks only now"
    await send_away(queue, waiter)
    assert not queue.is_ahead


async def test_a_task_that_does_not_wait_asks_beside_a_head_that_just_came(
    queue: LocalQueue[Hold],
) -> None:
    assert queue.go_first()
    assert not queue.is_ahead, "the head has not heard yet that it must wait"
    queue.heard_busy()
    assert queue.is_ahead
    queue.asked()
    assert not queue.is_ahead


def test_a_queue_in_which_nobody_will_be_called_is_found(hold: Hold) -> None:
    async def forgotten() -> None:
        queue = LocalQueue[Hold]()
        queue.hold = hold
        (waiter,) = await wait_in(queue, 1)
        queue.check()
        queue.hold = None
        with pytest.raises(AssertionError, match="nobody will call"):
            queue.check()
        await send_away(queue, waiter)

    asyncio.run(forgotten())
