"""`with lock:`: how it is recognized, and the context variables that it takes along."""

from __future__ import annotations

import contextvars
import gc
from typing import Any

import pytest

from redisson_py import AcquiredEvent, Listener, ReleasedEvent
from redisson_py.sync import Redisson, _blocks
from tests.sync.threads import ClientFactory, until


def test_a_listener_sees_the_context_of_each_call(clients: ClientFactory) -> None:
    # As OpenTelemetry's current span, which is the parent of the span of a hold.
    current = contextvars.ContextVar("current", default="none")
    seen: list[str] = []

    class Sees(Listener):
        def acquired(self, event: AcquiredEvent, /) -> None:
            seen.append(current.get())

        def released(self, event: ReleasedEvent, /) -> None:
            seen.append(current.get())

    lock = clients(listener=Sees()).get_lock("k")
    for value in ("first", "second"):
        token = current.set(value)
        with lock:
            pass
        current.reset(token)
    with lock:
        pass
    assert seen == [*["first"] * 2, *["second"] * 2, *["none"] * 2]


@pytest.mark.parametrize("first", ["__enter__", "__exit__"], ids=["before 3.14", "from 3.14 on"])
def test_a_statement_is_recognized_by_its_look_ups(
    first: str, client: Redisson, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_blocks, "_FIRST", first)
    lock = client.get_lock("k")

    def look_up() -> list[Any]:
        methods = [getattr(lock, first)]
        methods.append(lock.__exit__ if first == "__enter__" else lock.__enter__)
        return methods if first == "__enter__" else methods[::-1]

    enter, leave = look_up()
    enter()
    # The methods alone keep the block: as `with` forgets them, it is given back.
    del enter, leave
    gc.collect()
    until(lambda: not lock.locked())
    # Looked up alone first, as `hasattr` does.
    assert hasattr(lock, first)
    enter, leave = look_up()
    enter()
    assert lock.owned()
    leave(None, None, None)
    assert not lock.locked()
    lock.__enter__()
    lock.__exit__(None, None, None)
    assert not lock.locked()
