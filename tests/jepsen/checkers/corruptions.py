"""What can go wrong with a perfect history: one fault at a time, put in with a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.jepsen.checkers.holds import Hold, holds
from tests.jepsen.checkers.latch import TIMED_OUT
from tests.jepsen.checkers.simulated import DRIFT, LEASE, MS
from tests.jepsen.history import History, Op

Corruption = Callable[[random.Random, History], History]


def _changed(history: History, old: Op, *new: Op) -> History:
    """Return the history with an operation replaced."""
    return History([*(op for op in history.ops if op is not old), *new])


def _chosen(chance: random.Random, history: History, *words: str, out: str = "ok") -> Op:
    return chance.choice([op for op in history.of(*words) if op.out == out])


def _hold(chance: random.Random, history: History, mode: object = None) -> Hold:
    """Choose a hold that lasted, of a mode if one is named."""
    (each,) = holds(history).values()
    return chance.choice(
        [hold for hold in each if hold.end - hold.start > 10 and mode in (None, hold.grant.value)]
    )


def _intruder(hold: Hold, **facts: Any) -> Op:
    """Return a grant in the middle of a hold, to somebody else."""
    middle = (hold.start + hold.end) // 2
    other: dict[str, Any] = {"rid": "intruder", "owner": "intruder", "process": "w9"}
    other |= {"t0": middle - 1, "t1": middle, "deadline": middle + LEASE, **facts}
    return replace(hold.grant, **other)


def second_holder(chance: random.Random, history: History) -> History:
    """Grant a lock that is held."""
    greatest = max(op.fence or 0 for op in history.ops)
    return History([*history.ops, _intruder(_hold(chance, history), fence=greatest + 1)])


def second_writer(chance: random.Random, history: History) -> History:
    """Grant the write lock beside any other hold."""
    return History([*history.ops, _intruder(_hold(chance, history), value="write")])


def reader_beside_a_writer(chance: random.Random, history: History) -> History:
    """Grant the read lock beside a writer."""
    hold = _hold(chance, history, "write")
    return History([*history.ops, _intruder(hold, value="read")])


def all_units_again(chance: random.Random, history: History) -> History:
    """Grant five units while some are out."""
    return History([*history.ops, _intruder(_hold(chance, history), n=5)])


def unit_gone_at_the_end(chance: random.Random, history: History) -> History:
    """Give back one unit less, or one more."""
    (seen,) = history.of("probe")
    return _changed(history, seen, replace(seen, n=(seen.n or 0) + chance.choice([-1, 1])))


def token_twice(chance: random.Random, history: History) -> History:
    """Grant a token that somebody had."""
    first, second = sorted(chance.sample(history.of("acquire"), 2), key=lambda op: op.t0)
    return _changed(history, second, replace(second, fence=first.fence))


def token_too_small(chance: random.Random, history: History) -> History:
    """Grant a token smaller than one that was there before."""
    grants = history.of("acquire")
    later = chance.choice([op for op in grants if op.t0 > min(other.end for other in grants)])
    return _changed(history, later, replace(later, fence=-1))


def token_changed_on_re_entry(chance: random.Random, history: History) -> History:
    """Give a task that re-enters another token."""
    old = _chosen(chance, history, "reenter")
    return _changed(history, old, replace(old, fence=(old.fence or 0) + 1))


def write_counted_twice(chance: random.Random, history: History) -> History:
    """Write what has been written."""
    old = chance.choice(history.of("write")[1:])
    return _changed(history, old, replace(old, value=old.value - 1))


def late_write_accepted(chance: random.Random, history: History) -> History:
    """Have an old holder write once more, after a newer one."""
    first = chance.choice(history.of("write")[:-2])
    newer = next(op for op in history.of("write") if op.t0 > first.t0)
    late = replace(first, t0=newer.t0 + 1, t1=newer.t0 + 1, value=newer.value)
    return _changed(history, first, late)


def entry_not_counted(chance: random.Random, history: History) -> History:
    """Have the server count one entry less."""
    old = _chosen(chance, history, "reenter")
    return _changed(history, old, replace(old, value=old.value - 1))


def queue_jumped(chance: random.Random, history: History) -> History:
    """Swap the grants of two requests of which one is certainly older."""
    tickets = {op.rid: op for op in history.of("ticket")}
    grants = history.of("acquire")
    pairs = [
        (one, other)
        for one in grants
        for other in grants
        if tickets[one.rid].end < tickets[other.rid].t0 and one.end < other.end
    ]
    one, other = chance.choice(pairs)
    swapped = [
        replace(each, t1=at.t1, deadline=at.deadline) for each, at in ((one, other), (other, one))
    ]
    return _changed(_changed(history, one), other, *swapped)


def opened_early(chance: random.Random, history: History) -> History:
    """Open a latch before the last count is down."""
    old = _chosen(chance, history, "await")
    downs = [op for op in history.of("count_down") if op.obj == old.obj]
    moment = max(op.t0 for op in downs) - 1
    return _changed(history, old, replace(old, t0=min(old.t0, moment - 1), t1=moment))


def never_opened(chance: random.Random, history: History) -> History:
    """Leave a latch closed whose count is down."""
    old = _chosen(chance, history, "await")
    moment = max(op.end for op in history.of("count_down") if op.obj == old.obj)
    late = replace(old, t0=int(moment) + 1, t1=int(moment) + LEASE, out="fail")
    return _changed(history, old, replace(late, err=TIMED_OUT))


def released_early(chance: random.Random, history: History) -> History:
    """Release one party of a barrier before the last one has come."""
    generation = chance.choice(history.of("arrive")).n
    each = [op for op in history.of("arrive") if op.n == generation]
    last = max(each, key=lambda op: op.t0)
    old = chance.choice([op for op in each if op is not last])
    return _changed(history, old, replace(old, t1=max(old.t0, last.t0 - 1)))


def check_too_long(chance: random.Random, history: History) -> History:
    """Have a holder believe in its lease when the next one has it."""
    each = holds(history)["x"]
    place = chance.randrange(len(each) - 1)
    hold, following = each[place], each[place + 1]
    middle = (following.start + following.end) // 2
    kept = [op for op in history.ops if op.rid != hold.grant.rid or op.op != "release"]
    late = replace(hold.grant, op="check", t0=middle, t1=middle, deadline=middle + MS)
    return History([*kept, late])


def lease_too_short(chance: random.Random, history: History) -> History:
    """End a lease in the server sooner than its holder thinks."""
    old = _chosen(chance, history, "probe")
    return _changed(history, old, replace(old, n=(old.n or 0) - 2 * DRIFT // MS))


def element_lost(chance: random.Random, history: History) -> History:
    """Lose an element that was acknowledged."""
    (read,) = history.of("read")
    gone = _chosen(chance, history, "add").value
    return _changed(history, read, replace(read, value=[n for n in read.value if n != gone]))


def element_twice(chance: random.Random, history: History) -> History:
    """Add an element twice."""
    (read,) = history.of("read")
    again = _chosen(chance, history, "add").value
    return _changed(history, read, replace(read, value=[*read.value, again]))


def stale_read(chance: random.Random, history: History) -> History:
    """Read what was overwritten for certain."""
    writes: Sequence[Op] = history.of("write")
    pairs = [(a, b) for a in writes for b in writes if a.end < b.t0]
    old, newer = chance.choice(pairs)
    moment = int(newer.end) + 1
    read = replace(old, op="read", t0=moment, t1=moment, process="w9", handle="w9.0")
    return History([*history.ops, read])
