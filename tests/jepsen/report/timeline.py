"""The picture of a counterexample: a lane a task, a bar an operation, what was held behind it."""

from __future__ import annotations

from collections.abc import Sequence

from tests.jepsen.history import Op
from tests.jepsen.report.drawing import BOTTOM, RIGHT, TOP, Picture, inside
from tests.jepsen.result import Span

_LANE = 46
_BAR = 14
#: A lane's name needs so much room.
_NAME = 150
#: More operations than these are not drawn: a counterexample should be small.
MOST = 60


def timeline(ops: Sequence[Op], spans: Sequence[Span], began: int) -> str:
    """Draw the operations of a counterexample, with the strikes in whose time they were."""
    shown = sorted(ops, key=lambda op: op.t0)[:MOST]
    start = min(op.t0 for op in shown)
    # A lease may go on for long after what is shown.
    until = max(op.t1 or op.t0 for op in shown)
    tasks = _tasks(shown)
    lanes = list(dict.fromkeys(tasks.values()))
    height = TOP + BOTTOM + _LANE * len(lanes)
    margin = (until - start) * 0.03 + 1
    least, most = -margin / 1e6, (until - start + margin) / 1e6
    # The names of lanes stand left of the picture's own margin.
    picture = _Lanes("counterexample", least, most, 1, width=900, height=height)
    for span in spans:
        begin, end = ((began + moment * 1e9 - start) / 1e6 for moment in (span.start, span.end))
        if begin < most and end > least:
            text = f"{span.what} {span.whom}"
            picture.shade(max(begin, least), min(end, most), text)
    held = _held(shown)
    for begun, ended, _ in held:
        for other_begun, other_ended, other in held:
            both = max(begun, other_begun), min(ended, other_ended)
            if other.t0 > start and both[0] < both[1] and begun < other_begun:
                picture.shade(
                    (both[0] - start) / 1e6, (both[1] - start) / 1e6, "held twice", "overlap"
                )
    for number, lane in enumerate(lanes):
        y = TOP + number * _LANE
        picture.text(6, y + 28, lane, look="lane")
        for begun, ended, op in held:
            if tasks[id(op)] == lane:
                words = f"{op.rid} could rely on it"
                until_ms = min((ended - start) / 1e6, most)
                picture.bar((begun - start) / 1e6, until_ms, y + 16, _BAR, "held", words)
        _draw([op for op in shown if tasks[id(op)] == lane], start, most, y, picture)
    picture.across(inside(most), "ms")
    return picture.svg()


def _tasks(ops: Sequence[Op]) -> dict[int, str]:
    """Return by the identity of each operation the task that did it.

    What a process recorded of a section without saying in which task was the task's that asked.
    """
    asked = {
        (op.process, op.rid): op.handle for op in reversed(ops) if op.rid and op.op == "acquire"
    }
    found: dict[int, str] = {}
    for op in ops:
        handle = asked.get((op.process, op.rid), op.handle)
        found[id(op)] = handle if handle.startswith(op.process) else f"{op.process} {handle}"
    return found


class _Lanes(Picture):
    """A picture with room for the names of lanes."""

    def x(self, value: float) -> float:
        share = (value - self.least) / (self.most - self.least)
        return _NAME + share * (self.width - _NAME - RIGHT)


def _draw(ops: Sequence[Op], start: int, most: float, y: float, picture: Picture) -> None:
    """Draw the operations of a lane; names that would overlap go below."""
    ends = [0.0, 0.0]
    for op in ops:
        begin = (op.t0 - start) / 1e6
        end = most if op.t1 is None else (op.t1 - start) / 1e6
        picture.bar(begin, end, y + 16, _BAR, f"op {op.out}", described(op, start))
        words = op.op + {"fail": " ✗", "info": " ?", "ok": ""}[op.out]
        place = picture.x(begin)
        row = 0 if ends[0] <= place else 1
        if ends[row] <= place:
            room = place + 6.5 * len(words) < picture.width
            edge, anchor = (place, "start") if room else (picture.width - 2.0, "end")
            picture.text(edge, y + (11 if row == 0 else 42), words, anchor=anchor, look="name")
            ends[row] = place + 6.5 * len(words) + 6


def described(op: Op, start: int) -> str:
    """Return an operation in words."""
    facts = {"fence": op.fence, "n": op.n, "value": op.value, "section": op.rid, "error": op.err}
    said = ", ".join(f"{name} {value}" for name, value in facts.items() if value not in (None, ""))
    end = "…" if op.t1 is None else f"{(op.t1 - start) / 1e6:.3f}"
    return f"{op.op} {op.obj} {op.out}: {(op.t0 - start) / 1e6:.3f} to {end} ms; {said}"


def _held(ops: Sequence[Op]) -> list[tuple[int, int, Op]]:
    """Return from when to when each grant could be relied on, as far as the operations say."""
    found: list[tuple[int, int, Op]] = []
    for op in ops:
        if op.op != "acquire" or op.out != "ok" or op.t1 is None:
            continue
        same = [each for each in ops if each.rid == op.rid and each.rid]
        lasts = [
            each.deadline for each in same if each.op in ("acquire", "check") and each.deadline
        ]
        stops = [each.t0 for each in same if each.op in ("release", "told")]
        end = min([*stops, max(lasts, default=op.t1)])
        if end > op.t1:
            found.append((op.t1, end, op))
    return found
