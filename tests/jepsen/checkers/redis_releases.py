"""What was released in Redis, and not passed to another task of the same process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tests.jepsen.history import History, Op


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
