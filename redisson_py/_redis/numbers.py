"""Whole numbers that Redis counts with."""

from __future__ import annotations

#: Lua counts in doubles: whole numbers are exact below this.
EXACT_LIMIT = 1 << 53


def check_whole(value: object, name: str = "n", least: int = 1) -> int:
    """Return a whole number that Lua can represent exactly.

    Raises:
        TypeError: It is not an int.
        ValueError: It is below `least`, or too large to be exact.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be int, not {type(value).__name__}")
    if not least <= value < EXACT_LIMIT:
        raise ValueError(f"{name} must be at least {least} and below 2**53, not {value}")
    return value
