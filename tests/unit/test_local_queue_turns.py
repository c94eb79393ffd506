"""Other processes' turns: offered after a release, yielded to once, and not for long."""

from __future__ import annotations

import pytest

from redisson_py._engine import local_queue
from redisson_py._engine.hold import Hold
from redisson_py._engine.local_queue import YIELD_BACK_OFF, YIELD_WAIT, LocalQueue
from redisson_py._engine.waiting import Turn
from tests.unit.fakes import FakeClock


@pytest.fixture
def queue() -> LocalQueue[Hold]:
    return LocalQueue[Hold]()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock()
    monkeypatch.setattr(local_queue, "loop_time", clock.time)
    return clock


def test_a_turn_is_offered_for_each_other_subscriber(
    queue: LocalQueue[Hold], clock: FakeClock
) -> None:
    assert queue.offer_turn(0, 7) is None
    assert queue.offer_turn(3, 7) == Turn(9, clock.present + YIELD_WAIT, YIELD_WAIT)


def test_after_a_turn_that_nobody_took_none_is_offered_for_a_while(
    queue: LocalQueue[Hold], clock: FakeClock
) -> None:
    queue.turn_not_taken()
    assert queue.needed(clock.present), "else the next one would not know"
    clock.sleep(YIELD_BACK_OFF - 0.001)
    assert queue.offer_turn(1, 0) is None
    clock.sleep(0.002)
    assert queue.offer_turn(1, 0) is not None
    assert not queue.needed(clock.present)


def test_a_turn_is_yielded_to_once_and_not_for_long(
    queue: LocalQueue[Hold], clock: FakeClock
) -> None:
    assert queue.take_turn() is None
    turn = queue.turn = queue.offer_turn(1, 3)
    assert queue.needed(clock.present), "the next one must find the turn"
    assert queue.is_ahead
    assert queue.take_turn() is turn
    assert queue.take_turn() is None
    queue.turn = turn
    clock.sleep(YIELD_WAIT)
    assert not queue.is_ahead
    assert queue.take_turn() is None
    assert not queue.needed(clock.present)
