"""Records the sleeps of waiters that a timer ended, and not a wake-up.

Such a sleep alone proves nothing: leases end, and processes die. But the messages of a release come
over the connection of the waiter's requests, in order. So if a release was executed before the
waiter's next request, its message has come before the answer to that; if the waiter was not woken
even then, its wake-up was lost, however fast or slow the machine is.

An operation `overslept` is such a sleep, with the request before it and the answer after it:

    t0, t1      when the request began that Redis answered with "busy"; when the next was answered
    value       when that "busy" had come, and when the timer ended the sleep
    n           where the waiter stood by that "busy": see `Position`
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from redisson_py._answers import Busy
from redisson_py._engine import bus, client_queue, request, waiting
from redisson_py._engine.request import AcquireRequest
from tests.jepsen.checkers.oversleeping import Position
from tests.jepsen.history import now

#: Told of a sleep: the request, when it was sent and answered "busy", where it stood then, and the
#: end of the sleep.
OnOverslept = Callable[[AcquireRequest, tuple[int, int], Position, int], None]


class _Watch:
    """One wait: when it was told "busy" last, where it stood then, and its sleeps since."""

    def __init__(self) -> None:
        self.busy: tuple[int, int] | None = None
        self.position = Position.NOWHERE
        self.ends: list[int] = []

    def woken(self) -> None:
        """Forget the sleeps: a wake-up came."""
        self.busy = None
        self.ends.clear()


_watch: ContextVar[_Watch | None] = ContextVar("watch", default=None)


class _Noting(bus.Sleeper):
    """Notes which sleeps end without a wake-up."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._wait = _watch.get()
        self._yields = False

    def rouse(self) -> None:
        """End the sleep; the timer calls this too."""
        super().rouse()
        if self._wait is not None and self.seat is not None and self.seat.woken:
            self._wait.woken()

    async def wait(self, seconds: float | None) -> None:
        """Sleep, and note the end if nothing woke it."""
        await super().wait(seconds)
        watch = None if self._yields else self._wait
        if watch is not None and watch.busy is not None and self.seat and not self.seat.woken:
            watch.ends.append(now())

    async def wait_for_messages(self, beyond: int, seconds: float) -> bool:
        """Yield to other processes, which is no sleep, whatever ends it."""
        self._yields = True
        try:
            return await super().wait_for_messages(beyond, seconds)
        finally:
            self._yields = False


class _Sleeper(_Noting):
    """A sleeper beside a channel on which all releases are announced."""


class _QueueSleeper(_Noting, client_queue.QueueSleeper):
    """A sleeper in the queue of clients."""


def _position(waiting_for: AcquireRequest, answer: object) -> Position:
    if isinstance(answer, Busy) and answer.position is not None:
        return Position.BEHIND if answer.position else Position.FIRST
    return Position.IN_ORDER if waiting_for.ownership.commands.queues else Position.NOWHERE


def watch_sleeps(on_overslept: OnOverslept) -> None:
    """Tell of sleeps that end without a wake-up, in this process, from now on."""
    acquire, run = waiting.acquire, AcquireRequest.run

    async def watched_acquire(*args: Any, **options: Any) -> Any:
        _watch.set(_Watch())
        return await acquire(*args, **options)

    async def watched_run(self: AcquireRequest, deadline: float | None) -> Any:
        since = now()
        answer = await run(self, deadline)
        if (watch := _watch.get()) is not None:
            for end in watch.ends:
                if watch.busy is not None:
                    on_overslept(self, watch.busy, watch.position, end)
            watch.ends.clear()
            watch.busy, watch.position = (since, now()), _position(self, answer)
        return answer

    bus.Sleeper = _Sleeper  # type: ignore[misc]
    request.QueueSleeper = _QueueSleeper  # type: ignore[attr-defined, assignment]
    waiting.acquire = watched_acquire
    AcquireRequest.run = watched_run  # type: ignore[method-assign]
