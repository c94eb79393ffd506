"""The types of options that are durations and rates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _Number = click.ParamType[float]
else:
    # Generic since click 8.4.
    _Number = click.ParamType


class Seconds(_Number):
    """A finite number of seconds, zero or more.

    Args:
        positive: Zero is refused.
    """

    name = "seconds"

    def __init__(self, *, positive: bool = False) -> None:
        self._positive = positive

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the seconds; what is out of range is a usage error."""
        try:
            seconds = float(str(value))
        except ValueError:
            seconds = math.nan
        if not math.isfinite(seconds) or seconds < 0 or (self._positive and seconds == 0):
            least = "more than 0" if self._positive else "0 or more"
            self.fail(f"{value} is not a number of seconds, {least}", param, ctx)
        return seconds


class FiniteRange(click.FloatRange):
    """A number within bounds. click alone would accept NaN, which is within any bounds."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number; what is none is a usage error."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number
