"""The line of one client's tasks for one lock: order, passing, and leaving it on any way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from redisson_py._handoff import Line
from redisson_py._lease.hold import Hold

from redisson_py import _handoff
from redisson_py.errors import ClientClosedError
from tests.unit.fakes import FakeClock, FakeResource, make_hold, make_lease
from tests.unit.standing import Waiter, send_away, stand, turns

LEASE = 30.0
TURN = 0.01


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock()
    clock.control_leases(monkeypatch)
    monkeypatch.setattr(_handoff, "now", clock.now)
    return clock


@pytest.fixture
def line() -> Line:
    return Line()


@pytest.fixture
def hold(clock: FakeClock, line: Line) -> Hold:
    """A hold of this client on the lock of the line, granted just now, with its lease gone."""
    return own_hold(line, clock)


def own_hold(line: Line, clock: FakeClock) -> Hold:
    resource = FakeResource()
    resource.on_ended = lambda hold: lose(line, hold)
    hold = make_hold(resource, ends_at=clock.present + LEASE)
    line.hold = hold
    return hold


def lose(line: Line, hold: Hold) -> None:
    """What `ExclusiveLock.hold_ended` does to the line."""
    line.hold = None
    line.advance()


def pass_on(line: Line, hold: Hold) -> bool:
    return line.pass_on(hold, TURN, LEASE / 2)


async def test_alone_in_line_asks_at_once(line: Line) -> None:
    assert line.go_first()
    assert line.asking
    assert not line.go_first(), "one at a time"
    line.asked()
    assert not line.needed(0.0)


async def test_only_the_head_asks_and_the_next_when_it_left(line: Line) -> None:
    first, second, third = await stand(line, 3)
    assert [waiter.got for waiter in (first, second, third)] == [True, None, None]
    await send_away(line, first)
    await turns()
    assert [waiter.got for waiter in (second, third)] == [True, None]
    await send_away(line, second)
    await turns()
    assert third.got is True
    await send_away(line, third)
    assert not line.needed(0.0)


async def test_a_hold_here_keeps_everybody_waiting(line: Line, hold: Hold) -> None:
    (waiter,) = await stand(line, 1)
    assert waiter.got is None
    line.hold = None
    line.advance()
    await turns()
    assert waiter.got is True


async def test_a_release_under_way_keeps_everybody_waiting(line: Line) -> None:
    line.releasing = True
    (waiter,) = await stand(line, 1)
    assert waiter.got is None
    assert line.needed(0.0)
    line.releasing = False
    line.advance()
    await turns()
    assert waiter.got is True


async def test_a_hold_that_is_over_keeps_nobody_waiting(
    line: Line, hold: Hold, clock: FakeClock
) -> None:
    clock.sleep(LEASE)
    (waiter,) = await stand(line, 1)
    assert waiter.got is True


async def test_a_granted_head_makes_the_others_wait_for_its_hold(
    line: Line, clock: FakeClock
) -> None:
    _, second = await stand(line, 2)
    line.hold = make_hold(ends_at=clock.present + LEASE)
    line.asked()
    await turns()
    assert second.got is None
    assert len(line.places) == 1
    second.task.cancel()
    await asyncio.wait([second.task])


async def test_a_hold_is_passed_in_order_of_arrival(line: Line, hold: Hold) -> None:
    waiters = await stand(line, 5)
    for number, waiter in enumerate(waiters):
        assert pass_on(line, hold)
        assert hold.task() is waiter.task
        await turns()
        assert [each.got for each in waiters] == [hold] * (number + 1) + [None] * (4 - number)
    assert not pass_on(line, hold), "nobody is left"
    assert line.hold is hold


def turn_is_over(clock: FakeClock, hold: Hold) -> None:
    clock.sleep(TURN * 1.01)


def less_than_half_a_lease_is_left(clock: FakeClock, hold: Hold) -> None:
    hold.ends_at = clock.present + LEASE / 2 - 0.001


def has_a_lease_of_its_own(clock: FakeClock, hold: Hold) -> None:
    hold.watched = False


def a_reply_was_lost(clock: FakeClock, hold: Hold) -> None:
    hold.doubtful = True


def it_is_lost(clock: FakeClock, hold: Hold) -> None:
    hold.state = "lost"


def tokens_are_used_up(clock: FakeClock, hold: Hold) -> None:
    hold.next_token, hold.tokens_end = 65, 64


@pytest.mark.parametrize(
    "spoil",
    [
        turn_is_over,
        less_than_half_a_lease_is_left,
        has_a_lease_of_its_own,
        a_reply_was_lost,
        it_is_lost,
        tokens_are_used_up,
    ],
)
async def test_a_hold_is_not_passed_when(
    line: Line, hold: Hold, clock: FakeClock, spoil: Callable[[FakeClock, Hold], None]
) -> None:
    (waiter,) = await stand(line, 1)
    spoil(clock, hold)
    assert not pass_on(line, hold)
    await turns()
    assert waiter.got is None
    assert len(line.places) == 1
    waiter.task.cancel()
    await asyncio.wait([waiter.task])


async def test_a_hold_is_passed_just_before_the_turn_is_over(
    line: Line, hold: Hold, clock: FakeClock
) -> None:
    (waiter,) = await stand(line, 1)
    hold.ends_at = clock.present + LEASE / 2 + TURN
    hold.next_token, hold.tokens_end = 64, 64
    clock.sleep(TURN * 0.9)
    assert pass_on(line, hold)
    await turns()
    assert waiter.got is hold


async def test_no_turn_is_no_passing(line: Line, hold: Hold) -> None:
    (waiter,) = await stand(line, 1)
    assert not line.pass_on(hold, 0.0, LEASE / 2)
    waiter.task.cancel()
    await asyncio.wait([waiter.task])


async def test_who_wants_a_lease_of_its_own_asks_redis(line: Line, hold: Hold) -> None:
    first = Waiter(line, passable=False)
    (second,) = await stand(line, 1)
    assert not pass_on(line, hold), "nor is it passed over the head of the first"
    line.hold = None
    line.advance()
    await turns()
    assert (first.got, second.got) == (True, None)
    await send_away(line, first, second)


async def test_who_asks_redis_already_is_passed_nothing(line: Line, clock: FakeClock) -> None:
    (first,) = await stand(line, 1)
    hold = own_hold(line, clock)
    assert not pass_on(line, hold)
    await send_away(line, first)


async def test_a_hold_of_another_line_is_not_passed(line: Line, clock: FakeClock) -> None:
    own_hold(line, clock)
    (waiter,) = await stand(line, 1)
    assert not pass_on(line, make_hold(ends_at=clock.present + LEASE))
    waiter.task.cancel()
    await asyncio.wait([waiter.task])


async def test_cancelled_in_the_turn_it_was_passed_to_passes_on(line: Line, hold: Hold) -> None:
    (waiter,) = await stand(line, 1)
    assert pass_on(line, hold)
    waiter.task.cancel()
    await asyncio.wait([waiter.task])
    assert waiter.task.cancelled()
    assert isinstance(hold.resource, FakeResource)
    assert hold.resource.given_back == [hold]


async def test_cancelled_in_the_turn_it_was_told_to_ask_lets_the_next_ask(line: Line) -> None:
    line.releasing = True
    first, second = await stand(line, 2)
    line.releasing = False
    line.advance()
    first.task.cancel()
    await turns()
    assert first.task.cancelled()
    assert second.got is True
    await send_away(line, second)
    assert not line.needed(0.0)


async def test_a_cancelled_place_is_given_up(line: Line, hold: Hold) -> None:
    first, second, third = await stand(line, 3)
    second.task.cancel()
    await turns()
    assert [place is second.place for place in line.places] == [False, False]
    assert pass_on(line, hold)
    assert pass_on(line, hold)
    await turns()
    assert (first.got, third.got) == (hold, hold)


async def test_a_cancelled_head_does_not_hold_up_the_others(line: Line, hold: Hold) -> None:
    first, second = await stand(line, 2)
    first.task.cancel()
    line.hold = None
    line.advance()
    await turns()
    assert first.task.cancelled()
    assert second.got is True
    await send_away(line, second)
    assert not line.needed(0.0)


async def test_a_hold_is_passed_over_who_was_just_cancelled(line: Line, hold: Hold) -> None:
    first, second = await stand(line, 2)
    first.task.cancel()
    assert pass_on(line, hold)
    await turns()
    assert first.task.cancelled()
    assert second.got is hold
    assert not line.places


async def test_when_time_is_up_the_place_is_left(line: Line, hold: Hold) -> None:
    first = Waiter(line, deadline=asyncio.get_running_loop().time())
    (second,) = await stand(line, 1)
    assert await first.task is False
    assert len(line.places) == 1
    assert pass_on(line, hold)
    await turns()
    assert second.got is hold


async def test_a_head_whose_time_is_up_makes_room_for_the_next(line: Line) -> None:
    line.releasing = True
    first = Waiter(line, deadline=asyncio.get_running_loop().time())
    (second,) = await stand(line, 1)
    assert await first.task is False
    line.releasing = False
    line.advance()
    await turns()
    assert second.got is True
    await send_away(line, second)


async def test_a_hold_lost_between_the_pass_and_the_wake_up_is_asked_for_first(
    line: Line, hold: Hold, clock: FakeClock
) -> None:
    first, second = await stand(line, 2)
    assert pass_on(line, hold)
    clock.sleep(LEASE)
    assert not hold.held
    await turns()
    assert (first.got, second.got) == (True, None)
    await send_away(line, first, second)


async def test_who_was_passed_a_lost_hold_is_the_next_to_ask(line: Line, hold: Hold) -> None:
    """The loss is told to the line before the one it was passed to has had its turn."""
    make_lease(hold)
    first, second, third = await stand(line, 3)
    assert pass_on(line, hold)
    hold.lose("Redis says somebody else holds it, or nobody")
    await turns()
    assert [waiter.got for waiter in (first, second, third)] == [None, True, None]
    await send_away(line, second)
    await turns()
    assert [waiter.got for waiter in (first, third)] == [True, None]
    await send_away(line, first, third)
    assert not line.needed(0.0)


async def test_a_lost_hold_is_not_waited_for_beyond_the_deadline(
    line: Line, hold: Hold, clock: FakeClock
) -> None:
    waiter = Waiter(line, deadline=asyncio.get_running_loop().time() + 0.001)
    await turns()
    assert pass_on(line, hold)
    clock.sleep(LEASE)
    line.releasing = True
    assert await waiter.task is False
    assert not line.places


async def test_closing_sends_everybody_away(line: Line, hold: Hold) -> None:
    waiters = await stand(line, 3)
    line.close(ClientClosedError("the client was closed"))
    for waiter in waiters:
        with pytest.raises(ClientClosedError):
            await waiter.task
    assert not line.places
