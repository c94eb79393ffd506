"""The lines of a client: found by key, forgotten when nobody needs them, closed together."""

from __future__ import annotations

import asyncio

import pytest
from redisson_py._handoff import COURTESY, Line, Lines, take_turn
from redisson_py._waiting import Turn

from redisson_py import _handoff
from redisson_py.errors import ClientClosedError
from tests.unit.fakes import FakeClock, make_hold
from tests.unit.standing import send_away, stand


async def test_a_line_is_found_by_its_key() -> None:
    lines = Lines()
    assert lines.find(b"k") is None
    line = lines.open(b"k")
    assert lines.open(b"k") is line is lines.find(b"k")
    assert lines.open(b"other") is not line


async def test_those_who_ask_and_those_who_stand_are_waiting() -> None:
    lines = Lines()
    line = lines.open(b"k")
    waiters = await stand(line, 3)
    assert lines.waiting == 3
    await send_away(line, *waiters)
    assert lines.waiting == 0


async def test_lines_nobody_needs_are_forgotten_and_the_others_kept() -> None:
    lines = Lines()
    kept = {key: lines.open(key) for key in (b"held", b"stood in", b"released", b"turn")}
    kept[b"held"].hold = make_hold(ends_at=1e9)
    kept[b"released"].releasing = True
    kept[b"turn"].turn = Turn(3, asyncio.get_running_loop().time() + 60, 60)
    waiters = await stand(kept[b"stood in"], 2)
    for number in range(10_000):
        lines.open(b"%d" % number)
    assert len(lines._lines) < 300
    assert {key: lines.find(key) for key in kept} == kept
    await send_away(kept[b"stood in"], *waiters)


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
    line = Line()
    assert take_turn(line) is None
    turn = line.turn = Turn(3, clock.present + COURTESY, COURTESY)
    assert line.needed(clock.present), "the next one must find the turn"
    assert take_turn(line) is turn
    assert take_turn(line) is None
    line.turn = Turn(3, clock.present + COURTESY, COURTESY)
    clock.sleep(COURTESY)
    assert take_turn(line) is None
    assert not line.needed(clock.present)
