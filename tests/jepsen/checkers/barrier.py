"""A barrier releases its parties together, one generation after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tests.jepsen.checkers.judging import judged
from tests.jepsen.checkers.verdict import Facts, Verdict, Violation
from tests.jepsen.history import History, Op


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
