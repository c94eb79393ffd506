"""Nobody holds what somebody else holds: locks, read-write locks, units, and counts of re-entry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.jepsen.checkers.holds import Hold, by_use, holds, losses
from tests.jepsen.checkers.judging import judged
from tests.jepsen.checkers.probes import probes
from tests.jepsen.checkers.verdict import Facts, Verdict, Violation
from tests.jepsen.history import History, Op


@judged()
def mutual_exclusion(history: History, facts: Facts) -> Verdict:
    """No two handles certainly hold an object at the same moment.

    Where replicas confirm grants, none counts that no replica can have. Where an assumption is
    broken, the number and the length of the overlaps are what is published.
    """
    found = _unconfirmed(history) if facts.settings.get("confirmed") else []
    looked_at = longest = total = 0
    for obj, each in holds(history).items():
        last: Hold | None = None
        for hold in each:
            looked_at += 1
            if last is not None and hold.start < last.end:
                overlap = min(hold.end, last.end) - hold.start
                longest, total = max(longest, overlap), total + overlap
                found.append(Violation(f"two holders of {obj} at once", last.shown + hold.shown))
            if last is None or hold.end > last.end:
                last = hold
    figures = {
        "overlaps": sum(not each.exact for each in found),
        "longest overlap": f"{longest / 1e6:.1f} ms",
        "overlaps in all": f"{total / 1e6:.1f} ms",
    }
    return Verdict(found, looked_at, figures)


def _unconfirmed(history: History) -> list[Violation]:
    """Find grants that no replica can have confirmed: the only one stood still all the time."""
    frozen = history.of("frozen")
    found: list[Violation] = []
    owners: set[str] = set()
    for op in history.of("acquire"):
        if op.out != "ok" or op.owner in owners:
            continue  # it was passed on inside a process
        owners.add(op.owner)
        pause = next((each for each in frozen if each.t0 <= op.t0 and op.end <= each.end), None)
        if pause is not None:
            found.append(Violation(f"a grant of {op.obj} was not confirmed", (op, pause), True))
    return found


@judged()
def read_write(history: History, facts: Facts) -> Verdict:
    """No hold of a writer overlaps another task's hold; the writer itself may read, too."""
    found: list[Violation] = []
    looked_at = together = longest = 0
    for obj, each in holds(history).items():
        active: list[Hold] = []
        for hold in each:
            looked_at += 1
            active = [other for other in active if other.end > hold.start]
            for other in active:
                if other.task == hold.task:
                    continue
                modes = {other.grant.value, hold.grant.value}
                if modes == {"read"}:
                    together += 1
                    continue
                longest = max(longest, min(hold.end, other.end) - hold.start)
                pair = "two writers" if modes == {"write"} else "a writer and a reader"
                found.append(Violation(f"{pair} of {obj} at once", other.shown + hold.shown))
            active.append(hold)
    figures = {"readers together": together, "longest overlap": f"{longest / 1e6:.1f} ms"}
    return Verdict(found, looked_at, figures)


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


_STEP = {"acquire": 1, "reenter": 1, "leave": -1, "release": -1}


@judged()
def hold_count(history: History, facts: Facts) -> Verdict:
    """What a holder expects, and what the server says if asked, is what a model counts.

    From an operation of which nobody knows whether it happened, the model follows both ways. A
    hold is followed until its loss is told.
    """
    found: list[Violation] = []
    looked_at = 0
    reported = losses(history)
    for (obj, _), ops in by_use(history, *_STEP, "check", "extend").items():
        owner = next((op.owner for op in ops if op.op == "acquire"), "")
        lost = min((op.t0 for op in reported.get((obj, owner), ())), default=None)
        steps = [op for op in ops if op.op in _STEP]
        looked_at += len(steps)
        failed = [op.t0 for op in ops if op.op in ("check", "extend") and op.out == "fail"]
        stop = min([*failed, *([] if lost is None else [lost])], default=None)
        for op, wrong in _wrong(steps, stop):
            shown = tuple(each for each in steps if each.t0 <= op.t0)
            found.append(Violation(f"{wrong} of {obj}", shown, exact=True))
    return Verdict(found, looked_at)


def _wrong(steps: Sequence[Op], stop: int | None) -> Iterator[tuple[Op, str]]:
    """Yield the first step that the model does not allow, and what is wrong with it."""
    possible = {0}
    for op in steps:
        if stop is not None and op.end >= stop:
            return
        step = _STEP[op.op]
        if op.out == "fail":
            continue
        moved = {count + step for count in possible if count + step >= 0}
        possible = moved if op.out == "ok" else possible | moved
        if not possible:
            yield op, "a release without a hold"
            return
        for said, wrong in ((op.n, "the hold count"), (op.value, "the hold count in the server")):
            # The value of an acquire may be a mode or an id.
            if op.out != "ok" or not isinstance(said, int):
                continue
            if said not in possible:
                yield op, f"{wrong} is not that of the model:"
                return
            possible = {said}
