"""Pictures as SVG, by hand: axes, lines, bars and shades. Colours are those of the page's style."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

LEFT, RIGHT, TOP, BOTTOM = 64, 12, 22, 30


@dataclass
class Picture:
    """One picture, with a scale from seconds and values to places.

    Attributes:
        title: What it shows; read aloud where it cannot be seen.
        least: The value at the left edge.
        most: The value at the right edge.
        top: The greatest value; the least is `bottom`.
        bottom: The value at the lower edge.
        logarithmic: Whether each step up is ten times as much.
    """

    title: str
    least: float
    most: float
    top: float
    bottom: float = 0.0
    logarithmic: bool = False
    width: int = 640
    height: int = 180
    _parts: list[str] = field(default_factory=list)

    def x(self, value: float) -> float:
        """Return the place of a value from left to right."""
        share = (value - self.least) / ((self.most - self.least) or 1)
        return LEFT + share * (self.width - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Return the place of a value from top to bottom."""
        share = (self._scaled(value) - self._scaled(self.bottom)) / (
            (self._scaled(self.top) - self._scaled(self.bottom)) or 1
        )
        return self.height - BOTTOM - min(1.0, max(0.0, share)) * (self.height - TOP - BOTTOM)

    def _scaled(self, value: float) -> float:
        return math.log10(max(value, 1e-3)) if self.logarithmic else value

    def shade(self, start: float, end: float, text: str, look: str = "strike") -> None:
        """Shade a stretch, from top to bottom."""
        begin, stop = self.x(start), self.x(end)
        self._parts.append(
            f'<rect class="{look}" x="{begin:.1f}" y="{TOP}" width="{max(1.0, stop - begin):.1f}"'
            f' height="{self.height - TOP - BOTTOM}"><title>{escape(text)}</title></rect>'
        )

    def line(self, points: Iterable[tuple[float, float | None]], look: str) -> None:
        """Draw a line through points; it is interrupted where there is no value."""
        steps: list[str] = []
        pen = "M"
        for across, value in points:
            if value is None:
                pen = "M"
                continue
            steps.append(f"{pen}{self.x(across):.1f} {self.y(value):.1f}")
            pen = "L"
        self._parts.append(f'<path class="line {look}" d="{"".join(steps)}"/>')

    def bar(self, start: float, end: float, y: float, thick: float, look: str, text: str) -> None:
        """Draw a bar at a height in pixels."""
        begin, stop = self.x(start), self.x(end)
        self._parts.append(
            f'<rect class="{look}" x="{begin:.1f}" y="{y:.1f}" width="{max(2.0, stop - begin):.1f}"'
            f' height="{thick:.1f}" rx="2"><title>{escape(text)}</title></rect>'
        )

    def text(
        self, x: float, y: float, words: str, *, anchor: str = "start", look: str = ""
    ) -> None:
        """Write words at a place in pixels."""
        self._parts.append(
            f'<text class="{look}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
            f"{escape(words)}</text>"
        )

    def across(self, places: Sequence[float], unit: str) -> None:
        """Draw the axis from left to right."""
        base = self.height - BOTTOM
        for place in places:
            self._parts.append(
                f'<line class="axis" x1="{self.x(place):.1f}" x2="{self.x(place):.1f}"'
                f' y1="{base}" y2="{base + 4}"/>'
            )
            last = place == places[-1]
            words = f"{place:g} {unit}" if last else f"{place:g}"
            self.text(self.x(place), base + 16, words, anchor="end" if last else "middle")

    def up(self, values: Sequence[float], unit: str) -> None:
        """Draw the axis from bottom to top, with a line at each value."""
        for value in values:
            self._parts.append(
                f'<line class="grid" x1="{LEFT}" x2="{self.width - RIGHT}"'
                f' y1="{self.y(value):.1f}" y2="{self.y(value):.1f}"/>'
            )
            words = f"{value:,.10g}"
            self.text(LEFT - 6, self.y(value) + 4, words, anchor="end")
        self.text(LEFT, TOP - 9, unit, look="unit")

    def svg(self) -> str:
        """Return it as SVG."""
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img"'
            f' aria-label="{escape(self.title)}">{"".join(self._parts)}</svg>'
        )


def steps(most: float, number: int = 4) -> list[float]:
    """Return round values from 0 to at least `most`."""
    if most <= 0:
        return [0.0, 1.0]
    raw = most / number
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= raw * 0.999)
    return [step * place for place in range(math.ceil(most / step - 1e-9) + 1)]


def inside(most: float, number: int = 5) -> list[float]:
    """Return round values from 0 to at most `most`, and that itself in the end."""
    values = [each for each in steps(most, number) if each < most * 0.93]
    return [*values, float(f"{most:.3g}")]


def tens(least: float, most: float) -> list[float]:
    """Return the powers of ten from below `least` to above `most`."""
    low = math.floor(math.log10(max(least, 1e-3)))
    high = max(low + 1, math.ceil(math.log10(max(most, 1e-3))))
    return [10.0**power for power in range(low, high + 1)]
