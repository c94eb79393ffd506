"""Runs of which too little is known, or in which too little happened, are not well."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.jepsen import rounds
from tests.jepsen.history import Outcome, Recorder
from tests.jepsen.judge import judge
from tests.jepsen.plan import Plan
from tests.jepsen.result import Result

PLAN = Plan("fenced", ("kill",), "single", 5, 7)
FLUSHED = Plan("mutex", ("flushall",), "single", 5, 7)
FOREVER = 10**18


class Kept:
    """A folder with the histories of a run in which all is well, but for what is left out."""

    def __init__(self, folder: Path, plan: Plan, left_out: str = "") -> None:
        """Write down everything else."""
        plan.save(folder)
        self.folder = folder
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
            self.use(0)
        for what in ("keys", "channels"):
            out: Outcome = "fail" if left_out == what else "ok"
            probe.note("probe", "server", "quiet", out, rid=what, value=[], n=0)

    def use(self, number: int, token: int | None = 5) -> None:
        """Have a worker acquire and release."""
        self.release(number, self.acquire(number, token))

    def acquire(self, number: int, token: int | None = 5) -> str:
        """Have a worker acquire; return the name of the use."""
        worker = self.workers[number]
        rid = f"{worker.process}/{token}"
        facts: dict[str, Any] = {"rid": rid, "owner": rid, "n": 1, "deadline": FOREVER}
        worker.complete(worker.invoke("acquire", self.obj, **facts), fence=token)
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
    assert result.idle == ["kill"]


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
def test_what_is_missing_is_told(tmp_path: Path, left_out: str, said: str) -> None:
    Kept(tmp_path, PLAN, left_out)
    result = judge(tmp_path)
    assert result.trouble == [said]
    assert not result.ok


def test_a_fenced_lock_must_give_tokens(tmp_path: Path) -> None:
    Kept(tmp_path, PLAN).use(1, token=None)
    assert judge(tmp_path).broken == ["fencing"]


def test_nothing_is_excused_before_the_first_strike(tmp_path: Path) -> None:
    kept = Kept(tmp_path, FLUSHED)
    kept.overlap()
    assert "mutual exclusion" in judge(tmp_path).broken
    kept.strike()
    assert "mutual exclusion" in judge(tmp_path).broken


def test_what_comes_after_a_strike_is_excused_and_counted(tmp_path: Path) -> None:
    kept = Kept(tmp_path, FLUSHED)
    kept.strike()
    kept.overlap()
    result = judge(tmp_path)
    assert result.ok, result
    assert result.rulings["mutual exclusion"].state == "figure"
    assert result.idle == []


def test_errors_of_a_run_that_nothing_struck_are_trouble(tmp_path: Path) -> None:
    worker = Kept(tmp_path, Plan("fenced", (), "single", 5, 7)).workers[1]
    worker.complete(worker.invoke("extend", "fenced-1"), "info", err="BackendError")
    result = judge(tmp_path)
    assert result.trouble == ["nothing struck, and workers had errors: BackendError (1)"]
    assert not result.ok


def test_a_result_of_before_is_not_that_of_a_run_now(tmp_path: Path) -> None:
    old = tmp_path / Plan("fenced", (), "moon", 1, 1).title
    old.mkdir()
    Kept(old, PLAN)
    judge(old).save(old)

    async def run() -> list[Result]:
        plan = Plan("fenced", (), "moon", 1, 1)
        return [each async for each in rounds.several([plan], tmp_path, 1)]

    (result,) = asyncio.run(run())
    assert not result.ok
    assert Result.load(old).ok
