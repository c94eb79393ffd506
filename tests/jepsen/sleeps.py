"""Records the sleeps of waiters that a timer ended, and not a wake-up.

Such a sleep alone proves nothing: leases end, and processes die. But the messages of a release come
over the connection of the waiter's requests, in order. So if a release was executed before the
waiter's next request, its message has come before the answer to that; if the waiter was not woken
even then, its wake-up was lost, however fast or slow the machine is.

An operation `overslept` is such a sleep, with the request before it and the answer after it:

    t0, t1      when the request began that Redis answered with "busy"; when the next was answered
    value       when that "busy" had come, and when the timer ended the sleep
    n           1 if the waiter stands in a queue of Redis, which tells its turn to it alone; else 0
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from redisson_py._engine import bus, waiting
from redisson_py._engine.request import AcquireRequest
from tests.jepsen.history import now

#: Told of a sleep: the request, when it was sent and answered "busy", and the end of the sleep.
OnOverslept = Callable[[AcquireRequest, tuple[int, int], int], None]


class _Watch:
    """One wait: when it was last told "busy", and the ends of its sleeps since."""

    def __init__(self) -> None:
        self.busy: tuple[int, int] | None = None
        self.ends: list[int] = []

    def woken(self) -> None:
        """Forget the sleeps: a wake-up came."""
        self.busy = None
        self.ends.clear()


_watch: ContextVar[_Watch | None] = ContextVar("watch", default=None)


class _Sleeper(bus.Sleeper):
    """A sleeper that notes which sleeps end without a wake-up."""

    def __init__(self) -> None:
        super().__init__()
        self._watch = _watch.get()
        self._yields = False

    def rouse(self) -> None:
        """End the sleep; the timer calls this too."""
        super().rouse()
        if self._watch is not None and self.seat is not None and self.seat.woken:
            self._watch.woken()

    async def wait(self, seconds: float | None) -> None:
        """Sleep, and note the end if nothing woke it."""
        await super().wait(seconds)
        watch = None if self._yields else self._watch
        if watch is not None and watch.busy is not None and self.seat and not self.seat.woken:
            watch.ends.append(now())

    async def wait_for_messages(self, beyond: int, seconds: float) -> bool:
        """Yield to other processes, which is no sleep, whatever ends it."""
        self._yields = True
        try:
            return await super().wait_for_messages(beyond, seconds)
        finally:
            self._yields = False


def watch_sleeps(told: OnOverslept) -> None:
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
                    told(self, watch.busy, end)
            watch.ends.clear()
            watch.busy = since, now()
        return answer

    bus.Sleeper = _Sleeper  # type: ignore[misc]
    waiting.acquire = watched_acquire
    AcquireRequest.run = watched_run  # type: ignore[method-assign]
