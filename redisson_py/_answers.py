"""What crosses the seam between engine and server, as values: changes, answers, wake-ups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from redisson_py.errors import BackendError


class RefusedError(BackendError):
    """Raised when a server answered a request with an error: it was not carried out.

    Attributes:
        where: The address of the server, if there are several.
        means_gone: It means that the hold it is about is not there.
        means_moving: It means that another server may carry out parts of the request.
        concerns_key: Without some of its keys the request might be carried out; if not, the same
            request is refused whatever its keys are.
    """

    where: str = ""
    means_gone: bool = False
    means_moving: bool = False
    concerns_key: bool = True


@dataclass(frozen=True, slots=True)
class Granted:
    """The request was granted.

    Attributes:
        token: The first of the fencing tokens that come with it, if there are any.
        tokens: How many come with it; 0: as many as the commands say.
        sent_at: The moment from which its lease counts; None: the moment the request was sent.
    """

    token: int | None = None
    tokens: int = 0
    sent_at: float | None = None


@dataclass(frozen=True, slots=True)
class Busy:
    """The request was not granted yet.

    Attributes:
        retry_in: Seconds after which to ask again even if no message comes; None: not known.
        queued: The store remembers the request, so a waiter that leaves must say so.
        absent: Nothing can become free: the number of permits of the semaphore was never set.
        missing: Of the permits of the semaphore some are neither free nor taken.
        position: The number of clients before this one in the queue of clients, if it is there.
        calls: The release of the holder will call the first client of that queue.
    """

    retry_in: float | None
    queued: bool = False
    absent: bool = False
    missing: bool = False
    position: int | None = None
    calls: bool = True


@dataclass(frozen=True, slots=True)
class Change:
    """Which of the changes of a hold a request is: a re-entry, a new lease, a smaller count.

    Attributes:
        number: Greater than that of every earlier change of this hold.
        remembered: The server must remember it, because an older one may still arrive.
    """

    number: int
    remembered: bool


@dataclass(frozen=True, slots=True)
class Taken:
    """For how long a name stays taken, by nobody, after its holder has released it.

    Attributes:
        until: The moment until which it does, by the library's clock.
        beyond: How many seconds later that is than the end of the lease that the server has,
            perhaps fewer than none; None: not known for sure.
    """

    until: float
    beyond: float | None


@dataclass(frozen=True, slots=True)
class Lost:
    """The earlier hold that this re-entry relies on is gone."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """The request arrived after it had been undone, and was refused."""


@dataclass(frozen=True, slots=True)
class Disagrees:
    """The server has something else than the request says: nothing was done, ask again.

    Attributes:
        permits: The number of permits of the semaphore; None: it is about a read-write lock, of
            which a writer waits that goes before readers.
    """

    permits: int | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """What the caller wanted is there already: nothing is granted, and nobody has to wait.

    Attributes:
        token: The fencing token with which it was made.
        value: What is there.
    """

    token: int
    value: str | bytes


Answer = Granted | Busy | Lost | GivenUp | Disagrees | Settled

GRANTED, LOST, GIVEN_UP = Granted(), Lost(), GivenUp()
UNKNOWN_WAIT = Busy(None)
NOT_THERE = Busy(None, absent=True)
MISSING = Busy(None, missing=True)

#: Wakes every waiter of a channel.
ALL = 1 << 30

#: The message that something is free, and that the first of the clients that wait were called.
CALLED = -(1 << 62)

#: Tells how many waiters a message wakes.
Wakes = Callable[[int], int]


def wakes_everybody(message: int) -> int:
    """A latch, a barrier: whatever the message says, all look again."""
    return ALL
