"""An uncontended pair and a hand-off call no more functions than they do now."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.house.measure import calls_a_hand_off, calls_a_pair

pytest.importorskip("uvloop")


def fewest(count: Callable[[], float]) -> float:
    """Return the fewest of three: a busy server answers in more pieces, each a few calls more."""
    return min(count() for _ in range(3))


def test_a_pair_calls_few_functions() -> None:
    assert 0 < fewest(calls_a_pair) <= 94


def test_a_hand_off_calls_few_functions() -> None:
    assert 0 < fewest(calls_a_hand_off) <= 36
