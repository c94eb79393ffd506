"""Whatever begins ends, nothing is left, and no error is not the library's."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from tests.jepsen.checkers.judging import judged, never
from tests.jepsen.checkers.oversleeping import possessions
from tests.jepsen.checkers.probes import probes
from tests.jepsen.checkers.verdict import Facts, Verdict, Violation
from tests.jepsen.history import History, Op

#: What may wait.
_WAITS = (
    *("acquire", "reenter", "release", "extend", "await", "arrive", "count_down", "force"),
    # The last use of a worker, when all is well again; it is repeated until it is granted.
    "farewell",
)


#: The refusal of a server without memory.
_FULL = "ScriptError OOM"


@judged(unless=never)
def no_deadlock(history: History, facts: Facts) -> Verdict:
    """Every operation that may wait comes to an end, unless its process was killed.

    While nemeses strike, waits have timeouts, which end a deadlock too: nothing is found then but a
    wait that ignores its own. What is exact is the end. When the nemeses have ended and all is
    healed, each worker visits every object once more, in an order of its own and without a timeout
    (`Workload.last`; of a MultiLock all members at once). A wait for what nobody will give back, or
    for each other, does not end then, however long the run would wait. The run ends it when the
    worker has not ended for `run.QUIET`: that is the only time in this rule. Latches, barriers and
    locks that are used once are gone by then; of these nothing more is known than what is above.
    """
    killed: dict[str, int] = {}
    for op in history.of("nemesis"):
        if "kill" in op.rid:
            killed[op.obj] = max(op.t0 if op.t1 is None else op.t1, killed.get(op.obj, 0))
    waits = history.of(*_WAITS)
    found = [
        Violation(f"{op.op} of {op.obj} never ended", (op,))
        for op in waits
        if op.t1 is None and not _was_killed(op, killed)
    ]
    return Verdict(found, len(waits))


def _was_killed(op: Op, killed: dict[str, int]) -> bool:
    return op.process in killed and op.t0 <= killed[op.process]


@judged(unless=never)
def no_unexpected_error(history: History, facts: Facts) -> Verdict:
    """Workers get errors of the library only, and those by their documented names.

    A server without memory refuses no release: what is held can always be given back.
    """
    found = [Violation(f"unexpected: {op.err}", (op,)) for op in history.of("unexpected")]
    found += [
        Violation(f"a release of {op.obj} was refused: {op.err}", (op,))
        for op in history.of("release", "leave")
        if op.err == _FULL
    ]
    return Verdict(found, len(history))


@judged(unless=never)
def leaks(history: History, facts: Facts) -> Verdict:
    """Keys are those that `Facts.lasting` allows, nobody subscribes, workers held on to nothing.

    Only a probe when all is quiet can say so: without one, nothing was looked at on the server.
    What a client held that was closed is given back at once, before its lease ends; what was
    released is not held any more. A server that lost its data may have an older state. A barrier
    forgets rounds that are over when it remembers another one; its clock must not be set.
    """
    found: list[Violation] = []
    looked_at = 0
    for probe in probes(history, "keys", quiet=True):
        looked_at += 1
        left = [key for key in probe.value or () if not _lasts(key, facts)]
        if left:
            found.append(Violation("keys are left", (probe,)))
        if probe.n is not None and probe.n != len(probe.value or ()):
            found.append(Violation("the names of the keys are not all keys", (probe,)))
    for probe in probes(history, "channels", quiet=True):
        looked_at += 1
        if probe.value:
            found.append(Violation("channels are subscribed", (probe,)))
    if "data" not in facts.broken:
        ended = _ended(history)
        for probe in probes(history, "owners"):
            looked_at += 1
            if any(owner.startswith(each) for owner in probe.value or () for each in ended):
                rule = f"{probe.obj} is held for a client that was closed"
                found.append(Violation(rule, (*ended.values(), probe)))
        for probe, release in _ghosts(history):
            looked_at += 1
            if release is not None:
                found.append(Violation(f"{probe.obj} is held after its release", (release, probe)))
    for probe in probes(history, "rounds") if "clocks" not in facts.broken else ():
        looked_at += 1
        if probe.n:
            rule = f"rounds that are over are kept: {probe.obj}"
            found.append(Violation(rule, (probe,), exact=True))
    for op in history.of("left"):
        looked_at += 1
        counts = op.value if isinstance(op.value, list) else [op.value]
        if any(counts):
            found.append(Violation(f"a worker has {op.obj or 'holds or waiters'} left", (op,)))
    return Verdict(found, looked_at)


def _ended(history: History) -> dict[str, Op]:
    """Return the ids of clients that were closed, and the records that say so."""
    return {op.owner: op for op in history.of("closed") if op.owner}


def _ghosts(history: History) -> Iterator[tuple[Op, Op | None]]:
    """Yield looks at objects that were held, and the release of that holder if it had ended."""
    released = {
        (obj, each.owner): each.release
        for obj, all_of_it in possessions(history).items()
        for each in all_of_it
    }
    acquires = history.by_object("acquire")
    for probe in probes(history, "lease"):
        if probe.owner:
            release = released.get((probe.obj, probe.owner))
            ended = release is not None and release.end < probe.t0
            # It may have been passed to another task of the client, which has not recorded it yet.
            passed = release is not None and any(
                op.process == release.process and op.t0 <= probe.end and op.end >= release.t0
                for op in acquires.get(probe.obj, ())
                if op.rid != release.rid
            )
            yield probe, release if ended and not passed else None


def _lasts(key: str, facts: Facts) -> bool:
    # Beside its counter, a semaphore has a record of its number.
    patterns = (*facts.lasting, *(f"{{{pattern}}}:redisson_py:total" for pattern in facts.lasting))
    return any(fnmatchcase(key, pattern) for pattern in patterns)
