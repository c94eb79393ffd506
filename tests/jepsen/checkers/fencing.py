"""Fencing tokens: one for each grant, and they grow in real-time order."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from tests.jepsen.checkers.holds import by_use, granted
from tests.jepsen.checkers.judging import judged
from tests.jepsen.checkers.verdict import Facts, Verdict, Violation
from tests.jepsen.history import History, Op


def counter_and_clock_lost(broken: frozenset[str]) -> bool:
    """Return whether tokens may go back: the counter was lost, and the clock was set back."""
    return "clocks" in broken and bool(broken & {"data", "keys"})


@judged(unless=counter_and_clock_lost)
def fencing(history: History, facts: Facts) -> Verdict:
    """Tokens are unique, grow in real-time order, and stay the same when a task re-enters.

    Each grant of an object whose name begins with `fenced` must have one.
    """
    found: list[Violation] = []
    looked_at = 0
    for obj, ops in history.by_object("acquire").items():
        grants = [op for op in ops if op.out == "ok" and op.fence is not None]
        looked_at += len(grants)
        found += _without(obj, ops)
        found += _repeated(obj, grants)
        found += _backwards(obj, grants)
    for (obj, _), ops in by_use(history, "acquire", "reenter").items():
        grant = granted(ops)
        for op in ops:
            if op.op != "reenter" or op.out != "ok" or grant is None or grant.fence is None:
                continue
            looked_at += 1
            if op.fence is not None and op.fence != grant.fence:
                found.append(Violation(f"another token of {obj} on re-entry", (grant, op)))
    return Verdict(found, looked_at)


def _without(obj: str, ops: list[Op]) -> Iterator[Violation]:
    for op in ops if obj.startswith("fenced") else ():
        if op.out == "ok" and op.fence is None:
            yield Violation(f"a grant of {obj} has no token", (op,))


def _repeated(obj: str, grants: list[Op]) -> list[Violation]:
    given: dict[int | None, Op] = {}
    found: list[Violation] = []
    for op in grants:
        other = given.setdefault(op.fence, op)
        if other is not op:
            found.append(Violation(f"one token for two grants of {obj}", (other, op)))
    return found


def _backwards(obj: str, grants: list[Op]) -> list[Violation]:
    """Find grants that were asked for after another had returned, with a smaller token."""
    found: list[Violation] = []
    ended = sorted(grants, key=attrgetter("end"))
    place = 0
    greatest: Op | None = None
    for op in grants:
        while place < len(ended) and ended[place].end < op.t0:
            other = ended[place]
            if greatest is None or (other.fence or 0) > (greatest.fence or 0):
                greatest = other
            place += 1
        if greatest is not None and (op.fence or 0) < (greatest.fence or 0):
            found.append(Violation(f"a later grant of {obj} has a smaller token", (greatest, op)))
    return found
