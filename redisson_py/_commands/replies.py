"""The answers of scripts to an acquire request, as values; decoded once, beside the script."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Granted:
    """The request was granted.

    Attributes:
        token: The first of the fencing tokens that come with it, if there are any.
    """

    token: int | None = None


@dataclass(frozen=True, slots=True)
class Busy:
    """The request was not granted yet.

    Attributes:
        retry_in: Seconds after which to ask again even if no message comes; None: not known.
        queued: Redis remembers the request, so a waiter that leaves must say so.
        absent: Nothing can become free: the number of permits of the semaphore was never set.
    """

    retry_in: float | None
    queued: bool = False
    absent: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """The earlier hold that this re-entry relies on is gone."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """The request arrived after it had been undone, and was refused."""


Answer = Granted | Busy | Lost | GivenUp

GRANTED, LOST, GIVEN_UP = Granted(), Lost(), GivenUp()
UNKNOWN_WAIT = Busy(None)
NOT_THERE = Busy(None, absent=True)


def stored_number(raw: bytes) -> int:
    """Return a number as Redis keeps it; 0 for anything else that somebody may have put there."""
    try:
        number = float(raw)
    except ValueError:
        return 0
    return int(number) if abs(number) < 1 << 63 else 0


def decode(reply: int | None) -> Answer:
    """Return what the reply of an acquire script without tokens means."""
    if reply is None:
        return GRANTED
    if reply >= 0:
        return Busy(reply / 1000)
    if reply == -1:
        return UNKNOWN_WAIT
    if reply == -4:
        return NOT_THERE
    return LOST if reply == -2 else GIVEN_UP
