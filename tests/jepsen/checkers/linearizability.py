"""Each object behaves as if its operations happened one after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tests.jepsen.checkers.holds import by_use, granted, holds
from tests.jepsen.checkers.judging import judged
from tests.jepsen.checkers.models import (
    FENCED_REGISTER,
    MUTEX,
    READ_WRITE,
    REENTRANT,
    semaphore,
)
from tests.jepsen.checkers.verdict import Facts, Verdict, Violation
from tests.jepsen.checkers.wgl import Answer, Call, Model, linearize
from tests.jepsen.history import History, Op

#: A call, and the operation that it was.
Made = tuple[Call, Op]

_FOREVER = float("inf")
#: How a read-write lock is held.
_MODES = ("read", "write")


@judged()
def linearizability(history: History, facts: Facts) -> Verdict:
    """There is an order of all operations of an object that a simple model of it allows.

    Locks are mutexes, re-entrant ones where tasks re-enter, or read-write locks; what has a limit
    is a semaphore. A hold that was not released is given up at some moment after its certain end,
    or never. Objects are independent of each other, so each is searched alone. What cannot be
    decided is a violation.
    """
    found: list[Violation] = []
    looked_at = states = 0
    for obj, made in _of_locks(history, facts).items():
        model = _model(obj, made, facts)
        answer, positions = _search(made, model)
        looked_at += len(made)
        states += answer.states
        found += _violation(f"{obj} is not linearizable", answer, positions)
    for obj, made in _of_resource(history).items():
        answer, positions = _search(made, FENCED_REGISTER)
        looked_at += len(made)
        for each in _violation(f"the resource {obj} is no fenced register", answer, positions):
            found.append(Violation(each.rule, _behind(made, each.ops[0]), exact=True))
    return Verdict(found, looked_at, {"states": states})


def _search(made: Sequence[Made], model: Model) -> tuple[Answer, list[Op]]:
    return linearize([call for call, _ in made], model), [op for _, op in made]


def _violation(rule: str, answer: Answer, positions: Sequence[Op]) -> Iterator[Violation]:
    if answer.position is None:
        return
    if answer.linearizable is None:
        rule = f"unknown, too many states: {rule}"
    yield Violation(rule, (positions[answer.position],), exact=answer.linearizable is None)


def _model(obj: str, made: Sequence[Made], facts: Facts) -> Model:
    if obj in facts.limits:
        return semaphore(facts.limits[obj])
    if any(op.value in _MODES for _, op in made):
        return READ_WRITE
    return REENTRANT if any(op.op in ("reenter", "leave") for _, op in made) else MUTEX


def _of_locks(history: History, facts: Facts) -> dict[str, list[Made]]:
    """Return the calls of locks and semaphores."""
    ends = {(obj, h.grant.rid): h.end for obj, each in holds(history).items() for h in each}
    lost = {(op.obj, op.owner) for op in history.of("told")}
    found: defaultdict[str, list[Made]] = defaultdict(list)
    words = ("acquire", "release", "reenter", "leave", "check", "extend")
    for (obj, rid), ops in by_use(history, *words).items():
        grant = granted(ops)
        if grant is None:
            continue
        what = _held(grant, rid, facts)
        found[obj].append((Call(grant.t0, grant.end, ("acquire", what)), grant))
        for op in ops:
            if op.op in ("reenter", "leave") and op.out != "fail":
                word = "acquire" if op.op == "reenter" else "release"
                end = op.end if op.out == "ok" else _FOREVER
                found[obj].append((Call(op.t0, end, (word, what)), op))
        out = next((op for op in ops if op.op == "release" and op.out == "ok"), None)
        failed = any(op.op in ("check", "extend") and op.out == "fail" for op in ops)
        if out is None or failed or (obj, grant.owner) in lost:
            end = ends.get((obj, rid), grant.t0)
            found[obj].append((Call(end, _FOREVER, ("drop", what)), grant))
        else:
            found[obj].append((Call(out.t0, out.end, ("release", what)), out))
    return dict(found)


def _held(grant: Op, rid: str, facts: Facts) -> int | str | tuple[str, str]:
    """Return what a model calls a hold: its units, its use, or the side of a read-write lock."""
    if grant.obj in facts.limits:
        return 1 if grant.n is None else grant.n
    if grant.value in _MODES:
        # A task of one life of its process, which may read in one use while it writes in another.
        return grant.value, f"{rid.partition('/')[0]} {grant.handle}"
    return rid


def _of_resource(history: History) -> dict[str, list[Made]]:
    """Return the steps of the resources that check tokens, as they saw them."""
    found: dict[str, list[Made]] = {}
    for obj, ops in history.by_object("begin", "write").items():
        steps = [op for op in ops if op.process == "resource"]
        if any(op.fence for op in steps):
            found[obj] = [(Call(op.t0, op.end, _step(op)), op) for op in steps]
    return found


def _step(op: Op) -> tuple[str, int, int | None, bool]:
    return op.op, op.fence or 0, op.value, op.out == "ok"


def _behind(made: Sequence[Made], op: Op) -> tuple[Op, ...]:
    """Return a step of the resource, after the one that showed the greatest token before it."""
    before = [each for _, each in made if each.t0 < op.t0]
    return (*([max(before, key=lambda each: each.fence or 0)] if before else []), op)
