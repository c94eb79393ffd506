"""Whatever begins ends: no deadlock, and no error that is not the library's."""

from __future__ import annotations

from tests.jepsen.checkers.judging import judged, never
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
