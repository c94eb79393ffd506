"""A hold that was handed over goes to one adopter, with its token."""

from __future__ import annotations

from tests.jepsen.checkers.judging import judged, never
from tests.jepsen.checkers.verdict import Facts, Verdict, Violation
from tests.jepsen.history import History, Op


@judged(unless=never)
def adoption(history: History, facts: Facts) -> Verdict:
    """Each hold is adopted at most once, and its adopter has the token of its giver.

    The value of an `acquire` that adopts is the owner of the giver; that of others is nothing. That
    nobody else had the lock in between is what `fencing` looks at: somebody who came before the
    adopter has a greater token. Tasks to which a client passes a hold have one owner, and a token
    each: the last of them is the giver.
    """
    found: list[Violation] = []
    looked_at = 0
    for obj, ops in history.by_object("acquire").items():
        grants = [op for op in ops if op.out == "ok" and op.fence is not None]
        givers = {op.owner: op for op in sorted(grants, key=lambda op: op.fence or 0)}
        adopters: dict[str, Op] = {}
        for op in grants:
            if op.value is None:
                continue
            looked_at += 1
            other = adopters.setdefault(op.value, op)
            if other is not op:
                found.append(Violation(f"two have adopted one hold of {obj}", (other, op), True))
            giver = givers.get(op.value)
            if giver is not None and giver.fence != op.fence:
                rule = f"an adopter of {obj} has another token than its giver"
                found.append(Violation(rule, (giver, op), exact=True))
    return Verdict(found, looked_at)
