"""Waiters that a release did not wake, whatever was slow, if they were allowed to listen.

`tests.jepsen.sleeps` says what is recorded, and why this needs no measure of time. Nothing of the
package is imported here: the checkers run beside its older versions too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from tests.jepsen.checkers.verdict import Violation
from tests.jepsen.history import History, Op


class Position(IntEnum):
    """Where a waiter stands, which says whether a release wakes it."""

    #: In no queue of Redis: every release wakes it.
    NOWHERE = 0
    #: In the queue of a fair lock: the release whose turn it is.
    IN_ORDER = 1
    #: The first in the queue of clients: every release calls it.
    FIRST = 2
    #: Further back in the queue of clients: none wakes it. As the second it looks by a timer.
    BEHIND = 3


@dataclass(frozen=True, slots=True)
class Possession:
    """All uses of an object under one owner, which Redis knows as one hold.

    Attributes:
        owner: The owner.
        first: The first of its acquires, to which Redis granted it.
        release: The release that freed it in Redis; None if nobody knows of one.
    """

    owner: str
    first: Op
    release: Op | None


def possessions(history: History) -> dict[str, list[Possession]]:
    """Return the possessions of each object, in the order in which they began.

    A hold may be passed to a task that is cancelled just then and says nothing of an owner. So a
    release beside an acquire of the same process that was not granted counts as unknown.
    """
    releases = {(op.obj, op.rid): op for op in history.of("release")}
    found: dict[str, list[Possession]] = {}
    for obj, acquires in history.by_object("acquire").items():
        owners: defaultdict[str, list[Op]] = defaultdict(list)
        failed: defaultdict[str, list[Op]] = defaultdict(list)
        for op in acquires:
            if op.out == "ok" and op.owner:
                owners[op.owner].append(op)
            elif op.out != "ok":
                failed[op.process].append(op)
        found[obj] = [
            Possession(owner, uses[0], _freed(uses, releases, failed[uses[0].process]))
            for owner, uses in owners.items()
        ]
    return found


def _freed(
    uses: Sequence[Op], releases: dict[tuple[str, str], Op], failed: Sequence[Op]
) -> Op | None:
    ends = [releases.get((op.obj, op.rid)) for op in uses]
    known = [op for op in ends if op is not None and op.out == "ok" and op.t1 is not None]
    if len(known) < len(uses):
        return None
    last = max(known, key=lambda op: op.t0)
    passed = any(op.t0 <= last.end and op.end >= last.t0 for op in failed)
    return None if passed else last


#: A strike in which Redis refuses SUBSCRIBE. It is asked again some seconds after it allows it.
_FORBIDDING = "acl"

#: A strike in which Redis refuses every command.
_REFUSING = "busy"

#: Nanoseconds after such a strike in which a waiter need not listen yet. SUBSCRIBE is sent again
#: after a pause of at most a second, by a process that may be slow, and the request behind it may
#: be served before.
_NOT_LISTENING = 5_000_000_000

#: Strikes in which the queue of clients is lost, or nobody can join it: the first two look then.
_QUEUE_LOSING = frozenset({"flushall", "eviction", "memory-full", "disk-full"})


def slept_on(history: History, judged: frozenset[str]) -> Iterator[Violation]:
    """Yield the waiters that slept beside an object that was released.

    Args:
        history: The history.
        judged: The objects with one holder at a time, each of which is acquired alone.
    """
    sleeps = history.by_object("overslept")
    if not sleeps or any(op.rid == _FORBIDDING for op in history.of("nemesis")):
        return
    refusing = [op for op in history.of("nemesis") if op.rid == _REFUSING]
    acquires = history.by_object("acquire")
    in_queue = _keeps_its_queue(history)
    for obj, held in possessions(history).items():
        if obj not in judged:
            continue
        for sleep in sleeps.get(obj, ()):
            if any(_may_not_listen(sleep, strike) for strike in refusing):
                continue
            if sleep.n == Position.BEHIND or (sleep.n == Position.FIRST and not in_queue):
                continue
            if sleep.n == Position.FIRST and _may_be_in_no_queue(sleep, history):
                continue
            release = _in_order if sleep.n == Position.IN_ORDER else _unheard
            missed = release(sleep, held, acquires[obj])
            if missed is not None:
                rule = f"a release of {obj} did not wake its waiter"
                uses = [op for op in acquires[obj] if op.rid in (sleep.rid, missed.rid)]
                yield Violation(rule, (*uses, sleep, missed), exact=True)


def _keeps_its_queue(history: History) -> bool:
    """Return whether the first in a queue of clients stays the first, and every release calls it.

    They stand there by the server's clock. An older version calls nobody.
    """
    stepped = any(op.rid.startswith("clock") for op in history.of("nemesis"))
    older = any(op.value and op.value.get("older") for op in history.of("began"))
    return not (stepped or older)


def _may_be_in_no_queue(sleep: Op, history: History) -> bool:
    """Return whether a client that was the first may stand in no queue during a sleep."""
    _, ended = sleep.value
    return any(
        op.t0 <= ended and op.end >= sleep.t0
        for op in history.of("nemesis")
        if op.rid in _QUEUE_LOSING
    )


def _may_not_listen(sleep: Op, strike: Op) -> bool:
    """Return whether SUBSCRIBE may have been refused, and not sent again before the sleep ended."""
    busy, ended = sleep.value
    return bool(strike.t0 <= ended and busy <= strike.end + _NOT_LISTENING)


def _unheard(sleep: Op, held: Sequence[Possession], acquires: Sequence[Op]) -> Op | None:
    """Return a release of which the waiter must have heard, and did not.

    It was executed after the request that was answered "busy". That is certain if the release began
    after that answer. It is also certain of one release, nobody knows which, if everybody that may
    have held the object then has released it since.
    """
    busy, ended = sleep.value
    released = [each.release for each in held if each.release is not None]
    later = next((op for op in released if op.t0 > busy and op.end < ended), None)
    if later is not None:
        return later
    if any(op.out == "info" and op.t0 < busy for op in acquires):
        return None
    last: Op | None = None
    for each in held:
        if each.first.t0 >= busy:
            continue
        if each.release is None:
            return None
        if each.release.end >= sleep.t0:
            if each.release.end >= ended:
                return None
            last = each.release
    return last


def _in_order(sleep: Op, held: Sequence[Possession], acquires: Sequence[Op]) -> Op | None:
    """Return the release after which the sleeper's turn came, if it was not told.

    It is told by the release itself if it is first in the queue. That is certain if it was granted
    next, and nobody waited or gave up meanwhile that might have stood before it. Whoever is granted
    later may have: a request that is refused for long loses its place in the queue. And a request
    that was given up before the release may still stand there, as nobody waits until Redis has
    heard of that. It has left for certain if its process was granted another one since: requests
    arrive in order.

    The release of a holder that came later than the sleeper proves nothing: the sleeper had lost
    its place, as a process does that is stopped for longer than a lease.
    """
    busy, ended = sleep.value
    grant = next((op for op in acquires if op.rid == sleep.rid and op.out == "ok"), None)
    if grant is None:
        return None
    for each in held:
        release = each.release
        if each.owner == grant.owner or release is None:
            continue
        if release.t0 <= busy or release.end >= ended or each.first.t0 > busy:
            continue
        # The newest possession of each process that had been granted then.
        newest = {each.first.process: each.first for each in held if each.first.end <= release.t0}
        others = (
            op
            for op in acquires
            if op.rid not in (grant.rid, release.rid) and not _has_left(op, release, newest)
        )
        if not any(_may_stand_before(op, busy, grant.end) for op in others):
            return release
    return None


def _has_left(op: Op, release: Op, newest: Mapping[str, Op]) -> bool:
    """Return whether a request has left the queue for certain when a release begins."""
    if op.end >= release.t0:
        return False
    granted = newest.get(op.process)
    return op.out == "ok" or (granted is not None and op.end <= granted.t0)


def _may_stand_before(op: Op, busy: int, granted: float) -> bool:
    """Return whether a request that is not over may stand before one that had entered by `busy`."""
    return op.t0 <= busy or op.end <= granted or (op.out != "ok" and op.t0 <= granted)
