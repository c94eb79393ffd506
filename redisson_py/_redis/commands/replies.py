"""The raw replies of scripts to an acquire request, decoded once."""

from __future__ import annotations

from redisson_py._answers import (
    GIVEN_UP,
    GRANTED,
    LOST,
    MISSING,
    NOT_THERE,
    UNKNOWN_WAIT,
    Answer,
    Busy,
    Disagrees,
)

#: The reply to a release of which nobody has heard.
ALONE = 1


def others(reply: int, hears: bool) -> int:
    """Return how many others have heard a release: one less than the reply, and without us.

    -1: it has called the first of the clients that wait.
    """
    return reply if reply < 0 else reply - ALONE - hears


def stored_number(raw: bytes) -> int:
    """Return a number as Redis keeps it; 0 for anything else that somebody may have put there."""
    try:
        number = float(raw)
    except ValueError:
        return 0
    return int(number) if abs(number) < 1 << 63 else 0


def seconds_left(milliseconds: int) -> float:
    """Return the seconds until something has ended that has these milliseconds left.

    A key whose time is over by less than a millisecond is still there.
    """
    return (milliseconds + 1) / 1000


def other_number(reply: int) -> int | None:
    """Return how many permits there are, if a reply says that these are others than named."""
    return -10 - reply if reply <= -10 else None


def in_queue(reply: list[int]) -> Busy:
    """Return what the reply to a client that waits in the queue of clients means.

    For one that waits for units of a semaphore, the last of it says why.
    """
    milliseconds, position, calls_nobody, *why = reply
    retry_in = seconds_left(milliseconds) if milliseconds >= 0 else None
    absent, missing = -4 in why, -5 in why
    return Busy(retry_in, absent=absent, missing=missing, position=position, calls=not calls_nobody)


def decode(reply: int | list[int] | None) -> Answer:
    """Return what the reply of an acquire script without tokens means."""
    if reply is None:
        return GRANTED
    if isinstance(reply, list):
        return in_queue(reply)
    if reply >= 0:
        return Busy(seconds_left(reply))
    if reply == -1:
        return UNKNOWN_WAIT
    if reply == -4:
        return NOT_THERE
    if reply == -5:
        return MISSING
    if reply == -6:
        return Disagrees()
    if (permits := other_number(reply)) is not None:
        return Disagrees(permits)
    return LOST if reply == -2 else GIVEN_UP
