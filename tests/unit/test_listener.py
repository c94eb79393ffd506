"""Listeners: what is taken for one, and what becomes of its errors."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from redisson_py import AcquiredEvent, Listener, Listeners, Redisson
from redisson_py._listener import METHODS, Teller, check_listener
from tests.support.recorder import Recorder

EVENT = AcquiredEvent("k", "lock", "c:1", None, 0.0)
NOBODY = "redis://127.0.0.1:1"


class Some:
    def acquired(self, event: object) -> None:
        raise AssertionError

    lost = released = wait_started = wait_ended = acquired


class Async(Listener):
    async def lost(self, event: object, /) -> None:  # type: ignore[override]
        raise AssertionError


def test_a_listener_has_a_method_for_every_event() -> None:
    assert METHODS == (
        "acquired",
        "wait_started",
        "wait_ended",
        "released",
        "lost",
        "renewed_late",
        "connection_lost",
        "connection_restored",
    )


@pytest.mark.parametrize(
    ("listener", "says"),
    [
        (Some(), "Some lacks renewed_late, connection_lost, connection_restored"),
        (object(), "object lacks acquired, wait_started"),
        (print, "builtin_function_or_method lacks acquired"),
        (Recorder, "not the class Recorder"),
        (Async(), r"Async.lost must not be async"),
    ],
)
def test_a_bad_listener_is_refused_before_anything_happens(listener: Any, says: str) -> None:
    # No event loop runs here, so nothing can have been sent.
    with pytest.raises(TypeError, match=says):
        Redisson.from_url(NOBODY, listener=listener)


class Broken(Recorder):
    def __init__(self, *errors: BaseException) -> None:
        super().__init__()
        self.errors = errors

    def acquired(self, event: Any, /) -> None:
        super().acquired(event)
        raise self.errors[(len(self.events) - 1) % len(self.errors)]

    lost = acquired


def test_the_first_error_of_a_method_is_logged_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "redisson_py")
    listener = Broken(ZeroDivisionError("mine"), asyncio.CancelledError())
    teller = Teller(listener)
    for _ in range(100):
        teller.tell("acquired", EVENT)
    teller.tell("lost", EVENT)
    assert len(listener.events) == 101, "it goes on being told"
    errors = [record for record in caplog.records if record.levelno > logging.DEBUG]
    assert [(each.levelname, each.name, each.message) for each in errors] == [
        ("ERROR", "redisson_py", "the listener's acquired raised an error"),
        ("ERROR", "redisson_py", "the listener's lost raised an error"),
    ]
    assert all(record.exc_info for record in caplog.records)
    assert len(caplog.records) == 101


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_process_is_not_held_up(error: type[BaseException]) -> None:
    with pytest.raises(error):
        Teller(Broken(error())).tell("acquired", EVENT)


def test_several_listeners_are_called_in_order_even_if_one_raises(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events: list[tuple[str, str, object]] = []

    class Named(Listener):
        def __init__(self, name: str) -> None:
            self.name = name

        def __getattribute__(self, method: str) -> Any:
            if method not in METHODS:
                return super().__getattribute__(method)
            return lambda event: events.append((self.name, method, event))

    listeners = Listeners(Named("a"), Broken(ZeroDivisionError("mine")), Named("b"))
    assert check_listener(listeners) is listeners
    for method in METHODS:
        event = object() if method != "acquired" else EVENT
        getattr(listeners, method)(event)
        assert events == [("a", method, event), ("b", method, event)]
        events.clear()
    errors = [each.message for each in caplog.records if each.levelno == logging.ERROR]
    assert "the listener's acquired raised an error" in errors


def test_the_methods_of_the_base_do_nothing() -> None:
    class Mine(Listener):
        pass

    mine = Mine()
    for method in METHODS:
        assert getattr(mine, method)(EVENT) is None
