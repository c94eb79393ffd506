"""The smallest counterexample: delta debugging over what may be left out of a history.

Not every operation may be: without its release a hold would seem to last longer, and a history in
which all is well would be broken. What may be left out is a *unit*: all that was recorded of one
use of an object, or a look that only confirms a hold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from tests.jepsen.history import Op

Unit = tuple[Op, ...]

#: How many histories are tried for one counterexample. It is then small, if not the smallest.
TRIES = 2000


def sections(ops: Sequence[Op]) -> list[Unit]:
    """Return the uses of objects: what has the same `rid`, and the losses told to its owner."""
    parts: defaultdict[tuple[str, str, int], list[Op]] = defaultdict(list)
    losses: defaultdict[tuple[str, str], list[Op]] = defaultdict(list)
    for op in ops:
        if op.op == "told" and op.owner:
            losses[op.obj, op.owner].append(op)
        elif op.op in ("probe", "nemesis") or not op.rid:
            parts[op.obj, "", id(op)].append(op)
        else:
            parts[op.obj, op.rid, 0].append(op)
    for part in parts.values():
        owners = {(op.obj, op.owner) for op in part if op.op == "acquire" and op.owner}
        part += [loss for owner in owners for loss in losses.get(owner, ())]
    return [tuple(part) for part in parts.values()]


def joined(units: Sequence[Unit]) -> list[Op]:
    """Return the operations of units, each once, in order."""
    each = {id(op): op for unit in units for op in unit}
    return sorted(each.values(), key=lambda op: op.t0)


def smallest(ops: Sequence[Op], breaks: Callable[[list[Op]], bool]) -> tuple[Op, ...]:
    """Return a part of a history that breaks the same rule, of which nothing can be left out.

    Args:
        ops: The history, which breaks it.
        breaks: Whether a history breaks it.
    """
    left = [TRIES]

    def tried(units: Sequence[Unit]) -> bool:
        left[0] -= 1
        return left[0] >= 0 and breaks(joined(units))

    kept = joined(least(sections(ops), tried))
    looks = [op for op in kept if op.op == "check" and op.out == "ok"]
    return tuple(without(kept, looks, lambda others: tried([tuple(others)])))


def without(
    ops: Sequence[Op], doubtful: Sequence[Op], breaks: Callable[[list[Op]], bool]
) -> list[Op]:
    """Return operations less those of the doubtful ones that are not needed to break the rule."""
    kept = list(ops)
    for each in doubtful:
        others = [op for op in kept if op is not each]
        if breaks(others):
            kept = others
    return kept


def least(units: list[Unit], breaks: Callable[[Sequence[Unit]], bool]) -> list[Unit]:
    """Return units of which none can be left out.

    It leaves out halves, then quarters, and so on, as long as the rest still breaks the rule.
    """
    size = max(1, len(units) // 2)
    while True:
        start, shorter = 0, False
        while start < len(units) and len(units) > 1:
            others = units[:start] + units[start + size :]
            if others and breaks(others):
                units, shorter = others, True
            else:
                start += size
        if size == 1 and not shorter:
            return units
        size = max(1, min(size, len(units)) // 2)
