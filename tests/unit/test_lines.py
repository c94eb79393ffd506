"""The lines of a client: found by key, forgotten when nobody needs them, closed together."""

from __future__ import annotations

import pytest

from redisson_py import _handoff
from redisson_py._handoff import COURTESY, Lines, take_turn
from redisson_py._waiting import Turn
from redisson_py.errors import ClientClosedError
from tests.unit.fakes import FakeClock, make_hold
from tests.unit.standing import send_away, stand


async def test_lines_are_found_by_key_and_forgotten_when_empty() -> None:
    lines = Lines()
    assert lines.find(b"k") is None
    line = lines.open(b"k")
    assert lines.open(b"k") is line is lines.find(b"k")
    assert lines.open(b"other") is not line
    (waiter,) = await stand(line, 1)
    assert lines.waiting == 1
    lines.drop_if_empty(line)
    assert lines.find(b"k") is line
    send_away(line, waiter)
    lines.drop_if_empty(line)
    assert lines.find(b"k") is None
    assert lines.waiting == 0


async def test_a_line_with_a_hold_is_kept() -> None:
    lines = Lines()
    line = lines.open(b"k")
    line.hold = make_hold(ends_at=1e9)
    lines.drop_if_empty(line)
    assert lines.find(b"k") is line
    line.hold = None
    lines.drop_if_empty(line)
    assert lines.find(b"k") is None


async def test_closing_all_lines_sends_everybody_away() -> None:
    lines = Lines()
    waiters = []
    for key in (b"a", b"b"):
        lines.open(key).releasing = True
        waiters += await stand(lines.open(key), 2)
    lines.close(ClientClosedError("the client was closed"))
    for waiter in waiters:
        with pytest.raises(ClientClosedError):
            await waiter.task
    assert lines.waiting == 0


async def test_the_turn_of_others_is_respected_once_and_not_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = FakeClock()
    monkeypatch.setattr(_handoff, "running_loop", lambda: clock)
    monkeypatch.setattr(_handoff, "call_later", clock.call_later)
    lines = Lines()
    line = lines.open(b"k")
    assert take_turn(line) is None
    turn = line.turn = Turn(3, clock.present + COURTESY)
    lines.drop_if_empty(line)
    assert lines.find(b"k") is line, "the next one must find the turn"
    assert take_turn(line) is turn
    assert take_turn(line) is None
    line.turn = Turn(3, clock.present + COURTESY)
    clock.sleep(COURTESY)
    assert take_turn(line) is None
    clock.sleep(COURTESY)
    assert lines.find(b"k") is None
    assert clock.pending == []
