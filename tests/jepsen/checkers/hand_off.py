"""No lost wake-up: after a release, somebody that waits is granted the lock."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from tests.jepsen.checkers.judging import judged
from tests.jepsen.checkers.oversleeping import slept_on
from tests.jepsen.checkers.verdict import Facts, Verdict, Violation
from tests.jepsen.history import History, Op

#: Questions to the server that a process had answered while its waiter slept beside a free lock.
#: So many round trips are time enough for a message, on however slow a machine.
ROUND_TRIPS = 30

#: What takes a round trip to the server, at least now and then.
_ASKS = ("acquire", "release", "extend", "count_down", "arrive")


@dataclass(frozen=True, slots=True)
class HandOff:
    """A release while others waited.

    Attributes:
        release: The release.
        waiter: That of the waiters that waited longest after it.
        end: When the next one was granted it, or the last waiter had given up.
        passed: It went to another task of the same process, under the same owner.
    """

    release: Op
    waiter: Op
    end: int
    passed: bool

    @property
    def latency(self) -> int:
        """Nanoseconds from the invocation of the release."""
        return self.end - self.release.t0


@judged()
def no_lost_wake_up(history: History, facts: Facts) -> Verdict:
    """A waiter is not left asleep beside a free lock until its lease or the safety poll ends.

    Latencies alone prove nothing on a busy machine. A wake-up was lost if a hand-off took longer
    than `Facts.wake_bound`, no nemesis was at work, and the process of the waiter asked the
    server other things meanwhile, one after the other, and was answered. Of semaphores, readers and
    uses of several locks at once only the latencies are told: there one release need not be enough.

    It was also lost if a release did not end the sleep of a waiter that must have heard of it: see
    `oversleeping`, which judges no history in which commands were refused or delayed.
    """
    each, several = hand_offs(history), _several(history)
    found = list(slept_on(history, exclusive(history, facts)))
    asked: dict[str, list[Op]] = {}
    for hand_off in each:
        bound = facts.wake_bound
        if bound is None or hand_off.latency <= bound * 1e9:
            continue
        if not _is_enough(hand_off, facts, several):
            continue
        asked = asked or _asked(history)
        answered = _answered(asked.get(hand_off.waiter.process, []), hand_off)
        if len(answered) >= ROUND_TRIPS and not _struck(history.of("nemesis"), hand_off):
            shown = (hand_off.waiter, hand_off.release, *answered[:ROUND_TRIPS])
            grant = next((op for op in history.of("acquire") if op.t1 == hand_off.end), None)
            rule = f"a waiter slept beside the free {hand_off.release.obj}"
            if grant is not None and grant is not hand_off.waiter:
                shown = (*shown, grant)
            found.append(Violation(rule, shown, exact=True))
    figures = _latencies(each) | {"sleeps that a timer ended": len(history.of("overslept"))}
    return Verdict(found, len(each), figures)


def hand_offs(history: History) -> list[HandOff]:
    """Return the releases during which somebody waited, in order for each object.

    A waiter whose process was killed is none: nobody knows until when it waited.
    """
    found: list[HandOff] = []
    released = history.by_object("release")
    for obj, acquires in history.by_object("acquire").items():
        found += _of_object(acquires, released.get(obj, []))
    return found


def _latencies(each: Sequence[HandOff]) -> dict[str, object]:
    """Return percentiles of hand-offs, in milliseconds."""
    figures: dict[str, object] = {}
    for name, passed in (("through Redis", False), ("inside a process", True)):
        times = sorted(one.latency / 1e6 for one in each if one.passed is passed)
        if not times:
            continue
        shares = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
        shown = {key: times[min(len(times) - 1, int(len(times) * p))] for key, p in shares.items()}
        text = ", ".join(f"{key} {value:.2f}" for key, value in shown.items())
        figures[f"{name}, ms"] = f"{text} ({len(times)})"
    figures["slower than 2 s"] = sum(1 for one in each if one.latency > 2e9)
    return figures


def _of_object(acquires: Sequence[Op], released: Sequence[Op]) -> list[HandOff]:
    found: list[HandOff] = []
    grants = sorted((op for op in acquires if op.out == "ok"), key=attrgetter("end"))
    ends = [op.end for op in grants]
    owners = {op.rid: op.owner for op in grants}
    index = 0
    waiting: list[Op] = []
    for release in released:
        while index < len(acquires) and acquires[index].t0 < release.t0:
            if acquires[index].t1 is not None:
                waiting.append(acquires[index])
            index += 1
        waiting = [op for op in waiting if op.end > release.t0]
        others = [op for op in waiting if op.rid != release.rid]
        if release.out != "ok" or release.t1 is None or not others:
            continue
        waiter = max(others, key=attrgetter("end"))
        next_grant = bisect_right(ends, release.t0)
        grant = grants[next_grant] if next_grant < len(grants) else None
        end, passed = waiter.end, False
        if grant is not None and grant.end <= waiter.end:
            end, passed = grant.end, grant.owner == owners.get(release.rid) != ""
        found.append(HandOff(release, waiter, int(end), passed))
    return found


def _asked(history: History) -> dict[str, list[Op]]:
    """Return what took a round trip, by process."""
    found: defaultdict[str, list[Op]] = defaultdict(list)
    for op in history.of(*_ASKS):
        if op.out != "info":
            found[op.process].append(op)
    return found


def _answered(asked: Sequence[Op], hand_off: HandOff) -> list[Op]:
    """Return questions that were asked and answered one after the other meanwhile."""
    found: list[Op] = []
    # The lock was free only when its release had ended.
    moment = hand_off.release.end
    for op in asked[bisect_left(asked, moment, key=attrgetter("t0")) :]:
        if op.t0 >= hand_off.end:
            break
        if op.t0 >= moment and op.end < hand_off.end:
            found.append(op)
            moment = op.end
    return found


def _several(history: History) -> set[str]:
    """Return the uses that acquire several objects."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for op in history.of("acquire"):
        found[op.rid].add(op.obj)
    return {rid for rid, objects in found.items() if len(objects) > 1}


def exclusive(history: History, facts: Facts) -> frozenset[str]:
    """Return the objects with one holder at a time that nobody acquires together with others."""
    acquires, several = history.of("acquire"), _several(history)
    shared = {op.obj for op in acquires if op.value in ("read", "write") or op.rid in several}
    return frozenset({op.obj for op in acquires} - shared - facts.limits.keys())


def _is_enough(hand_off: HandOff, facts: Facts, several: set[str]) -> bool:
    """Return whether the release was all that the waiter waited for."""
    waiter = hand_off.waiter
    alone = waiter.obj not in facts.limits and waiter.value not in ("read", "write")
    return alone and waiter.rid not in several


def _struck(nemesis: Sequence[Op], hand_off: HandOff) -> bool:
    return any(op.t0 <= hand_off.end and op.end >= hand_off.release.t0 for op in nemesis)
