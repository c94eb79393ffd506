"""A latch opens when the last count is down: not before, and not never."""

from __future__ import annotations

from collections.abc import Sequence

from redisson_py import AcquireTimeoutError
from tests.jepsen.checkers.judging import judged
from tests.jepsen.checkers.verdict import Facts, Verdict, Violation
from tests.jepsen.history import History, Op

#: How a wait fails that Redis answered with "closed"; one without an answer says nothing.
TIMED_OUT = AcquireTimeoutError.__name__


@judged()
def latch(history: History, facts: Facts) -> Verdict:
    """No `await` returns before enough `count_down` were invoked; none times out after enough.

    How many are enough is the value of an operation, or stands in the facts.
    """
    found: list[Violation] = []
    looked_at = 0
    for obj, ops in history.by_object("count_down", "await").items():
        counts = [op.value for op in ops if isinstance(op.value, int)]
        enough = max(counts, default=facts.parties_of(obj))
        downs = [op for op in ops if op.op == "count_down" and op.out != "fail"]
        invoked = [op.t0 for op in downs for _ in range(_units(op))]
        done = sorted(op.end for op in downs if op.out == "ok" for _ in range(_units(op)))
        opens = invoked[enough - 1] if len(invoked) >= enough else None
        open_since = done[enough - 1] if len(done) >= enough else None
        for op in ops:
            if op.op != "await":
                continue
            looked_at += 1
            if op.out == "ok" and (opens is None or op.end < opens):
                shown = (*_until(downs, op), op)
                found.append(Violation(f"{obj} opened before its count was down", shown, True))
            elif op.err == TIMED_OUT and open_since is not None and open_since < op.t0:
                shown = (*_until(downs, op), op)
                found.append(Violation(f"{obj} was closed when its count was down", shown))
    return Verdict(found, looked_at)


def _units(op: Op) -> int:
    return 1 if op.n is None else op.n


def _until(downs: Sequence[Op], op: Op) -> tuple[Op, ...]:
    return tuple(down for down in downs if down.t0 <= op.end)
