"""From what a checker finds to what it says: excuses, and the smallest counterexamples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import wraps

from tests.jepsen.checkers.shrinking import joined, sections, smallest
from tests.jepsen.checkers.verdict import (
    COUNTED,
    EXCUSED,
    Checker,
    Facts,
    Verdict,
    Violation,
)
from tests.jepsen.history import History, Op

#: How many rules a verdict shows as broken, with one example each; all violations are counted.
SHOWN = 10
#: How many uses of an object before a violation are looked at first for what explains it.
_RECENT = (8, 64, 1024)


def never(broken: frozenset[str]) -> bool:
    """Excuse nothing: the rule holds whatever a nemesis does."""
    return False


def judged(
    *, unless: Callable[[frozenset[str]], object] = bool, words: Sequence[str] = ()
) -> Callable[[Checker], Checker]:
    """Make a checker of a function that finds violations.

    Args:
        unless: Whether the rule need not hold, given the assumptions that a nemesis broke. What is
            found is a figure then, but for what was over before any was broken. As a rule: if any
            is broken.
        words: The operations that a counterexample needs; as a rule any may be needed.
    """

    def decorate(find: Checker) -> Checker:
        @wraps(find)
        def check(history: History, facts: Facts) -> Verdict:
            found = find(history, facts)
            if found.ok:
                return found
            wrong = [*found.violations]
            if unless(facts.broken):
                wrong = [each for each in wrong if _had_ended(each, facts.broken_since)]
                if not wrong:
                    return _excused(found)
            counted = Counter(violation.rule for violation in wrong)
            first = {each.rule: each for each in reversed(wrong)}
            chosen = [*first.values()][::-1][:SHOWN]
            shown = [_shrunk(each, find, history, facts, words) for each in chosen]
            return Verdict(shown, found.looked_at, found.figures | {COUNTED: dict(counted)})

        return check

    return decorate


def _had_ended(violation: Violation, moment: int) -> bool:
    """Return whether all that shows a violation had ended before a moment."""
    return bool(violation.ops) and max(op.end for op in violation.ops) < moment


def _excused(found: Verdict) -> Verdict:
    counted = Counter(violation.rule for violation in found.violations)
    return Verdict([], found.looked_at, found.figures | {EXCUSED: dict(counted)})


def _shrunk(
    violation: Violation, find: Checker, history: History, facts: Facts, words: Sequence[str]
) -> Violation:
    if violation.exact:
        return violation

    def breaks(ops: Sequence[Op]) -> bool:
        return any(
            each.rule == violation.rule for each in find(History(list(ops)), facts).violations
        )

    for candidate in _candidates(violation, history, words):
        if breaks(candidate):
            return replace(violation, ops=smallest(candidate, breaks))
    return violation


def _candidates(violation: Violation, history: History, words: Sequence[str]) -> Iterator[list[Op]]:
    """Yield ever larger parts of a history that may explain a violation."""
    yield list(violation.ops)
    objects = {op.obj for op in violation.ops}
    known = history.of(*words) if words else history.ops
    until = max(op.end for op in violation.ops)
    ops = [op for op in known if op.obj in objects and op.t0 <= until]
    units = sections(ops)
    for recent in _RECENT:
        if recent < len(units):
            yield joined(units[-recent:])
    yield ops
