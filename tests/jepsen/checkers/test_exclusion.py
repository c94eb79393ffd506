"""By hand: mutual exclusion, read-write, semaphore capacity."""

from __future__ import annotations

import pytest

from tests.jepsen.checkers.written import (
    acquire,
    broken,
    check,
    fine,
    judge,
    nemesis,
    op,
    probe,
    release,
    told,
)
from tests.jepsen.history import Op

A, B = acquire("a", 0, 10, 100), acquire("b", 5, 50, 150)


def test_a_hold_after_another_is_fine() -> None:
    fine("mutual exclusion", A, release("a", 20, 60), B, release("b", 70, 80))


@pytest.mark.parametrize(
    "end",
    [told("a", 40), check("a", 40, out="fail"), release("a", 40, None), release("a", 40, 45)],
    ids=["told", "check failed", "release open", "released"],
)
def test_each_end_of_a_hold_counts(end: Op) -> None:
    fine("mutual exclusion", A, end, B)


def test_a_deadline_ends_a_hold() -> None:
    fine("mutual exclusion", acquire("a", 0, 10, 50), B)
    fine("mutual exclusion", A, op("extend", 30, 35, "a", deadline=45), B)
    fine("mutual exclusion", A, op("extend", 30, None, "a"), B)


def test_two_holders_at_once() -> None:
    rule, shown = broken("mutual exclusion", A, release("a", 60, 70), check("a", 20, 90), B)
    assert rule == "two holders of x at once"
    # The check shows nothing that the grant does not.
    assert [each.op for each in shown] == ["acquire", "acquire", "release"]


def test_a_check_that_shows_the_hold_stays_in_the_example() -> None:
    _, shown = broken("mutual exclusion", acquire("a", 0, 10, 20), check("a", 15, 90), B)
    assert "check" in [each.op for each in shown]


def test_a_longer_lease_counts() -> None:
    longer = op("extend", 12, 14, "a", deadline=80)
    broken("mutual exclusion", acquire("a", 0, 10, 20), longer, B)


def test_others_do_not_end_a_hold() -> None:
    others = told("c", 40), release("c", 40, 41), check("c", 40, out="fail")
    broken("mutual exclusion", A, *others, B)


def test_a_hold_that_is_passed_on_is_one_after_the_other() -> None:
    passed = acquire("b", 5, 30, 100, owner="a")
    fine(
        "mutual exclusion", A, release("a", 25, 31), passed, told("a", 60), acquire("c", 0, 61, 90)
    )
    broken("mutual exclusion", A, release("a", 35, 36), passed)


def test_a_killed_holder_keeps_its_hold_until_the_deadline() -> None:
    broken("mutual exclusion", A, nemesis("kill worker", "p-a", 20, 30), B)


def test_objects_are_apart_and_unknown_grants_no_holds() -> None:
    fine("mutual exclusion", A, acquire("b", 5, 50, 150, obj="y"))
    fine("mutual exclusion", A, acquire("b", 5, 50, 150, out="info"))
    fine("mutual exclusion", A, acquire("b", 5, None))


def test_a_broken_assumption_makes_it_a_figure() -> None:
    verdict = judge("mutual exclusion", A, B, broken=frozenset({"data"}))
    assert verdict.ok
    assert verdict.figures["overlaps"] == 1
    assert "excused" in " ".join(verdict.figures)


def test_readers_are_together() -> None:
    readers = [acquire(rid, 0, 10, 100, value="read") for rid in "abc"]
    verdict = fine("read-write", *readers, acquire("w", 0, 110, 200, value="write"))
    assert verdict.figures["readers together"] == 3


@pytest.mark.parametrize(
    ("modes", "rule"), [("rw", "a writer and a reader"), ("wr", "a writer and a reader"),
                        ("ww", "two writers")],
)  # fmt: skip
def test_a_writer_is_alone(modes: str, rule: str) -> None:
    names = {"r": "read", "w": "write"}
    first, second = (names[mode] for mode in modes)
    others = [acquire("c", 0, 1, 5, value="read")]
    found, shown = broken(
        "read-write",
        acquire("a", 0, 10, 100, value=first),
        acquire("b", 5, 50, 150, value=second),
        *others,
    )
    assert found == f"{rule} of x at once"
    assert [each.rid for each in shown] == ["a", "b"]


def test_a_writer_may_read() -> None:
    fine(
        "read-write",
        acquire("a", 0, 10, 100, value="write"),
        acquire("a2", 20, 30, 90, value="read", process="p-a"),
    )


def test_units_within_the_limit() -> None:
    ops = [acquire("a", 0, 10, 100, n=2), acquire("b", 5, 20, 90, n=1), release("a", 30, 40)]
    fine("semaphore capacity", *ops, acquire("c", 5, 50, 90, n=2), limits={"x": 3})


def test_too_many_units() -> None:
    ops = [acquire("a", 0, 10, 100, n=2), acquire("b", 5, 20, 90, n=1), release("a", 60, 65)]
    rule, shown = broken("semaphore capacity", *ops, acquire("c", 5, 50, 90, n=2), limits={"x": 3})
    assert rule == "more than 3 units of x are out"
    assert {each.rid for each in shown} == {"a", "c"}


def test_units_at_the_end() -> None:
    limits = {"x": 3}
    fine("semaphore capacity", probe("available", 500, quiet=True, n=3), limits=limits)
    # Before the end some may be out.
    fine("semaphore capacity", acquire("a", 0, 1, 9), probe("available", 5, n=2), limits=limits)
    for units, kind in ((2, "few"), (4, "many")):
        seen = probe("available", 500, quiet=True, n=units)
        rule, _ = broken("semaphore capacity", seen, limits=limits)
        assert rule == f"too {kind} units of x are available at the end"


def test_ids_of_permits_are_unique() -> None:
    ops = [acquire("a", 0, 10, 20, value="id1"), acquire("b", 30, 40, 50, value="id2")]
    fine("semaphore capacity", *ops, limits={"x": 2})
    ops.append(acquire("c", 60, 70, 80, value="id1"))
    rule, shown = broken("semaphore capacity", *ops, limits={"x": 2})
    assert rule == "one id for two permits of x"
    assert {each.rid for each in shown} == {"a", "c"}
