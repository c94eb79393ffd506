"""A holder knows of its loss before anybody else is let in."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter

from tests.jepsen.checkers.holds import Hold, by_use, granted, holds, losses
from tests.jepsen.checkers.judging import judged
from tests.jepsen.checkers.probes import probes
from tests.jepsen.checkers.verdict import Facts, Verdict, Violation
from tests.jepsen.history import History, Op

#: What a process does in several rounds of its event loop: it is awake meanwhile.
_AWAKE = ("acquire", "release", "extend")

#: What ends a hold before its loss is told.
_GIVEN_BACK = ("release", "force")

#: Losses of a whole hold. Others end one lease, and the task may have entered twice.
_WHOLE = ("expired", "taken")


@judged()
def loss_detection(history: History, facts: Facts) -> Verdict:
    """A lost lease is known to be lost, by the clock of its holder.

    - No `check` that begins after somebody else's grant had returned succeeds.
    - Nor does one after the loss was told, or after the holder's own clock said that it was over.
    - A loss is told before somebody else's grant returns, unless the process did not run: it is
      late if after that grant the process asked the server something, was answered, and only then
      told the loss. How much earlier it was told, as a rule, is a figure.
    - A lease on which a holder can rely is there when the probe looks, and ends in the server after
      the deadline that the holder knows.
    - No lease was over when the library gave it: that compares two moments of the library.
    - No lease in the server is longer than the longest that anybody asked for, nor is one renewed
      after somebody else's grant had returned.
    """
    found = [*_checked_after_report(history), *_checked_when_ended(history), *_given_late(history)]
    looked_at = 0
    margins: list[int] = []
    reported = history.by_object("told")
    awake = _by_process(history)
    exclusive = {obj: each for obj, each in holds(history).items() if _excludes(each, facts)}
    for obj, each in exclusive.items():
        looked_at += sum(1 for hold in each for op in hold.shown if op.op == "check")
        found += _checked_late(obj, each)
        if facts.longest_lease is not None:
            found += _renewed_late(obj, history, facts.longest_lease)
        for hold, loss, other in _lost(each, reported.get(obj, [])):
            margins.append(other.start - loss.t0)
            if margins[-1] < 0:
                found += _reported_late(hold, loss, other, awake.get(hold.grant.process, []))
    remainders: list[int] = []
    for probe in probes(history, "lease"):
        if facts.longest_lease is not None and (probe.n or 0) > facts.longest_lease * 1000:
            rule = f"a lease of {probe.obj} is longer than anybody asked for"
            found.append(Violation(rule, (probe,), exact=True))
        found += _outlived(probe, exclusive.get(probe.obj, []), remainders)
    figures = {
        "losses told": len(margins),
        "after the next grant, by a process that did not run": sum(each < 0 for each in margins),
        "least margin before the next grant": _milliseconds(margins),
        "leases probed": len(remainders),
        "least rest in the server": _milliseconds(remainders),
    }
    return Verdict(found, looked_at + len(margins) + len(remainders), figures)


def _milliseconds(times: Sequence[int]) -> str:
    return f"{min(times) / 1e6:.1f} ms" if times else "-"


def _excludes(each: Sequence[Hold], facts: Facts) -> bool:
    grant = each[0].grant
    return facts.limits.get(grant.obj, 1) == 1 and grant.value not in ("read", "write")


def _checked_late(obj: str, each: Sequence[Hold]) -> Iterator[Violation]:
    """Find checks that succeeded beside another holder that had come later."""
    for hold, following in pairwise(each):
        for op in hold.shown:
            if op.op == "check" and op.out == "ok" and op.t0 > following.start:
                shown = (hold.grant, op, *following.shown)
                yield Violation(f"a check of {obj} succeeded after the next grant", shown)
                break


def _renewed_late(obj: str, history: History, longest: float) -> Iterator[Violation]:
    """Find leases with a deadline that only a renewal after a later grant can have given them."""
    known = History([op for op in history.of("acquire", "check") if op.obj == obj])
    grants = [op for op in known.of("acquire") if op.out == "ok"]
    starts = [op.t0 for op in grants]
    for ops in by_use(known, "acquire", "check").values():
        grant = granted(ops)
        if grant is None or grant.t1 is None:
            continue
        index = bisect_right(starts, grant.t1)
        later = next((op for op in grants[index:] if op.owner != grant.owner), None)
        for op in ops:
            if later is None or op.op != "check" or op.out != "ok":
                continue
            if (op.deadline or 0) - longest * 1e9 > later.end:
                rule = f"a lease of {obj} was renewed after the next grant"
                yield Violation(rule, (grant, op, later), exact=True)
                break


def _checked_after_report(history: History) -> Iterator[Violation]:
    reported = losses(history)
    if not reported:
        return
    for (obj, _), ops in by_use(history, "acquire", "check").items():
        grant = granted(ops)
        for loss in (
            reported.get((obj, grant.owner), ()) if grant is not None and grant.owner else ()
        ):
            late = [op for op in ops if op.op == "check" and op.out == "ok" and op.t0 > loss.end]
            if late and loss.err in _WHOLE and grant is not None:
                shown = (grant, loss, late[0])
                yield Violation(f"a check of {obj} succeeded after its loss was told", shown)


def _checked_when_ended(history: History) -> Iterator[Violation]:
    for (obj, _), ops in by_use(history, "acquire", "check").items():
        last: Op | None = None
        for op in ops:
            if op.op != "check" or op.out != "ok":
                continue
            if last is not None and op.t0 > last.end:
                rule = f"a check of {obj} succeeded after its lease was over"
                yield Violation(rule, (*ops[:1], last, op), exact=True)
                break
            last = last or (op if op.value == "over" else None)


def _given_late(history: History) -> Iterator[Violation]:
    for op in history.of("late"):
        if op.deadline is not None and op.deadline <= op.t0:
            grants = [each for each in history.of("acquire") if each.rid == op.rid]
            shown = (*[each for each in grants if each.obj == op.obj], op)
            yield Violation(f"a lease of {op.obj} was over when it was granted", shown, exact=True)


def _lost(each: Sequence[Hold], reported: Sequence[Op]) -> Iterator[tuple[Hold, Op, Hold]]:
    """Yield losses that were told to a holder, with its hold and the next one.

    Not those of which a release learned: its caller did not rely on the lease any more. Nor those
    that somebody forced: their holders learn of it by their next renewal. Of a hold that was
    entered several times, all leases that anybody relies on are told at once; the exit of an entry
    that was under way may hear of it later.
    """
    starts = [hold.start for hold in each]
    last = {hold.grant.owner: hold for hold in each if hold.grant.owner}
    for loss in reported:
        hold = last.get(loss.owner)
        if hold is None or loss.t0 < hold.start:
            continue
        del last[loss.owner]
        index = bisect_right(starts, hold.start)
        given_back = any(op.op in _GIVEN_BACK and op.t0 <= loss.t0 for op in hold.shown)
        if index < len(each) and not given_back:
            yield hold, loss, each[index]


def _by_process(history: History) -> dict[str, list[Op]]:
    found: defaultdict[str, list[Op]] = defaultdict(list)
    for op in history.of(*_AWAKE):
        # Giving back what is lost already takes no round.
        if op.t1 is not None and op.out != "info":
            found[op.process].append(op)
    return found


def _reported_late(hold: Hold, loss: Op, other: Hold, awake: Sequence[Op]) -> Iterator[Violation]:
    begin = bisect_right(awake, other.start, key=attrgetter("t0"))
    for op in awake[begin:]:
        if op.t0 >= loss.t0:
            return
        if op.end < loss.t0:
            shown = (hold.grant, *other.shown, op, loss)
            rule = f"a loss of {loss.obj} was told after the next grant"
            yield Violation(rule, shown, exact=True)
            return


def _outlived(probe: Op, each: Sequence[Hold], remainders: list[int]) -> Iterator[Violation]:
    """Find what a holder relies on while the server has no lease, or one that ends sooner.

    What is left in the server of the others, beyond their deadlines, goes into `remainders`.
    """
    index = bisect_right(each, probe.t0, key=attrgetter("start")) - 1
    if index < 0 or probe.end >= each[index].end or probe.n is None:
        return
    hold = each[index]
    if probe.n < 0 or (probe.owner and probe.owner != hold.grant.owner):
        yield Violation(f"a lease of {probe.obj} is not in the server", (*hold.shown, probe))
        return
    if any(op.op == "extend" and op.t0 < probe.end and op.end > probe.t0 for op in hold.shown):
        return  # nobody knows which of the two leases it saw
    deadline = hold.grant.deadline or 0
    for op in hold.shown:
        if op.end <= probe.t0 and op.deadline is not None and op.op in ("check", "extend"):
            deadline = max(deadline, op.deadline) if op.op == "check" else op.deadline
    # The server says whole milliseconds, at some moment of the probe.
    if deadline > probe.end + (probe.n + 1) * 1_000_000:
        rule = f"a lease of {probe.obj} ends in the server before its holder's deadline"
        yield Violation(rule, (*hold.shown, probe))
    remainders.append(probe.t0 + probe.n * 1_000_000 - deadline)
