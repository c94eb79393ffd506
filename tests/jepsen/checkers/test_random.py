"""Histories of perfect objects break no rule; each fault that is put into one is found."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.jepsen.checkers import CHECKERS, simulated
from tests.jepsen.checkers import corruptions as put_in
from tests.jepsen.checkers.corruptions import Corruption
from tests.jepsen.checkers.shrinking import joined, sections
from tests.jepsen.checkers.verdict import Facts
from tests.jepsen.history import History

SEEDS = 60
FACTS = Facts(limits={"s": 5}, parties={"b": 6}, wake_bound=2.0)

#: Each perfect object, and the checkers for it.
PERFECT: dict[str, tuple[Callable[[int], History], tuple[str, ...]]] = {
    "lock": (simulated.lock, ("mutual exclusion", "fencing", "referee", "no lost wake-up",
                              "loss detection", "no deadlock", "linearizability")),
    "re-entrant lock": (lambda seed: simulated.lock(seed, depth=3),
                        ("mutual exclusion", "fencing", "hold count", "linearizability")),
    "semaphore": (simulated.semaphore, ("semaphore capacity", "linearizability")),
    "read-write lock": (simulated.read_write, ("read-write", "linearizability")),
    "fair lock": (simulated.fair, ("fifo", "mutual exclusion", "no lost wake-up")),
    "latch": (simulated.latches, ("latch",)),
    "barrier": (simulated.barriers, ("barrier",)),
    "set": (simulated.set_adds, ("set add",)),
    "register": (simulated.register, ("linearizability",)),
}  # fmt: skip

#: What is put into which history, the checker that finds it, and how many operations show it.
FAULTS: list[tuple[Corruption, str, str, int]] = [
    (put_in.second_holder, "lock", "mutual exclusion", 5),
    (put_in.second_holder, "re-entrant lock", "linearizability", 16),
    (put_in.second_holder, "lock", "linearizability", 16),
    (put_in.token_twice, "lock", "fencing", 2),
    (put_in.token_too_small, "lock", "fencing", 2),
    (put_in.token_changed_on_re_entry, "re-entrant lock", "fencing", 2),
    (put_in.write_counted_twice, "lock", "referee", 6),
    (put_in.late_write_accepted, "lock", "referee", 6),
    (put_in.late_write_accepted, "lock", "linearizability", 2),
    (put_in.entry_not_counted, "re-entrant lock", "hold count", 3),
    (put_in.check_too_long, "lock", "loss detection", 16),
    (put_in.lease_too_short, "lock", "loss detection", 16),
    (put_in.all_units_again, "semaphore", "semaphore capacity", 4),
    (put_in.all_units_again, "semaphore", "linearizability", 4),
    (put_in.unit_gone_at_the_end, "semaphore", "semaphore capacity", 1),
    (put_in.second_writer, "read-write lock", "read-write", 3),
    (put_in.reader_beside_a_writer, "read-write lock", "read-write", 3),
    (put_in.second_writer, "read-write lock", "linearizability", 16),
    (put_in.reader_beside_a_writer, "read-write lock", "linearizability", 16),
    (put_in.queue_jumped, "fair lock", "fifo", 4),
    (put_in.opened_early, "latch", "latch", 4),
    (put_in.never_opened, "latch", "latch", 4),
    (put_in.released_early, "barrier", "barrier", 5),
    (put_in.element_lost, "set", "set add", 2),
    (put_in.element_twice, "set", "set add", 2),
    (put_in.stale_read, "register", "linearizability", 5),
]


@pytest.mark.parametrize("kind", PERFECT)
def test_a_perfect_history_breaks_no_rule(kind: str) -> None:
    make, checkers = PERFECT[kind]
    for seed in range(SEEDS):
        for name in checkers:
            verdict = CHECKERS[name](make(seed), FACTS)
            assert verdict.ok, (seed, name, verdict.violations)
            assert verdict.looked_at > 0, name


@pytest.mark.parametrize(
    ("corruption", "kind", "checker", "most"),
    FAULTS,
    ids=[f"{each[0].__name__}-{each[1]}-{each[2]}".replace(" ", "-") for each in FAULTS],
)
def test_each_fault_is_found(corruption: Any, kind: str, checker: str, most: int) -> None:
    look = CHECKERS[checker]
    for seed in range(SEEDS):
        history = corruption(random.Random(seed), PERFECT[kind][0](seed))
        verdict = look(history, FACTS)
        assert not verdict.ok, seed
        for violation in verdict.violations:
            assert len(violation.ops) <= most, (seed, violation)

            def broken(ops: Any, rule: str = violation.rule) -> bool:
                found = look(History(list(ops)), FACTS).violations
                return rule in {each.rule for each in found}

            assert broken(violation.ops), (seed, violation)
            units = sections(violation.ops)
            for unit in () if violation.exact or len(units) == 1 else units:
                rest = [each for each in units if each is not unit]
                assert not broken(joined(rest)), (seed, violation)
