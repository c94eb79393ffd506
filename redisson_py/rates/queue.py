"""The requests of one client that wait for one rate limiter, and when the server will admit them.

They stand in the local queue, first come first served. Its head asks the server for all of them,
which admits as many as fit, in order, and says when the next will fit. That one becomes the head,
sleeps until then, and asks. So a server is asked once for each moment at which something fits.

Each request has an id, under which the server keeps its admission. A request that leaves without
knowing whether it was admitted is undone by that id. One that was asked about and still waits keeps
its id: the next head finds its admission.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from redisson_py._engine.bus import Sleeper
from redisson_py._engine.local_queue import LEAVE, LocalQueue, Waiter
from redisson_py._engine.wakeups import Channel
from redisson_py._loop import fail, loop_time, wake
from redisson_py._owner import TaskRef
from redisson_py._redis.commands.rate_limiter import ID_BYTES, Ruling

#: The most requests that the head asks for at once.
_MOST_AT_ONCE = 64

#: Seconds to sleep beyond the moment that the server named: clocks differ, and timers are rounded.
_AFTER_SECONDS = 0.001


class Applicant(Waiter):
    """One request for units, which may wait in the queue.

    Attributes:
        id: The name of its admission on the server.
        units: How many units it wants.
        maybe_admitted: The server was asked, and has not answered; or a copy may still arrive.
        admission: What the server said when it admitted it.
    """

    __slots__ = ("admission", "id", "maybe_admitted", "units")

    def __init__(self, task: TaskRef, units: int) -> None:
        super().__init__(task, passable=False)
        self.id: bytes = secrets.token_bytes(ID_BYTES)
        self.units: int = units
        self.maybe_admitted: bool = False
        self.admission: Ruling | None = None


class RateQueue(LocalQueue[Any]):
    """The tasks of one client that wait for one rate limiter.

    Attributes:
        next: The first that the server refused, and `due` the loop time at which it will fit.
        latest: The latest refusal.
        rate: The rate that the server named last, which no request in the queue exceeds; None: it
            has not named one yet.
        changes: How often something changed that makes an answer to an earlier request void.
        heard_on: What was heard on the channel before the latest answer was asked for.
        sleeper: What the head sleeps on.
    """

    __slots__ = ("changes", "due", "heard_on", "latest", "next", "rate", "sleeper")

    def reset(self) -> None:
        """Reset everything after the event loop was closed."""
        super().reset()
        self.next: Applicant | None = None
        self.due: float = 0.0
        self.latest: Ruling | None = None
        self.rate: int | None = None
        self.changes: int = 0
        self.heard_on: tuple[Channel, int] | None = None
        self.sleeper: Sleeper | None = None

    def to_ask_for(self, head: Applicant) -> list[Applicant]:
        """Return the head, and those behind it that still wait, as many as one request takes."""
        asked = [head]
        for waiter in self.waiters:
            if len(asked) == _MOST_AT_ONCE:
                break
            # One that is leaving undoes what it was asked for.
            if isinstance(waiter, Applicant) and not waiter.future.done():
                asked.append(waiter)
        return asked

    def due_for(self, head: Applicant) -> float:
        """Return the loop time at which the head fits; 0 if it is not known."""
        return self.due if self.next is head else 0.0

    def heard(self, asked: list[Applicant], ruling: Ruling, changes: int) -> None:
        """Take what the server said to a request for all of `asked`."""
        for applicant in asked[: ruling.admitted]:
            applicant.admission = ruling
            # The head is not asleep, and one whose time is up finds its admission.
            wake(applicant.future, LEAVE)
        self.next = None
        if ruling.admitted < len(asked):
            self.latest = ruling
            self.due = loop_time() + ruling.retry_in + _AFTER_SECONDS
            if changes == self.changes:
                self.next = asked[ruling.admitted]

    def heard_rate(self, rate: int, error: Callable[[int], Exception]) -> None:
        """Raise in those that wait for more units than the rate: they would never fit."""
        if rate == self.rate:
            return
        self.rate = rate
        for waiter in list(self.waiters):
            if isinstance(waiter, Applicant) and waiter.units > rate:
                fail(waiter.future, error(waiter.units))

    def changed(self) -> None:
        """Have the head ask at once: units came back, or the rate is another."""
        self.changes += 1
        self.next = None
        if self.sleeper is not None:
            self.sleeper.rouse()

    def close(self, error: BaseException) -> None:
        """Raise `error` in all waiters; the head finds that the client is closed."""
        super().close(error)
        self.changed()
