"""How locks went from one holder to the next: how long it took, and what woke the next one.

A hand-off is a release while somebody waited, and the next grant of that object, to whomever. If
there were several releases before the grant (of readers, of units), the last one counts: nobody
knows which of them was enough. A release whose outcome nobody knows counts for nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from redisson_py._engine.waiting import SAFETY_POLL
from tests.jepsen.checkers.hand_off import HandOff, exclusive, hand_offs
from tests.jepsen.checkers.verdict import Facts
from tests.jepsen.history import History, Op

#: Milliseconds after which a waiter looks for itself at the latest: the poll with all its jitter.
LONGEST_POLL = 1500 * SAFETY_POLL


@dataclass(frozen=True)
class HandOffs:
    """What became of the contended releases of a run. All times are milliseconds, sorted.

    Attributes:
        taken: From each release to the next grant.
        unserved: From each release after which all that had waited gave up, to the last of these
            moments: how long it would have taken nobody knows.
        followed: Of how many hand-offs the waiter's sleeps were recorded: it has a lock with one
            holder at a time, and was granted it by Redis.
        own_looks: Those of the followed ones whose waiter no message had woken when it asked: it
            found the lock by its own look, when the lease or the safety poll was over.
    """

    taken: tuple[float, ...] = ()
    unserved: tuple[float, ...] = ()
    followed: int = 0
    own_looks: tuple[float, ...] = ()

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Self:
        """Return what JSON has of them."""
        lists = {name: tuple(found[name]) for name in ("taken", "unserved", "own_looks")}
        return cls(followed=found["followed"], **lists)


def handing(history: History, facts: Facts, *, watched: bool = True) -> HandOffs:
    """Return what became of the contended releases.

    Args:
        history: The history.
        facts: What checkers must know of the run.
        watched: The sleeps of waiters were recorded, but for those of an older version.
    """
    served: dict[tuple[str, str], HandOff] = {}
    unserved: list[HandOff] = []
    for each in hand_offs(history):
        if each.grant is None:
            unserved.append(each)
        else:
            served[each.grant.obj, each.grant.rid] = each
    alone = exclusive(history, facts) if watched else frozenset[str]()
    older = {op.process for op in history.of("began") if op.value and op.value.get("older")}
    sleeps: defaultdict[tuple[str, str], list[Op]] = defaultdict(list)
    for op in history.of("overslept"):
        sleeps[op.obj, op.rid].append(op)
    followed = [
        key
        for key, each in served.items()
        if key[0] in alone and not each.passed and _by(each).process not in older
    ]
    found = [
        served[key] for key in followed if any(_found(one, served[key]) for one in sleeps[key])
    ]
    return HandOffs(
        _milliseconds(served.values()), _milliseconds(unserved), len(followed), _milliseconds(found)
    )


def _by(hand_off: HandOff) -> Op:
    assert hand_off.grant is not None
    return hand_off.grant


def _found(sleep: Op, hand_off: HandOff) -> bool:
    """Return whether a request after a sleep that a timer ended was what was granted."""
    _, end = sleep.value
    return bool(end >= hand_off.release.t0 and sleep.end <= _by(hand_off).end)


def _milliseconds(each: Iterable[HandOff]) -> tuple[float, ...]:
    return tuple(sorted(one.latency / 1e6 for one in each))
