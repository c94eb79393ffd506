"""Histories by hand, for tests: short calls that make operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.jepsen.checkers import CHECKERS
from tests.jepsen.checkers.shrinking import joined, sections
from tests.jepsen.checkers.verdict import Facts, Verdict
from tests.jepsen.history import History, Op

#: The only object of most of them.
OBJ = "x"


def op(word: str, t0: int, t1: int | None, rid: str = "", **facts: Any) -> Op:
    """Return an operation of a task that does what is called `rid` and nothing else."""
    process = facts.pop("process", f"p-{rid}")
    out = facts.pop("out", "info" if t1 is None else "ok")
    handle = facts.pop("handle", process)
    obj = facts.pop("obj", OBJ)
    return Op(process, handle, word, obj, t0, t1, out, rid, **facts)


def acquire(rid: str, t0: int, t1: int | None, deadline: int = 0, **facts: Any) -> Op:
    """Return the acquire of a use; its owner has the same name."""
    return op("acquire", t0, t1, rid, **{"owner": rid, "deadline": deadline or None, **facts})


def release(rid: str, t0: int, t1: int | None, **facts: Any) -> Op:
    """Return its release."""
    return op("release", t0, t1, rid, **facts)


def check(rid: str, moment: int, deadline: int = 0, **facts: Any) -> Op:
    """Return a look at its lease."""
    return op("check", moment, moment, rid, deadline=deadline or None, **facts)


def reported(owner: str, moment: int, reason: str = "expired") -> Op:
    """Return a loss that the library told."""
    return op("told", moment, moment, owner=owner, err=reason, process=f"p-{owner}-told")


def nemesis(what: str, whom: str, t0: int, t1: int) -> Op:
    """Return what a nemesis did."""
    return op("nemesis", t0, t1, what, obj=whom, process="nemesis", out="info")


def probe(looked_at: str, moment: int, *, quiet: bool = False, **facts: Any) -> Op:
    """Return what the probe saw."""
    handle = "quiet" if quiet else "now"
    return op("probe", moment, moment, looked_at, process="probe", handle=handle, **facts)


def judge(name: str, *ops: Op, **facts: Any) -> Verdict:
    """Return what a checker says of a history."""
    return CHECKERS[name](History(list(ops)), Facts(**facts))


def fine(name: str, *ops: Op, **facts: Any) -> Verdict:
    """Assert that a checker looked at something and found nothing."""
    verdict = judge(name, *ops, **facts)
    assert verdict.ok, verdict.violations
    assert verdict.looked_at > 0
    return verdict


def broken(name: str, rule: str, *ops: Op, **facts: Any) -> list[Op]:
    """Assert that this rule is broken, and no other; return what shows it.

    These operations alone must break the rule; without any use of them it must not be broken.
    """

    def breaks(shown: Sequence[Op]) -> bool:
        return rule in {each.rule for each in judge(name, *shown, **facts).violations}

    verdict = judge(name, *ops, **facts)
    assert {violation.rule for violation in verdict.violations} == {rule}
    violation = verdict.violations[0]
    assert breaks(violation.ops), violation
    units = sections(violation.ops)
    for unit in () if violation.exact or len(units) == 1 else units:
        assert not breaks(joined([each for each in units if each is not unit])), violation
    return sorted(violation.ops, key=lambda op: op.t0)
