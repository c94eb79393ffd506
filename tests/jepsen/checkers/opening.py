"""Latches and barriers let nobody through too early, and latches not never."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from redisson_py import AcquireTimeoutError
from tests.jepsen.checkers.judging import judged
from tests.jepsen.checkers.verdict import Facts, Verdict, Violation
from tests.jepsen.history import History, Op

#: How a wait fails that Redis answered with "closed"; one without an answer says nothing.
TIMED_OUT = AcquireTimeoutError.__name__


@judged()
def latch(history: History, facts: Facts) -> Verdict:
    """No `await` returns before enough `count_down` were invoked; none times out after enough.

    How many are enough is the value of an operation, or stands in the facts.
    """
    found: list[Violation] = []
    looked_at = 0
    for obj, ops in history.by_object("count_down", "await").items():
        counts = [op.value for op in ops if isinstance(op.value, int)]
        enough = max(counts, default=facts.parties_of(obj))
        downs = [op for op in ops if op.op == "count_down" and op.out != "fail"]
        invoked = [op.t0 for op in downs for _ in range(_units(op))]
        done = sorted(op.end for op in downs if op.out == "ok" for _ in range(_units(op)))
        opens = invoked[enough - 1] if len(invoked) >= enough else None
        open_since = done[enough - 1] if len(done) >= enough else None
        for op in ops:
            if op.op != "await":
                continue
            looked_at += 1
            if op.out == "ok" and (opens is None or op.end < opens):
                shown = (*_until(downs, op), op)
                found.append(Violation(f"{obj} opened before its count was down", shown, True))
            elif op.err == TIMED_OUT and open_since is not None and open_since < op.t0:
                shown = (*_until(downs, op), op)
                found.append(Violation(f"{obj} was closed when its count was down", shown))
    return Verdict(found, looked_at)


def _units(op: Op) -> int:
    return 1 if op.n is None else op.n


def _until(downs: Sequence[Op], op: Op) -> tuple[Op, ...]:
    return tuple(down for down in downs if down.t0 <= op.end)


@judged()
def barrier(history: History, facts: Facts) -> Verdict:
    """Nobody is released before enough have arrived, and no generation before the last one.

    Each release of all takes one arrival of each party, so the first M that were released took
    that of at least so many parties as fill the generations that M need. Where all arrivals
    succeeded, the workers' own counting of generations must agree, too.
    """
    found: list[Violation] = []
    looked_at = 0
    for obj, ops in history.by_object("arrive").items():
        parties = facts.parties_of(obj)
        looked_at += len(ops)
        arrived = [op for op in ops if op.out != "fail"]
        found += _too_soon(obj, arrived, parties)
        if all(op.out == "ok" and op.n is not None for op in ops):
            found += _generations(obj, ops, parties)
    return Verdict(found, looked_at)


def _too_soon(obj: str, arrived: Sequence[Op], parties: int) -> Iterator[Violation]:
    released = sorted((op for op in arrived if op.out == "ok"), key=lambda op: op.end)
    invoked = 0
    for number, op in enumerate(released):
        while invoked < len(arrived) and arrived[invoked].t0 <= op.end:
            invoked += 1
        # The generations before this release were full, and so is its own.
        full = number // parties + 1
        if invoked < full * parties:
            others = [each for each in arrived[(full - 1) * parties : invoked] if each is not op]
            shown = (*others[: parties - 2], op)
            yield Violation(f"{obj} released before all had arrived", shown, True)
            return


def _generations(obj: str, ops: Sequence[Op], parties: int) -> Iterator[Violation]:
    members: defaultdict[int, list[Op]] = defaultdict(list)
    for op in ops:
        members[op.n or 0].append(op)
    for number in sorted(members):
        each = members[number]
        if len(each) > parties:
            rule = f"more than its parties in a generation of {obj}"
            yield Violation(rule, tuple(each), True)
        following = members.get(number + 1)
        if not following:
            continue
        first, last = min(following, key=lambda op: op.end), max(each, key=lambda op: op.t0)
        if first.end < last.t0:
            yield Violation(f"a generation of {obj} came before the last one", (last, first), True)
