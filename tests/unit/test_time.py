"""Durations are checked before any I/O and become whole milliseconds in one place."""

from __future__ import annotations

import math
import time
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redisson_py._time import (
    LONGEST_LEASE_SECONDS,
    check_lease_time,
    check_timeout,
    milliseconds,
    now,
)

NO_DURATIONS = ["5", b"5", True, False, [5], 5j, Decimal(5), Fraction(5), object()]


@pytest.mark.parametrize(
    "value",
    [
        *(0, 0.0, -0.0, -1, -0.001, 0.0004, 0.00099, 5e-324),
        *(math.nan, math.inf, -math.inf, 2**63, 10**400, LONGEST_LEASE_SECONDS * 1.001),
        *(timedelta(0), timedelta(microseconds=400), -timedelta(1), timedelta.max),
    ],
)
def test_a_lease_out_of_range_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="lease_time"):
        check_lease_time(value)


@pytest.mark.parametrize("value", [*NO_DURATIONS, None])
def test_a_lease_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="lease_time must be seconds or a timedelta"):
        check_lease_time(value)


@pytest.mark.parametrize("value", [None, math.inf])
def test_no_timeout_is_none_or_infinity(value: object) -> None:
    assert check_timeout(value) is None


@pytest.mark.parametrize("value", [-1, -0.0004, math.nan, -math.inf, 10**400, timedelta(-1)])
def test_a_timeout_out_of_range_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="timeout"):
        check_timeout(value)


@pytest.mark.parametrize("value", NO_DURATIONS)
def test_a_timeout_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="timeout must be seconds or a timedelta"):
        check_timeout(value)


@given(value=st.one_of(st.floats(), st.integers(), st.timedeltas()))
def test_every_number_is_either_a_good_lease_or_refused(
    value: float | timedelta,
) -> None:
    try:
        seconds = check_lease_time(value)
    except ValueError:
        return
    assert 0.001 <= seconds <= LONGEST_LEASE_SECONDS
    assert 1 <= milliseconds(seconds) <= LONGEST_LEASE_SECONDS * 1000


@given(value=st.one_of(st.floats(), st.integers(), st.timedeltas()))
def test_every_number_is_either_a_good_timeout_or_refused(value: float | timedelta) -> None:
    try:
        seconds = check_timeout(value)
    except ValueError:
        return
    assert seconds is None or 0 <= seconds < math.inf


@pytest.mark.parametrize(
    ("seconds", "whole"),
    [(30, 30_000), (0.001, 1), (0.0004, 1), (-1, 1), (0.0015, 2), (1.0004, 1000)],
)
def test_milliseconds_are_whole_and_at_least_one(seconds: float, whole: int) -> None:
    assert milliseconds(seconds) == whole
    assert isinstance(milliseconds(seconds), int)


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no such clock")
def test_now_goes_on_in_suspend() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= now() <= time.clock_gettime(time.CLOCK_BOOTTIME)
