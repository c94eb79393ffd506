"""No more units are out than there are, and all of them are back at the end."""

from __future__ import annotations

from tests.jepsen.checkers.holds import Hold, holds
from tests.jepsen.checkers.judging import judged
from tests.jepsen.checkers.probes import probes
from tests.jepsen.checkers.verdict import Facts, Verdict, Violation
from tests.jepsen.history import History, Op


@judged()
def semaphore_capacity(history: History, facts: Facts) -> Verdict:
    """The units that are certainly held never exceed the limit; at the end all are available.

    A permit of an expirable semaphore has an id, which no other one has.
    """
    found: list[Violation] = []
    looked_at = most = 0
    for obj, each in holds(history).items():
        limit = facts.limits.get(obj, 1)
        active: list[Hold] = []
        for hold in each:
            looked_at += 1
            active = [other for other in active if other.end > hold.start]
            active.append(hold)
            units = sum(_units(other.grant) for other in active)
            most = max(most, units)
            if units > limit:
                shown = tuple(op for other in active for op in other.shown)
                found.append(Violation(f"more than {limit} units of {obj} are out", shown))
    found += _same_ids(history)
    for probe in probes(history, "available", quiet=True):
        looked_at += 1
        limit = facts.limits.get(probe.obj, 1)
        if probe.n != limit:
            kind = "too few" if (probe.n or 0) < limit else "too many"
            rule = f"{kind} units of {probe.obj} are available at the end"
            found.append(Violation(rule, (probe,), exact=True))
    return Verdict(found, looked_at, {"most units out": most})


def _units(grant: Op) -> int:
    return 1 if grant.n is None else grant.n


def _same_ids(history: History) -> list[Violation]:
    found: list[Violation] = []
    given: dict[tuple[str, str], Op] = {}
    for op in history.of("acquire"):
        if op.out == "ok" and isinstance(op.value, str):
            other = given.setdefault((op.obj, op.value), op)
            if other is not op:
                found.append(Violation(f"one id for two permits of {op.obj}", (other, op)))
    return found
