"""Re-entry: each entry counts one, each exit one less, and the last one gives it back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.jepsen.checkers.holds import by_use, losses
from tests.jepsen.checkers.judging import judged
from tests.jepsen.checkers.verdict import Facts, Verdict, Violation
from tests.jepsen.history import History, Op

_STEP = {"acquire": 1, "reenter": 1, "leave": -1, "release": -1}


@judged()
def hold_count(history: History, facts: Facts) -> Verdict:
    """What a holder expects, and what the server says if asked, is what a model counts.

    From an operation of which nobody knows whether it happened, the model follows both ways. A
    hold is followed until its loss is told.
    """
    found: list[Violation] = []
    looked_at = 0
    told = losses(history)
    for (obj, _), ops in by_use(history, *_STEP, "check", "extend").items():
        owner = next((op.owner for op in ops if op.op == "acquire"), "")
        lost = min((op.t0 for op in told.get((obj, owner), ())), default=None)
        steps = [op for op in ops if op.op in _STEP]
        looked_at += len(steps)
        failed = [op.t0 for op in ops if op.op in ("check", "extend") and op.out == "fail"]
        stop = min([*failed, *([] if lost is None else [lost])], default=None)
        for op, wrong in _wrong(steps, stop):
            shown = tuple(each for each in steps if each.t0 <= op.t0)
            found.append(Violation(f"{wrong} of {obj}", shown, exact=True))
    return Verdict(found, looked_at)


def _wrong(steps: Sequence[Op], stop: int | None) -> Iterator[tuple[Op, str]]:
    """Yield the first step that the model does not allow, and what is wrong with it."""
    possible = {0}
    for op in steps:
        if stop is not None and op.end >= stop:
            return
        step = _STEP[op.op]
        if op.out == "fail":
            continue
        moved = {count + step for count in possible if count + step >= 0}
        possible = moved if op.out == "ok" else possible | moved
        if not possible:
            yield op, "a release without a hold"
            return
        for said, wrong in ((op.n, "the hold count"), (op.value, "the hold count in the server")):
            # The value of an acquire may be a mode or an id.
            if op.out != "ok" or not isinstance(said, int):
                continue
            if said not in possible:
                yield op, f"{wrong} is not that of the model:"
                return
            possible = {said}
