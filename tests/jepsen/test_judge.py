"""What histories come to: the verdicts, what is missing of a run, and what is told of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.jepsen import report, rounds
from tests.jepsen.checkers.written import op
from tests.jepsen.history import History, Op, Outcome, Recorder
from tests.jepsen.judge import judge, unprovoked
from tests.jepsen.plan import Plan
from tests.jepsen.result import Result

PLAN = Plan("fenced", ("kill",), "single", 5, 7)
FLUSHED = Plan("mutex", ("flushall",), "single", 5, 7)
QUIET = Plan("reentrant", (), "single", 5, 7)
MS = 1_000_000


class Kept:
    """A folder with the histories of a run in which all is well, but for what is left out."""

    def __init__(self, folder: Path, plan: Plan, left_out: str = "") -> None:
        plan.save(folder)
        self.obj = "fenced-1" if plan.workload == "fenced" else "plain-1"
        self.workers = [Recorder(folder, f"w{number}") for number in range(4)]
        self.nemesis = Recorder(folder, "nemesis")
        probe = Recorder(folder, "probe")
        for worker in self.workers:
            if f"{worker.process} begins" != left_out:
                worker.note("began", "")
            if f"{worker.process} ends" != left_out:
                worker.note("left", "tasks", value=0)
        if left_out != "grant":
            self.release(0, self.acquire(0))
        for what in ("keys", "channels"):
            out: Outcome = "fail" if left_out == what else "ok"
            probe.note("probe", "server", "quiet", out, rid=what, value=[], n=0)

    def acquire(self, number: int) -> str:
        """Have a worker acquire; return the name of the use."""
        worker = self.workers[number]
        rid = f"{worker.process}/1"
        facts: dict[str, Any] = {"rid": rid, "owner": rid, "n": 1, "deadline": 10**18}
        worker.complete(worker.invoke("acquire", self.obj, **facts), fence=5)
        return rid

    def release(self, number: int, rid: str) -> None:
        """Have a worker release."""
        worker = self.workers[number]
        worker.complete(worker.invoke("release", self.obj, rid=rid))

    def strike(self) -> None:
        """Have the nemesis strike."""
        self.nemesis.complete(self.nemesis.invoke("nemesis", "server", rid="flushall"), "info")

    def overlap(self) -> None:
        """Have two workers hold at once."""
        first, second = self.acquire(1), self.acquire(2)
        self.release(2, second)
        self.release(1, first)


def test_a_run_with_all_that_belongs_to_it_is_well(tmp_path: Path) -> None:
    Kept(tmp_path, PLAN)
    result = judge(tmp_path)
    assert result.ok, result
    # A nemesis that did not strike proves nothing, and is named.
    assert "did not strike: kill" in report.row(result)


@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        ("w2 begins", "there is no history of w2"),
        ("w2 ends", "the history of w2 has no end"),
        ("grant", "no worker was granted anything"),
        ("keys", "nobody saw what was left on a server at the end: keys"),
        ("channels", "nobody saw what was left on a server at the end: channels"),
    ],
)
def test_what_is_missing_is_reported(tmp_path: Path, left_out: str, said: str) -> None:
    Kept(tmp_path, PLAN, left_out)
    result = judge(tmp_path)
    assert result.failures == [said]
    assert not result.ok


def test_a_broken_rule_is_reported_with_its_operations_and_its_command(tmp_path: Path) -> None:
    kept = Kept(tmp_path, FLUSHED)
    kept.overlap()
    # Nothing is excused before the first strike.
    kept.strike()
    judge(tmp_path).save(tmp_path)
    result = Result.load(tmp_path)
    assert "mutual exclusion" in result.broken
    assert "BROKEN: mutual exclusion 1" in report.row(result)
    said = report.failure(result)
    assert "two holders of plain-1 at once" in said
    assert re.search(r"0\.000 \.\. +\d.* ms  w1 +w1 +acquire plain-1 ok rid=w1/1", said)
    assert f"repeat it: {FLUSHED.command}" in said
    assert "mutex under flushall: mutual exclusion: overlaps 1;" in report.whole([result])


def test_what_comes_after_a_strike_is_excused_and_counted(tmp_path: Path) -> None:
    kept = Kept(tmp_path, FLUSHED)
    kept.strike()
    kept.overlap()
    result = judge(tmp_path)
    assert result.ok, result
    assert "figure: mutual exclusion 1" in report.row(result)
    assert re.search(r"\nmutual exclusion +3 +0  1\n", report.whole([result]))


def done(name: str, process: str, start: int, end: int, **facts: Any) -> Op:
    """Return an operation, with times in milliseconds."""
    facts = {"process": process, "obj": "plain-1", **facts}
    return op(name, start * MS, end * MS, process, **facts)


GRANT = done("acquire", "w0", 0, 1)
ANSWERED = [done("acquire", "w0", moment, moment + 50) for moment in range(1000, 2000, 50)]
REPORTED = done("told", "w0", 2000, 2000, err="expired")


def failed(err: str, word: str = "acquire") -> Op:
    return done(word, "w0", 10, 20, out="info", err=err)


@pytest.mark.parametrize(
    ("plan", "ops", "said"),
    [
        (QUIET, [failed("AcquireTimeoutError"), failed("CancelledError")], ""),
        (QUIET, [failed("ScriptError OOM")], "workers had errors: ScriptError (1)"),
        (QUIET, [failed("BackendError", "release")], "workers had errors: BackendError (1)"),
        (PLAN, [failed("BackendError")], ""),
        (QUIET, [failed("BackendError"), done("nemesis", "kill", 0, 1)], ""),
        # What slowness explains is rarer than grants.
        (QUIET, [failed("ConnectionLostError")], ""),
        (QUIET, [failed("ConnectionLostError")] * 2, "more errors than grants: ConnectionLostErr"),
        # A lease that ended while all worked; or nobody knows whether all did, or nobody renews it.
        (QUIET, [REPORTED, *ANSWERED], "leases ended that could be renewed: plain-1 (1)"),
        (QUIET, [REPORTED, *ANSWERED[:3], *ANSWERED[-5:]], ""),
        (QUIET, [REPORTED, *ANSWERED[:3], done("acquire", "w0", 1150, 1700), *ANSWERED[-5:]], ""),
        (Plan("expirable", (), "single", 5, 7), [REPORTED, *ANSWERED], ""),
    ],
)
def test_errors_of_a_run_that_nothing_struck(plan: Plan, ops: list[Op], said: str) -> None:
    found = [*unprovoked(plan, History([GRANT, *ops]))]
    assert len(found) == bool(said)
    assert said in "".join(found)


async def test_a_result_of_before_is_not_that_of_a_run_now(tmp_path: Path) -> None:
    plan = Plan("fenced", (), "moon", 1, 1)
    old = tmp_path / plan.title
    Kept(old, PLAN)
    judge(old).save(old)
    (result,) = [each async for each in rounds.several([plan], tmp_path, 1)]
    assert not result.ok
    assert "KeyError: 'moon'" in result.failures[0]
    assert Result.load(old).ok
