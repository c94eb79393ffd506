"""When something was certainly held, by what its holders recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from tests.jepsen.history import History, Op


@dataclass(frozen=True, slots=True)
class Hold:
    """A grant, and the time for which its holder could rely on it.

    Attributes:
        grant: The acquire that succeeded.
        start: From when on it was certainly held: when the acquire had returned.
        end: Until when: its release was invoked, its loss was told, or the deadline that its
            holder knew last had passed.
        shown: The operations that show how long it was held, for a counterexample.
    """

    grant: Op
    start: int
    end: int
    shown: tuple[Op, ...]


def holds(history: History, obj: str) -> list[Hold]:
    """Return the certain holds of an object, in order of their start.

    A `check` that succeeded shows that the lease was valid when it was invoked, and its deadline
    how long it was known to go on. Operations belong together by `rid`.
    """
    by_rid: defaultdict[str, list[Op]] = defaultdict(list)
    for op in history.by_object("acquire", "check", "release", "lost").get(obj, []):
        by_rid[op.rid].append(op)
    found = [hold for ops in by_rid.values() for hold in _hold(ops)]
    return sorted(found, key=lambda hold: hold.start)


def _hold(ops: list[Op]) -> Iterator[Hold]:
    grant = next((op for op in ops if op.op == "acquire" and op.out == "ok"), None)
    if grant is None or grant.t1 is None:
        return
    shown = [grant]
    deadline = grant.deadline or grant.t1
    ends = [op.t0 for op in ops if op.op in ("release", "lost")]
    stop = min(ends, default=None)
    for op in ops:
        if op.op == "check" and op.out == "ok" and (stop is None or op.t0 <= stop):
            deadline = max(deadline, op.deadline or op.t0)
            shown.append(op)
    end = deadline if stop is None else min(deadline, stop)
    shown += [op for op in ops if op.op in ("release", "lost")]
    if end > grant.t1:
        yield Hold(grant, grant.t1, end, tuple(shown))
