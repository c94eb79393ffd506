"""Until when a lease that is made of leases lasts, and how long servers are waited for."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redisson_py.composite._hold import end_of
from redisson_py.composite._quorum_rounds import answer_time


class Part:
    """What an end is computed from."""

    def __init__(self, ends_at: float, state: str = "held") -> None:
        self._ends_at = ends_at
        self._state = state


parts = st.lists(
    st.builds(Part, st.floats(0, 100), st.sampled_from(["held", "held", "lost", "released"])),
    max_size=7,
)


@given(parts, st.integers(1, 7))
def test_the_end_is_the_last_moment_at_which_enough_are_held(
    several: list[Any], needed: int
) -> None:
    end = end_of(several, needed)

    def left_at(moment: float) -> int:
        return sum(part._state == "held" and part._ends_at >= moment for part in several)

    if end == -math.inf:
        assert sum(part._state == "held" for part in several) < needed
    else:
        assert left_at(end) >= needed
        assert left_at(math.nextafter(end, math.inf)) < needed


class _Lock:
    """Has as much of a client as the time needs."""

    def __init__(self, lease_time: float) -> None:
        self.context = self
        self.options = self
        self.lease_time = lease_time


@pytest.mark.parametrize(
    ("lease_time", "seconds"),
    [(30, 0.15), (10, 0.1), (60, 0.3), (1000, 0.5), (0.9, 0.1), (0.1, 0.05)],
)
def test_a_server_is_waited_for_a_small_part_of_the_lease(
    lease_time: float, seconds: float
) -> None:
    locks: list[Any] = [_Lock(lease_time), _Lock(2 * lease_time)]
    assert answer_time(locks, None) == pytest.approx(seconds)
    assert answer_time(locks, lease_time) == pytest.approx(seconds)
