"""What others see of the leader of an election."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tests.jepsen.checkers.holds import holds
from tests.jepsen.checkers.judging import judged
from tests.jepsen.checkers.verdict import Facts, Verdict, Violation
from tests.jepsen.history import History, Op

Term = tuple[str, int]
"""An election, and the token of one of its leaders."""


def value_of(rid: str, number: int) -> str:
    """Return what a leader publishes: first number 0, with its campaign."""
    return f"{rid}#{number}"


@judged()
def leaders(history: History, facts: Facts) -> Verdict:
    """A look shows the leader, and what that has published last; an observer sees no step back.

    Of a look (`leader()`): it shows no older term than another look, or a grant, that had returned
    before it began. While a task certainly leads, it shows its term. The value is the last that the
    leader had published by then, or one that it was publishing. What an observer sees in turn
    (`seen`) is newer each time. A term of which no worker knows has no value to compare with.
    """
    written = _written(history)
    looks = [op for op in history.of("look") if op.out == "ok"]
    seen = history.of("seen")
    found = [*_older_terms(history, looks), *_not_leading(history, looks)]
    for op in looks:
        writes = written.get((op.obj, op.fence or 0))
        if writes and op.value not in {each.value for each in _possible(writes, op)}:
            shown = (*writes, op)
            found.append(Violation(f"a look saw what no leader of {op.obj} said then", shown))
    found += _steps_back(seen, written)
    terms = {(op.obj, op.fence) for op in (*looks, *seen) if op.fence}
    return Verdict(found, len(looks) + len(seen), {"terms that were seen": len(terms)})


def _written(history: History) -> dict[Term, list[Op]]:
    """Return what each leader published, in order, as far as it is known from its grant on."""
    written: dict[Term, list[Op]] = {}
    for op in history.of("acquire"):
        if op.out == "ok" and op.fence:
            written[op.obj, op.fence] = [replace(op, value=value_of(op.rid, 0))]
    for op in history.of("proclaim"):
        if op.out != "fail" and (writes := written.get((op.obj, op.fence or 0))) is not None:
            writes.append(op)
    return written


def _possible(writes: Sequence[Op], look: Op) -> Iterator[Op]:
    """Yield the last of what was certainly published before a look, and what may have been since.

    A leader publishes one value after the other; one that failed may come late, but never after a
    later one.
    """
    last = 0
    for index, op in enumerate(writes):
        if op.out == "ok" and op.end < look.t0:
            last = index
    yield from (op for op in writes[last:] if op.t0 <= look.end)


def _older_terms(history: History, looks: Sequence[Op]) -> Iterator[Violation]:
    known = [op for op in history.of("acquire") if op.out == "ok" and op.fence]
    by_object: defaultdict[str, list[Op]] = defaultdict(list)
    for op in sorted([*known, *[op for op in looks if op.fence]], key=lambda op: op.end):
        by_object[op.obj].append(op)
    for obj, ended in by_object.items():
        index, newest = 0, 0
        shown: Op | None = None
        for look in [op for op in looks if op.obj == obj]:
            while index < len(ended) and ended[index].end < look.t0:
                if (ended[index].fence or 0) > newest:
                    shown, newest = ended[index], ended[index].fence or 0
                index += 1
            if shown is not None and look.fence and look.fence < newest:
                yield Violation(f"a look at {obj} saw an older term", (shown, look))


def _not_leading(history: History, looks: Sequence[Op]) -> Iterator[Violation]:
    held = holds(history)
    for look in looks:
        for hold in held.get(look.obj, ()):
            inside = hold.start <= look.t0 and look.end <= hold.end
            if inside and hold.grant.fence and look.fence != hold.grant.fence:
                rule = f"a look at {look.obj} did not show its leader"
                yield Violation(rule, (*hold.shown, look))


def _steps_back(seen: Sequence[Op], written: Mapping[Term, Sequence[Op]]) -> Iterator[Violation]:
    """Find what an observer saw after something newer."""
    newest: dict[tuple[str, str], tuple[int, int, Op]] = {}
    for op in seen:
        if not op.fence:
            continue
        values = [each.value for each in written.get((op.obj, op.fence), ())]
        number = values.index(op.value) if op.value in values else -1
        before = newest.get((op.obj, op.rid))
        if before is not None:
            fence, last, other = before
            if op.fence < fence or (op.fence == fence and -1 < number < last):
                yield Violation(f"an observer of {op.obj} saw a step back", (other, op))
        newest[op.obj, op.rid] = (op.fence, number, op)
