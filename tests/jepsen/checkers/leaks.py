"""At the end nothing is left: keys, channels, holds, waiters, tasks."""

from __future__ import annotations

from fnmatch import fnmatchcase

from tests.jepsen.checkers.judging import judged, never
from tests.jepsen.checkers.probes import probes
from tests.jepsen.checkers.verdict import Facts, Verdict, Violation
from tests.jepsen.history import History


@judged(unless=never)
def leaks(history: History, facts: Facts) -> Verdict:
    """Keys are those that `Facts.lasting` allows, nobody subscribes, workers held on to nothing.

    Only a probe when all is quiet can say so: without one, nothing was looked at on the server.
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
    for op in history.of("left"):
        looked_at += 1
        counts = op.value if isinstance(op.value, list) else [op.value]
        if any(counts):
            found.append(Violation(f"a worker has {op.obj or 'holds or waiters'} left", (op,)))
    return Verdict(found, looked_at)


def _lasts(key: str, facts: Facts) -> bool:
    return any(fnmatchcase(key, pattern) for pattern in facts.lasting)
