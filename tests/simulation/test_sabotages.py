"""The simulation can fail: with one thing taken from the package, some seed shows it."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from redisson_py._engine import hold, waiting
from redisson_py._engine.bus import Bus
from redisson_py._engine.request import AcquireRequest
from redisson_py._engine.watchdog import Watchdog
from redisson_py._stream.stream import Stream
from redisson_py.composite._ownership import CompositeOwnership
from tests.fixtures.measured import Measured
from tests.simulation.seeds import outcome_of
from tests.simulation.server.scripts import Interpreter

#: Seeds within which each must be noticed.
MOST = 400

Sabotage = Callable[[pytest.MonkeyPatch], None]


def lua(old: bytes, new: bytes, *, of: bytes) -> Sabotage:
    """Have the servers run another text of a script."""

    def sabotage(monkeypatch: pytest.MonkeyPatch) -> None:
        compile_script = Interpreter.compile

        def changed(self: Interpreter, text: bytes) -> object:
            if b"--! script   " + of + b"\n" in text:
                assert old in text
                text = text.replace(old, new)
            return compile_script(self, text)

        monkeypatch.setattr(Interpreter, "compile", changed)

    return sabotage


def no_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rely on a lease for its whole time, whatever the clocks do."""
    monkeypatch.setattr(hold, "DRIFT", 0.0)
    monkeypatch.setattr(hold, "DRIFT_FLOOR", 0.0)


def no_renewals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never renew anything."""
    monkeypatch.setattr(Watchdog, "_renew_what_is_due", lambda *_: math.inf)


def no_undo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave what a cancelled acquire may have got."""
    monkeypatch.setattr(AcquireRequest, "send_undo", lambda self: None)


def no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sleep after subscribing without asking again."""
    keep_asking = waiting._keep_asking

    async def asleep_first(
        request: object, sleeper: object, deadline: float | None, wait: object
    ) -> object:
        sleeper.arm()  # type: ignore[attr-defined]
        await sleeper.wait(waiting._sleep(None, deadline))  # type: ignore[attr-defined]
        return await keep_asking(request, sleeper, deadline, wait)  # type: ignore[arg-type]

    monkeypatch.setattr(waiting, "_keep_asking", asleep_first)


def no_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignore that a lease is lost: nobody is told."""
    monkeypatch.setattr(Watchdog, "lose", lambda *_: None)


def no_news_of_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a lease, as far as the client goes, of which Redis says that it is not there."""
    lose = Watchdog.lose

    def deaf(self: Watchdog, lost: hold.Hold, reason: hold.Reason) -> None:
        if reason not in {"taken", "forced"}:
            lose(self, lost, reason)

    monkeypatch.setattr(Watchdog, "lose", deaf)


def no_unsubscribe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Listen to a channel for ever."""
    monkeypatch.setattr(Stream, "unsubscribe", lambda *_: None)


def deaf_after_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send a SUBSCRIBE that a busy server refused no more."""
    monkeypatch.setattr(Bus, "put_off", lambda *_: None)


def too_small_quorum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be content with two of the five servers of a red lock."""
    begin = CompositeOwnership.__init__

    def content(self: CompositeOwnership, kind: str, *args: object) -> None:
        begin(self, kind, *args[:-1], 2)  # type: ignore[arg-type, call-arg]

    monkeypatch.setattr(CompositeOwnership, "__init__", content)


SABOTAGES: dict[str, tuple[str, Sabotage]] = {
    "no margin for clocks": ("lock", no_margin),
    "no renewals": ("lock", no_renewals),
    "losses ignored": ("lock", no_losses),
    "no undo": ("lock", no_undo),
    "no second look after subscribing": ("lock", no_second_look),
    "released by another owner": (
        "lock",
        lua(
            b"local held = redis.call('HGET', lock, owner)",
            b"local held = redis.call('EXISTS', lock) == 1 and '1' or nil",
            of=b"lock.release",
        ),
    ),
    "tokens without time": (
        "fenced_lock",
        lua(
            b"math.max(last + 1, time[1] * 1000000 + time[2])",
            b"last + 1",
            of=b"fenced_lock.acquire",
        ),
    ),
    "news of force ignored": ("lock", no_news_of_force),
    "channels stay subscribed": ("lock", no_unsubscribe),
    "deaf after a refused SUBSCRIBE": ("lock", deaf_after_busy),
    "a quorum of two": ("red_lock", too_small_quorum),
    "the last in the queue is the first": (
        "fair_lock",
        lua(b"'RPUSH', queue, waiter", b"'LPUSH', queue, waiter", of=b"fair_lock.acquire"),
    ),
    "living waiters passed over": (
        "fair_lock",
        lua(
            b"local granted = not head or head == waiter",
            b"local granted = true",
            of=b"fair_lock.acquire",
        ),
    ),
    "a re-entry counts twice": (
        "lock",
        lua(
            b"math.max(count, holds) - count",
            b"math.max(count, holds) - count + 1",
            of=b"lock.acquire",
        ),
    ),
    "freed by force again": (
        "lock",
        lua(b"if seen then", b"if false then", of=b"lock.force_release"),
    ),
    "writers beside readers": (
        "read_write_lock",
        lua(
            b"local found = ",
            b"if true then redis.call('HSET', lock, 'mode', 'write', owner, '1')"
            b" redis.call('PEXPIRE', lock, lease_ms) return nil end local found = ",
            of=b"write_lock.acquire",
        ),
    ),
}


#: Where to begin with what few seeds show.
RARE = {"freed by force again": 3100, "tokens without time": 300}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SABOTAGES)
def test_a_sabotage_is_noticed(
    name: str, monkeypatch: pytest.MonkeyPatch, measured: Measured
) -> None:
    kind, sabotage = SABOTAGES[name]
    sabotage(monkeypatch)
    first = RARE.get(name, 0)
    for seed in range(first, first + MOST):
        if outcome_of(seed, kind).failure:
            measured(f"{name} is noticed at seed", seed)
            return
    raise AssertionError(f"{MOST} seeds, and nothing was noticed")
