"""When something was certainly held, by what its holders recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tests.jepsen.history import History, Op

#: What belongs to a hold, besides the losses told to its owner.
_WORDS = ("acquire", "check", "extend", "release")


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

    @property
    def task(self) -> tuple[str, str]:
        """Which task holds it."""
        return self.grant.process, self.grant.handle


def by_use(history: History, *words: str) -> dict[tuple[str, str], list[Op]]:
    """Return the operations of these names by object and `rid`, in order."""
    found: defaultdict[tuple[str, str], list[Op]] = defaultdict(list)
    for op in history.of(*words):
        found[op.obj, op.rid].append(op)
    return dict(found)


def losses(history: History) -> dict[tuple[str, str], list[Op]]:
    """Return the losses that were told, by object and owner."""
    found: defaultdict[tuple[str, str], list[Op]] = defaultdict(list)
    for op in history.of("told"):
        found[op.obj, op.owner].append(op)
    return dict(found)


def granted(ops: Sequence[Op]) -> Op | None:
    """Return the acquire among these that succeeded."""
    return next((op for op in ops if op.op == "acquire" and op.out == "ok"), None)


def holds(history: History) -> dict[str, list[Hold]]:
    """Return the certain holds by object, in order of their start.

    A `check` that succeeded shows that the lease was valid when it was invoked, and its deadline
    how long it was known to go on. One that failed ends the hold, as does the invocation of its
    release, whatever comes of it: a worker must record that before anything is sent. A hold that is
    passed on inside a process keeps its owner; each task that has it is a hold of its own here, and
    a loss that is told to the owner ends whichever is not released, as does somebody that forces
    the lock, from the moment in which that begins. A holder that was killed keeps
    its hold until the deadline: others rely on that.
    """
    reported = losses(history)
    found: defaultdict[str, list[Hold]] = defaultdict(list)
    forced = history.by_object("force")
    for (obj, _), ops in by_use(history, *_WORDS).items():
        grant = granted(ops)
        ends = reported.get((obj, grant.owner), []) if grant is not None else []
        # Of those that force it, the first that may have found this grant.
        force = grant and next((op for op in forced.get(obj, ()) if op.end >= grant.t0), None)
        ends = [*ends, force] if force else ends
        if grant is not None and (held := _hold(grant, ops, ends)):
            found[obj].append(held)
    return {obj: sorted(each, key=lambda hold: hold.start) for obj, each in found.items()}


def _hold(grant: Op, ops: Sequence[Op], reported: Sequence[Op]) -> Hold | None:
    assert grant.t1 is not None
    ends = [op for op in ops if _ends(op)]
    ends += [op for op in reported if op.end >= grant.t0]
    stop = min((op.t0 for op in ends), default=None)
    shown, deadline = [grant], grant.deadline or grant.t1
    for op in ops:
        if op.t0 < grant.t0 or (stop is not None and op.t0 > stop):
            continue
        if op.op == "check" and op.out == "ok":
            deadline = max(deadline, op.deadline or op.t0)
            shown.append(op)
        elif op.op == "extend" and op.out != "fail":
            # It may also have become shorter, and if nobody knows, at once.
            known = op.out == "ok" and op.deadline is not None
            deadline = (op.deadline or op.t0) if known else min(deadline, op.t0)
            shown.append(op)
    end = deadline if stop is None else min(deadline, stop)
    return Hold(grant, grant.t1, end, (*shown, *ends)) if end > grant.t1 else None


def _ends(op: Op) -> bool:
    return op.op == "release" or (op.op in ("check", "extend") and op.out == "fail")


def disturbed(history: History) -> set[str]:
    """Return the objects of which a hold was lost, or may have been: it was not released.

    Elsewhere a lock without a token must exclude as well as one with a token does.
    """
    troubled = {op.obj for op in history.of("told")}
    for (obj, _), ops in by_use(history, *_WORDS).items():
        released = any(op.op == "release" and op.out == "ok" for op in ops)
        failed = any(op.op != "acquire" and op.out != "ok" for op in ops)
        if failed or (granted(ops) is not None and not released):
            troubled.add(obj)
    return troubled
