"""The function that a client calls when a lease is lost."""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress

from redisson_py import Listener, LostEvent

log = logging.getLogger("redisson_py")


OnLost = Callable[[LostEvent], object]

#: The calls that the thread still has to make. One thread serves all clients, from the first loss.
_losses: queue.SimpleQueue[tuple[OnLost, LostEvent]] | None = None


def _call_soon(on_lost: OnLost, event: LostEvent) -> None:
    global _losses
    if _losses is None:
        _losses = queue.SimpleQueue()
        thread = threading.Thread(
            target=_work, args=(_losses,), name="redisson_py.sync losses", daemon=True
        )
        # An exiting interpreter may start no thread any more.
        with suppress(RuntimeError):
            thread.start()
    _losses.put((on_lost, event))


def _work(losses: queue.SimpleQueue[tuple[OnLost, LostEvent]]) -> None:
    while True:
        on_lost, event = losses.get()
        try:
            on_lost(event)
        except BaseException:
            log.exception("on_lost raised an error")


def _forked() -> None:
    global _losses
    _losses = None


os.register_at_fork(after_in_child=_forked)


class LossListener(Listener):
    """A listener that has a function called for each loss, in a thread of its own.

    That thread may block and use the client, which the event loop's must not.

    Args:
        on_lost: The function.
    """

    def __init__(self, on_lost: OnLost) -> None:
        self._on_lost = on_lost

    def lost(self, event: LostEvent, /) -> None:
        """Have the function called."""
        _call_soon(self._on_lost, event)
