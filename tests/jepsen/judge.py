"""From the histories in a folder to a result: nothing but what was recorded counts.

Checkers say what is wrong with what they see. What they do not see, because a file is lost or
nobody was granted anything, is trouble of the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from redisson_py import RedissonError, errors
from tests.jepsen.checkers import CHECKERS
from tests.jepsen.checkers.probes import probes
from tests.jepsen.checkers.verdict import Assumption, Facts
from tests.jepsen.history import History, Op, read_history
from tests.jepsen.plan import Plan
from tests.jepsen.result import Result, Ruling
from tests.jepsen.workloads import WORKLOADS

#: What workers want: without one that succeeded, no rule was applied to anything that matters.
_WANTED = ("acquire", "arrive", "await")
#: What can be read as an error and is something else.
_OTHER_WORDS = ("nemesis", "told", "woken", "unexpected")
#: What a busy object causes, and somebody with little time.
_WANTED_TOO_SOON = {"AcquireTimeoutError", "QuorumError"}
_BY_SLOWNESS = _WANTED_TOO_SOON | {
    *("BrokenBarrierError", "ConnectionLostError", "LeaseLostError", "NotHeldError"),
    "ReplicationError",
}
#: A lease is renewed when a third of it is over: it cannot end if each sixth was long enough for a
#: question and its answer.
_PARTS = 6


def missing(plan: Plan, history: History) -> Iterator[str]:
    """Yield what is not in the history of a run and should be."""
    began = {op.process for op in history.of("began")}
    ended = {op.process for op in history.of("left") if op.obj == "tasks"}
    for number in range(WORKLOADS[plan.workload].processes):
        name = f"w{number}"
        if name not in began:
            yield f"there is no history of {name}"
        elif name not in ended:
            yield f"the history of {name} has no end"
    if not any(op.out == "ok" for op in history.of(*_WANTED)):
        yield "no worker was granted anything"
    # The servers are healthy by then: whoever looks must see something.
    unseen = {op.rid for op in history.of("probe") if op.handle == "quiet" and op.out != "ok"}
    if not any(probes(history, "keys", quiet=True)):
        unseen.add("keys")
    if unseen:
        yield f"nobody saw what was left on a server at the end: {', '.join(sorted(unseen))}"


def unprovoked(plan: Plan, history: History) -> Iterator[str]:
    """Yield the errors of workers that nothing can have caused, in a run that no nemesis struck.

    A slow machine can cause some: a request has no answer in time, a lease is over before it is
    renewed. These are few, and no lease ends while its process and the server work.
    """
    if plan.nemeses or history.of("nemesis"):
        return
    found = Counter(_error(op) for op in history.ops if op.op not in _OTHER_WORDS)
    del found[""]
    if hard := {name: count for name, count in found.items() if name not in _BY_SLOWNESS}:
        yield f"nothing struck, and workers had errors: {_listed(hard)}"
    slow = {name: found[name] for name in _BY_SLOWNESS - _WANTED_TOO_SOON if found[name]}
    granted = sum(op.out == "ok" for op in history.of(*_WANTED))
    if sum(slow.values()) > granted:
        yield f"nothing struck, and workers had more errors than grants: {_listed(slow)}"
    workload = WORKLOADS[plan.workload]
    if workload.renewed:
        lease = int(1e9 * workload.options["lease_time"])
        lost = [op for op in history.of("told") if _was_served(history, op, lease)]
        if lost:
            which = ", ".join(sorted({op.obj for op in lost}))
            yield f"nothing struck, and leases ended that could be renewed: {which} ({len(lost)})"


def _error(op: Op) -> str:
    """Return the name of the library's error that an operation ended with; empty: none of those."""
    name = op.err.partition(" ")[0]
    kind = getattr(errors, name, None)
    return name if isinstance(kind, type) and issubclass(kind, RedissonError) else ""


def _listed(counted: dict[str, int]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in sorted(counted.items()))


def _was_served(history: History, reported: Op, lease: int) -> bool:
    """Return whether the process that lost a lease had answers all the time before."""
    end = reported.t0
    answers = [
        op
        for op in history.of("acquire", "release")
        if op.process == reported.process
        and op.out == "ok"
        and end - lease <= op.t0 < op.end <= end
    ]
    parts = {
        (op.t0 - end) * _PARTS // lease
        for op in answers
        if (op.t0 - end) * _PARTS // lease == (int(op.end) - 1 - end) * _PARTS // lease
    }
    return len(parts) == _PARTS


def idle(plan: Plan, history: History) -> list[str]:
    """Return the nemeses of a plan that did not strike, or only tried to."""
    struck = {op.rid for op in history.of("nemesis") if not op.err}
    return [name for name in plan.nemeses if name not in struck]


_FAILURES = "trouble.txt"


def note_failures(folder: Path, texts: list[str]) -> None:
    """Write down what went wrong besides: the verdicts of another day must know it too."""
    if texts:
        (folder / _FAILURES).write_text("\0".join(texts), "utf-8")


def _as_struck(plan: Plan, history: History) -> Facts:
    """Return what checkers must know: only what a nemesis did excuses anything."""
    strikes = [op for op in history.of("nemesis") if plan.breaks_by(op.rid)]
    broken = frozenset[Assumption]().union(*(plan.breaks_by(op.rid) for op in strikes))
    since = min((op.t0 for op in strikes), default=0)
    return replace(plan.facts, broken=broken, broken_since=since)


def judge(folder: Path) -> Result:
    """Apply the checkers of a plan to its histories."""
    plan, history = Plan.load(folder), read_history(folder)
    facts = _as_struck(plan, history)
    rulings = {
        name: Ruling.of(CHECKERS[name](history, facts))
        for name in WORKLOADS[plan.workload].checkers
    }
    failures = folder / _FAILURES
    noted = failures.read_text("utf-8").split("\0") if failures.exists() else []
    return Result(
        plan,
        len(history),
        rulings,
        [*noted, *missing(plan, history), *unprovoked(plan, history)],
        idle(plan, history),
        str(folder),
    )
