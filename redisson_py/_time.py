"""Durations and moments.

Users give float seconds or timedeltas, Redis takes whole milliseconds; they are converted here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import timedelta
from functools import lru_cache, partial

Duration = float | timedelta

#: Seconds by which a timer may fire early: a moment this near counts as reached. uvloop's clock has
#: whole milliseconds.
PUNCTUAL_SECONDS = 0.002
#: A server that answers late keeps a lease for up to so many seconds less than it was asked for.
#: One that was cut to the end of its hold still expires.
KEPT_LESS_SECONDS = 0.1

#: Ten years: far above any lease that makes sense, far below what Redis can add to its clock.
LONGEST_LEASE_SECONDS = 10 * 365 * 86_400.0

#: Seconds on a clock that never jumps and that goes on while the machine is suspended. A lease runs
#: out on the server whether or not this machine is awake; the plain monotonic clock, which stops
#: during suspend, would overestimate what is left.
now: Callable[[], float] = partial(
    time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
)


@lru_cache(maxsize=64)
def milliseconds(seconds: float) -> int:
    """Return whole milliseconds for Redis, at least one."""
    return max(1, round(seconds * 1000))


def check_lease_time(value: object, name: str = "lease_time") -> float:
    """Return a lease time in seconds.

    Raises:
        TypeError: It is not a number or a timedelta.
        ValueError: It is not finite, shorter than a millisecond or longer than ten years.
    """
    seconds = _seconds(value, name)
    if not math.isfinite(seconds) or seconds < 0.001 or seconds > LONGEST_LEASE_SECONDS:
        raise ValueError(
            f"{name} must be between 1 millisecond and 10 years, in seconds, not {value!r}"
        )
    return seconds


def check_lease_times(lease_time: object, max_hold: object) -> tuple[float | None, float | None]:
    """Return the lease time and the longest hold of an acquisition, in seconds.

    Raises:
        TypeError: One of them is not None, a number or a timedelta.
        ValueError: One of them is out of range as a lease time, or both are given.
    """
    seconds = None if lease_time is None else check_lease_time(lease_time)
    most = None if max_hold is None else check_lease_time(max_hold, "max_hold")
    if seconds is not None and most is not None:
        raise ValueError("give lease_time or max_hold, not both: a lease_time is not renewed")
    return seconds, most


def check_min_hold(value: object, limits: tuple[float | None, float | None]) -> float | None:
    """Return the shortest time for which a name is taken, in seconds.

    Args:
        value: The time.
        limits: The lease time and the longest hold, as `check_lease_times` returns them.

    Raises:
        TypeError: It is not None, a number or a timedelta.
        ValueError: It is out of range as a lease time, or longer than one of the limits.
    """
    if value is None:
        return None
    least = check_lease_time(value, "min_hold")
    for limit, name in zip(limits, ("lease_time", "max_hold"), strict=True):
        if limit is not None and limit < least:
            raise ValueError(f"{name} must not be shorter than min_hold: {limit:g} < {least:g}")
    return least


def check_timeout(value: object, name: str = "timeout") -> float | None:
    """Return a timeout in seconds; None and infinity both mean no timeout.

    Raises:
        TypeError: It is not None, a number or a timedelta.
        ValueError: It is negative or NaN.
    """
    if value is None:
        return None
    seconds = _seconds(value, name)
    if math.isnan(seconds) or seconds < 0:
        raise ValueError(f"{name} must be zero or more seconds, or None, not {value!r}")
    return None if math.isinf(seconds) else seconds


def within(seconds: float | None) -> str:
    """Return how long a call waited, for the text of its error; a call may only have looked."""
    return f" within {seconds:g} s" if seconds else ""


def busy_for(seconds: float | None) -> str:
    """As `within`, for what others hold."""
    return f"stayed busy for {seconds:g} s" if seconds else "is busy"


def _seconds(value: object, name: str) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be seconds or a timedelta, not {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} is too large: {name} is given in seconds") from None
