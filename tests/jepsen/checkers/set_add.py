"""Elements added to a set under a lock: each that was acknowledged is there, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tests.jepsen.checkers.holds import disturbed
from tests.jepsen.checkers.judging import judged, never
from tests.jepsen.checkers.verdict import Facts, Verdict, Violation
from tests.jepsen.history import History, Op


@judged(unless=never)
def set_add(history: History, facts: Facts) -> Verdict:
    """The last read has every element whose `add` had ended well before it, and none twice.

    Nor one whose `add` was refused, or that nobody added. With tokens this holds whatever happens.
    Without, it holds as long as no hold of the object is lost; what is lost after that is a figure.
    """
    found: list[Violation] = []
    looked_at = lost = 0
    unsafe = disturbed(history)
    read = {op.obj: op for op in history.of("read") if isinstance(op.value, list)}
    added = history.by_object("add")
    for obj, last in read.items():
        adds = added.get(obj, [])
        looked_at += len(adds)
        wrong = list(_wrong(obj, adds, last))
        if obj not in unsafe or any(op.fence for op in adds):
            found += wrong
        else:
            lost += len(wrong)
    return Verdict(found, looked_at, {"lost without tokens": lost})


def _wrong(obj: str, adds: Sequence[Op], last: Op) -> Iterator[Violation]:
    there = Counter(last.value)
    possible: set[object] = set()
    for op in adds:
        if op.out != "fail":
            possible.add(op.value)
        if op.out == "ok" and op.end < last.t0 and op.value not in there:
            yield Violation(f"an acknowledged element of {obj} is lost", (op, last), True)
        if op.out == "ok" and there[op.value] > 1:
            yield Violation(f"an element of {obj} is there twice", (op, last), True)
        if op.out == "fail" and op.value in there:
            yield Violation(f"a refused element of {obj} is there", (op, last), True)
    if there.keys() - {op.value for op in adds}:
        yield Violation(f"an element of {obj} is there that nobody added", (last,), True)
