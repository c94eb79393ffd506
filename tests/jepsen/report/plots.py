"""What is drawn of a run: its speed, what acquires took, and how long hand-offs lasted."""

from __future__ import annotations

import math

from tests.jepsen.report.drawing import Picture, inside, steps, tens
from tests.jepsen.report.series import quantile
from tests.jepsen.result import Result

#: The parts of the hand-offs whose time is drawn: one in two, in ten, in a hundred, ...
_PARTS = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99999]


def speed(result: Result) -> str:
    """Draw operations by second over time, with what the nemeses did."""
    values = steps(max((each.ended for each in result.bins), default=1))
    picture = _over_time("operations per second", result, Picture("", 0, 1, values[-1]))
    picture.up(values, "operations per second")
    picture.line([(each.start, each.ended) for each in result.bins], "first")
    return picture.svg()


def latency(result: Result) -> str:
    """Draw the median and the 99th percentile of what acquires took, over time."""
    taken = [ms for each in result.bins for ms in (each.median, each.slow) if ms is not None]
    values = tens(min(taken, default=1), max(taken, default=1))
    scale = Picture("", 0, 1, values[-1], values[0], logarithmic=True)
    picture = _over_time("milliseconds until granted", result, scale)
    picture.up(values, "ms until granted: median, 99th percentile")
    picture.line([(each.start, each.slow) for each in result.bins], "second")
    picture.line([(each.start, each.median) for each in result.bins], "first")
    return picture.svg()


def _over_time(title: str, result: Result, picture: Picture) -> Picture:
    width = result.bins[1].start if len(result.bins) > 1 else 1.0
    end = result.bins[-1].start + width if result.bins else 1.0
    picture.title, picture.most = title, end
    for span in result.spans:
        if span.start < end:
            text = f"{span.what} {span.whom} {span.start:.2f} s to {span.end:.2f} s"
            picture.shade(span.start, min(span.end, end), text)
    picture.across(inside(end), "s")
    return picture


def handoffs(result: Result) -> str:
    """Draw how long hand-offs took; to the right are the slow ones, ten times rarer a step."""
    taken = result.handoffs.taken
    parts = [part for part in _PARTS if part == 0 or (1 - part) * len(taken) >= 1] + [1.0]
    rarest = max(10.0, float(len(taken)))
    values = tens(quantile(taken, 0.0) or 1, taken[-1])
    picture = Picture(
        "milliseconds of hand-offs", 0, math.log10(rarest), values[-1], values[0], logarithmic=True
    )
    picture.up(values, "ms from a contended release to the next grant")
    picture.line(
        [(math.log10(1 / max(1 - part, 1 / rarest)), quantile(taken, part)) for part in parts],
        "first",
    )
    words = {0.5: "p50", 0.9: "p90", 0.99: "p99", 0.999: "p99.9", 0.9999: "p99.99", 1.0: "max"}
    room = picture.width - 2.0
    for part, word in reversed(words.items()):
        place = picture.x(math.log10(1 / max(1 - part, 1 / rarest)))
        if part in parts and place < room:
            anchor = "end" if part == 1 else "middle"
            picture.text(place, picture.height - 14, word, anchor=anchor)
            room = place - 60
    return picture.svg()
