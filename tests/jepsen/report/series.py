"""Numbers of a history, for tables and plots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.jepsen.history import History, Op
from tests.jepsen.result import Bin, Span

#: Into how many stretches a run is cut.
BINS = 60

#: So many strikes are drawn; more would be a black plot.
SPANS = 400


def began(history: History) -> int:
    """Return when the first operation of a worker was invoked."""
    others = ("nemesis", "probe")
    return next((op.t0 for op in history.ops if op.process not in others), 0)


def quantile(ordered: Sequence[float], part: float) -> float | None:
    """Return what a part of sorted values does not exceed; None if there are none."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else None


def _granted(op: Op) -> bool:
    return op.op == "acquire" and op.out == "ok" and op.t1 is not None


def tally(history: History) -> dict[str, int]:
    """Return what was counted: operations by name and outcome, strikes by their name.

    A strike that counted what it did (replies it swallowed) says so by its `n`.
    """
    counted: Counter[str] = Counter()
    for op in history.ops:
        if op.op == "nemesis":
            counted[f"strikes: {op.rid}"] += 1
            counted[f"times: {op.rid}"] += op.n or 0
        else:
            counted[f"{op.op} {op.out}"] += 1
    return {name: count for name, count in sorted(counted.items()) if count}


def spans(history: History) -> list[Span]:
    """Return what the nemeses did, in seconds since the run began."""
    start = began(history)
    end = max((op.t1 or op.t0 for op in history.ops), default=0)
    return [
        Span(op.rid, op.obj, (op.t0 - start) / 1e9, ((op.t1 or end) - start) / 1e9)
        for op in history.of("nemesis")[:SPANS]
    ]


def bins(history: History) -> list[Bin]:
    """Return how fast it went, stretch by stretch."""
    start = began(history)
    done = [op for op in history.ops if op.t1 is not None and op.op not in ("nemesis", "probe")]
    length = (max((op.end for op in done), default=start) - start) / BINS
    if not length:
        return []
    ended: Counter[int] = Counter()
    waits: dict[int, list[float]] = {}
    for op in done:
        place = min(BINS - 1, int((op.end - start) / length))
        ended[place] += 1
        if _granted(op):
            waits.setdefault(place, []).append((op.end - op.t0) / 1e6)
    found: list[Bin] = []
    for place in range(BINS):
        taken = sorted(waits.get(place, []))
        speed = ended[place] / (length / 1e9)
        middle, slow = quantile(taken, 0.5), quantile(taken, 0.99)
        found.append(Bin(place * length / 1e9, speed, middle, slow))
    return found
