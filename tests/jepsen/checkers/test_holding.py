"""By hand: good and bad histories of what is held: who, how often, with which token, how long."""

from __future__ import annotations

from typing import Any

import pytest

from tests.jepsen.checkers.verdict import EXCUSED
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
    reported,
)
from tests.jepsen.history import Op

MS = 1_000_000
A, B = acquire("a", 0, 10, 100), acquire("b", 5, 50, 150)


@pytest.mark.parametrize(
    "end",
    [
        reported("a", 40),
        check("a", 40, out="fail"),
        release("a", 40, None),
        op("extend", 30, 35, "a", deadline=45),
        op("extend", 30, None, "a"),
        op("force", 40, 45),
    ],
    ids=["told", "check failed", "release open", "shorter", "perhaps shorter", "forced"],
)
def test_each_end_of_a_hold_counts(end: Op) -> None:
    fine("mutual exclusion", A, end, B)
    fine("linearizability", A, end, acquire("b", 5, 110, 150))


def test_two_holders_at_once() -> None:
    rule = "two holders of x at once"
    shown = broken("mutual exclusion", rule, A, release("a", 60, 70), check("a", 20, 90), B)
    # The check shows nothing that the grant does not.
    assert [each.op for each in shown] == ["acquire", "acquire", "release"]
    shown = broken("mutual exclusion", rule, acquire("a", 0, 10, 20), check("a", 15, 90), B)
    assert "check" in [each.op for each in shown]
    broken(
        "mutual exclusion", rule, acquire("a", 0, 10, 20), op("extend", 12, 14, "a", deadline=80), B
    )
    # What others do ends no hold, nor does a SIGKILL before its deadline.
    broken("mutual exclusion", rule, A, reported("c", 40), release("c", 40, 41), B)
    broken("mutual exclusion", rule, A, nemesis("kill worker", "p-a", 20, 30), B)
    broken("mutual exclusion", rule, A, op("force", 50, 60), acquire("b", 5, 45, 170))
    passed = acquire("b", 5, 30, 100, owner="a")
    broken("mutual exclusion", rule, A, release("a", 35, 36), passed)
    fine("mutual exclusion", A, release("a", 25, 31), passed, acquire("c", 0, 101, 190))
    # Objects are apart, and nobody knows what was granted.
    fine("mutual exclusion", A, acquire("b", 5, 50, 150, obj="y"), acquire("c", 5, 50, out="info"))


def test_a_broken_assumption_makes_a_figure_of_it() -> None:
    verdict = judge("mutual exclusion", A, B, broken=frozenset({"data"}))
    assert verdict.ok
    assert verdict.figures["overlaps"] == 1
    assert verdict.figures[EXCUSED] == {"two holders of x at once": 1}


def test_grants_that_no_replica_confirmed() -> None:
    frozen, settings = op("frozen", 20, 200), {"confirmed": True}
    rule = "a grant of x was not confirmed"
    broken("mutual exclusion", rule, acquire("b", 30, 40, 90), frozen, settings=settings)
    fine("mutual exclusion", acquire("b", 10, 40, 90), frozen, settings=settings)


def mode(rid: str, t0: int, t1: int, value: str, **facts: Any) -> Op:
    return acquire(rid, t0, t1, 100, value=value, **facts)


@pytest.mark.parametrize(
    ("first", "second", "rule"),
    [
        ("read", "write", "a writer and a reader of x at once"),
        ("write", "read", "a writer and a reader of x at once"),
        ("write", "write", "two writers of x at once"),
    ],
)
def test_a_writer_is_alone(first: str, second: str, rule: str) -> None:
    readers = [mode(rid, 0, 10, "read") for rid in "cd"]
    ops = [mode("a", 20, 30, first), mode("b", 25, 40, second), release("a", 50, 60)]
    ended = [release(each.rid, 15, 16) for each in readers]
    shown = broken("read-write", rule, *readers, *ended, *ops)
    assert {each.rid for each in shown} == {"a", "b"}
    broken("linearizability", "x is not linearizable", *readers, *ended, *ops)
    verdict = fine(
        "read-write", *readers, *ended, ops[0], mode("a2", 35, 40, "read", process="p-a")
    )
    assert verdict.figures["readers together"] == 1


def test_units_are_counted() -> None:
    ops = [acquire("a", 0, 10, 100, n=2), acquire("b", 5, 20, 90), acquire("c", 5, 50, 90, n=2)]
    in_time, late = release("a", 30, 40), release("a", 60, 65)
    for name in ("semaphore capacity", "linearizability"):
        fine(name, *ops, in_time, limits={"x": 3})
        fine(name, *ops, late, limits={"x": 5})
    shown = broken(
        "semaphore capacity", "more than 3 units of x are out", *ops, late, limits={"x": 3}
    )
    assert {each.rid for each in shown} == {"a", "c"}
    broken("linearizability", "x is not linearizable", *ops, late, limits={"x": 3})
    for left, rule in ((2, "too few"), (4, "too many")):
        rule = f"{rule} units of x are available at the end"
        seen = probe("available", 500, quiet=True, n=left)
        broken("semaphore capacity", rule, seen, limits={"x": 3})
    # Before the end some may be out.
    fine("semaphore capacity", ops[1], probe("available", 5, n=2), limits={"x": 3})
    ids = [acquire(rid, 10 * n, 10 * n + 1, 0, value=f"id{n % 2}") for n, rid in enumerate("abc")]
    broken("semaphore capacity", "one id for two permits of x", *ids, limits={"x": 3})


#: Three grants, one after the other.
GRANTS = [
    acquire("a", 0, 10, fence=5),
    acquire("b", 20, 30, fence=7),
    acquire("c", 25, 40, fence=8),
]


def test_tokens_are_unique_and_grow() -> None:
    fine("fencing", *GRANTS, op("reenter", 12, 14, "a", fence=5))
    # Those that overlap may have any order.
    fine("fencing", acquire("a", 0, 10, fence=7), acquire("b", 5, 30, fence=5))
    twice = acquire("d", 35, 60, fence=7)
    shown = broken("fencing", "one token for two grants of x", *GRANTS, twice)
    assert {each.rid for each in shown} == {"b", "d"}
    rule, smaller = "a later grant of x has a smaller token", acquire("d", 41, 60, fence=6)
    assert {each.rid for each in broken("fencing", rule, *GRANTS, smaller)} == {"c", "d"}
    another = op("reenter", 12, 14, "a", fence=6)
    broken("fencing", "another token of x on re-entry", *GRANTS, another)
    none = acquire("a", 0, 10, obj="fenced-1")
    broken("fencing", "a grant of fenced-1 has no token", *GRANTS, none)
    # They may go back if the counter is lost and the clock was set back, and never else.
    for assumptions in ({"data"}, {"keys"}, {"clocks"}, {"clocks", "data"}):
        verdict = judge("fencing", *GRANTS, smaller, broken=frozenset(assumptions))
        assert verdict.ok is (len(assumptions) == 2)
    # A hold that Redis lost may still be passed on, with a token of when it was granted.
    passed = acquire("d", 41, 60, fence=6, owner="b")
    for assumption, fine_then in (("data", True), ("keys", True), ("clocks", False)):
        verdict = judge("fencing", *GRANTS, passed, broken=frozenset({assumption}))
        assert verdict.ok is fine_then
    assert not judge("fencing", *GRANTS, passed).ok
    late = acquire("d", 41, 60, fence=4, owner="b")
    assert not judge("fencing", *GRANTS, late, broken=frozenset({"data"})).ok


def test_a_hold_is_adopted_once_and_with_its_token() -> None:
    giver, adopter = acquire("a", 0, 10, fence=5), acquire("b", 20, 30, fence=5, value="a")
    again = acquire("c", 40, 50, fence=5, value="b")
    for checker in ("adoption", "fencing"):
        fine(checker, giver, adopter, again, acquire("d", 60, 70, fence=6))
    other = acquire("c", 15, 50, fence=5, value="a")
    shown = broken("adoption", "two have adopted one hold of x", giver, adopter, other)
    assert {each.rid for each in shown} == {"b", "c"}
    refused = acquire("c", 15, 50, fence=None, value="a", out="fail")
    fine("adoption", giver, adopter, refused)
    rule = "an adopter of x has another token than its giver"
    broken("adoption", rule, giver, acquire("b", 20, 30, fence=6, value="a"))
    # It was passed to a task that had asked before, which gave it away with its own token.
    passed = acquire("p", 0, 18, fence=6, owner="a")
    fine("adoption", passed, giver, acquire("b", 20, 30, fence=6, value="a"))
    broken("adoption", rule, passed, giver, adopter)
    # Somebody who came in between has a greater token.
    between = acquire("d", 12, 15, fence=6)
    broken("fencing", "a later grant of x has a smaller token", giver, between, adopter)


def step(word: str, moment: int, rid: str, **facts: Any) -> Op:
    """Return a step that the resource saw."""
    return op(word, moment, moment, rid, process="resource", **facts)


def section(rid: str, moment: int, token: int, value: int, **facts: Any) -> list[Op]:
    """Return a section that asks, reads and writes at three moments."""
    return [
        step("ask", moment, rid),
        step("begin", moment + 1, rid, owner=rid, fence=token),
        step("write", facts.pop("wrote", moment + 2), rid, fence=token, value=value, **facts),
    ]


def test_the_referee() -> None:
    before = [step for n in range(20) for step in section(f"z{n}", 4 * n, n + 1, n + 1)]
    fine("referee", *before, *section("a", 100, 21, 21))
    # A round may begin with what the last one wrote.
    fine("referee", *section("b", 10, 2, 2), *section("c", 20, 3, 3))
    late = [*section("a", 0, 1, 2, wrote=15), *section("b", 0, 2, 1)]
    found = judge("referee", *late)
    assert "smaller token accepted: x" in {each.rule for each in found.violations}
    behind = section("b", 10, 2, 2, out="fail")
    broken("referee", "tokens not in order: x", *before, *section("a", 100, 30, 21), *behind)
    newer = section("b", 110, 22, 22)[:2]
    shown = broken(
        "referee", "overtaken: x", *before, *section("a", 100, 21, 21, wrote=115), *newer
    )
    assert {each.rid for each in shown} == {"a", "b"}
    shown = broken("referee", "lost update: x", *before, *section("c", 100, 21, 20))
    assert {each.rid for each in shown} == {"z19", "c"}


def test_a_resource_without_tokens_is_safe_until_a_hold_is_lost() -> None:
    ops = [*section("a", 0, 0, 1), *section("b", 10, 0, 1)]
    holds = [acquire("a", 0, 1, 50), release("a", 3, 4), acquire("b", 5, 6, 50), release("b", 9, 9)]
    broken("referee", "lost update: x", *ops, *holds)
    for lost in (reported("b", 30), check("b", 30, out="fail"), acquire("c", 0, 60, 70)):
        verdict = fine("referee", *ops, *holds, lost)
        assert verdict.figures[EXCUSED] == {"lost update": 1}


def test_the_window_is_from_the_newer_beginning_to_the_older_write() -> None:
    lost = reported("old", 0)
    old = section("old", 0, 0, 1, wrote=90 * MS)
    newer = section("new", 20 * MS, 0, 2)
    window = fine("referee", lost, *old, *newer).figures
    assert (window["windows"], window["longest window"]) == (1, "70.00 ms")
    # Asked for before the old one had begun: nobody knows which is newer.
    beside = section("new", 20 * MS, 0, 2)
    beside[0] = step("ask", 0, "new")
    assert fine("referee", lost, *old, *beside).figures["windows"] == 0


def test_a_resource_that_accepts_what_it_must_refuse() -> None:
    steps = [*section("b", 0, 7, 1), step("begin", 2, "a", fence=5)]
    fine("linearizability", *steps, step("write", 3, "a", fence=5, value=1, out="fail"))
    rule = "the resource x is no fenced register"
    broken("linearizability", rule, *steps, step("write", 3, "a", fence=5, value=1))


#: Entered twice, left twice; the server was asked now and then.
ENTRIES = [
    acquire("a", 0, 1, 50, n=1),
    op("reenter", 2, 3, "a", n=2, value=2),
    op("leave", 4, 5, "a", n=1),
    release("a", 6, 7, n=0, value=0),
]


def test_entries_are_counted() -> None:
    fine("hold count", *ENTRIES)
    wrong, in_server = (
        f"the hold count{where} is not that of the model: of x" for where in ("", " in the server")
    )
    broken("hold count", wrong, ENTRIES[0], op("reenter", 2, 3, "a", n=3))
    broken("hold count", in_server, ENTRIES[0], op("reenter", 2, 3, "a", n=2, value=1))
    broken("hold count", wrong, *ENTRIES[:2], op("leave", 4, 5, "a", n=2))
    broken("hold count", in_server, *ENTRIES[:3], release("a", 6, 7, value=1))
    broken("hold count", "a release without a hold of x", *ENTRIES, op("leave", 8, 9, "a"))
    unsure = op("reenter", 2, 3, "a", out="info")
    for count in (0, 1):
        fine("hold count", ENTRIES[0], unsure, op("leave", 4, 5, "a", n=count))
    broken("hold count", wrong, ENTRIES[0], unsure, op("leave", 4, 5, "a", n=2))
    # Nothing counts after a loss.
    for lost in (reported("a", 4), check("a", 4, out="fail")):
        fine("hold count", *ENTRIES[:2], lost, op("leave", 5, 6, "a", n=7))


LATER = acquire("b", 5, 120, 220)


def awake(t0: int, t1: int, process: str = "p-a", **facts: Any) -> Op:
    """Return what a process asked and was answered, by default that of the first holder."""
    return op("acquire", t0, t1, f"q{t0}", obj="other", process=process, **facts)


def test_a_loss_is_known_before_the_next_grant() -> None:
    verdict = fine("loss detection", A, check("a", 90, 95), reported("a", 100), LATER)
    assert verdict.figures["losses told"] == 1
    late = reported("a", 150)
    rule = "a loss of x was told after the next grant"
    broken("loss detection", rule, A, LATER, awake(130, 140), late)
    # A process that did not run cannot tell; nor does it run when it gives back what is lost too.
    lost = release("q", 130, 140, obj="other", process="p-a", out="info")
    for ran in (awake(110, 140), awake(130, 160), awake(130, 140, "p-z"), lost):
        verdict = fine("loss detection", A, LATER, ran, late)
        assert verdict.figures["after the next grant, by a process that did not run"] == 1
    # An exit under way may hear of it last; a release that learns of it did not rely on it.
    fine(
        "loss detection", A, LATER, reported("a", 90), awake(130, 140), reported("a", 150, "taken")
    )
    gone = release("a", 90, 160, out="info")
    assert judge("loss detection", A, gone, LATER, awake(130, 140), late).ok


def test_no_check_succeeds_after_a_loss() -> None:
    rule = "a check of x succeeded after the next grant"
    shown = broken("loss detection", rule, A, check("a", 50, 99), check("a", 130, 180), LATER)
    assert [each.t0 for each in shown if each.op == "check"] == [130]
    rule = "a check of x succeeded after its loss was told"
    broken("loss detection", rule, A, reported("a", 50), check("a", 60, 99))
    # One lease of a task that entered twice may end before the other.
    fine("loss detection", A, reported("a", 50, "ended"), check("a", 60, 99), check("a", 40, 90))
    after_end = check("a", 110, value="over")
    rule = "a check of x succeeded after its lease was over"
    broken("loss detection", rule, A, after_end, check("a", 112))
    fine("loss detection", A, after_end, check("a", 112, out="fail"))
    rule = "a lease of x was over when it was granted"
    broken("loss detection", rule, A, op("late", 8, 12, "a", deadline=8), LATER)
    fine("loss detection", A, check("a", 11, 100), op("late", 7, 12, "a", deadline=8), LATER)
    # Semaphores do not exclude.
    permits = [A, check("a", 60, 99), acquire("b", 0, 50, 100)]
    assert judge("loss detection", *permits, limits={"x": 2}).ok
    assert not judge("loss detection", *permits).ok


HELD = acquire("a", 0, MS, 100 * MS)


def seen(moment: int, left: int, owner: str = "a") -> Op:
    """Return what the probe saw of the lease, with the moment in milliseconds."""
    return probe("lease", moment * MS, owner=owner, n=left)


def test_a_lease_ends_in_the_server_after_its_deadline() -> None:
    verdict = fine("loss detection", HELD, seen(20, 85))
    assert verdict.figures["least rest in the server"] == "5.0 ms"
    # What is learned later does not count, nor what was released.
    fine("loss detection", HELD, seen(20, 85), check("a", 30 * MS, 150 * MS))
    fine("loss detection", HELD, op("extend", 2 * MS, 3 * MS, "a", deadline=50 * MS), seen(4, 47))
    assert judge("loss detection", HELD, release("a", 30 * MS, 31 * MS), seen(40, -2)).ok
    rule = "a lease of x ends in the server before its holder's deadline"
    broken("loss detection", rule, HELD, seen(20, 78))
    broken("loss detection", rule, HELD, check("a", 10 * MS, 120 * MS), seen(20, 85))
    for look in (seen(20, -2), seen(20, 500, "b")):
        broken("loss detection", "a lease of x is not in the server", HELD, look)


def test_leases_that_nobody_asked_for() -> None:
    rule = "a lease of x is longer than anybody asked for"
    broken("loss detection", rule, A, seen(50, 1001), longest_lease=1.0)
    taken = [A, acquire("b", 20, 100 * MS), op("force", 15, 18)]
    rule = "a lease of x was renewed after the next grant"
    broken("loss detection", rule, *taken, check("a", 400 * MS, 1200 * MS), longest_lease=1.0)
    assert judge("loss detection", *taken, check("a", 99, 1100 * MS), longest_lease=1.0).ok


def test_an_order_of_all_calls() -> None:
    others = [
        each
        for n in range(-800, -600, 10)
        for each in (acquire(f"o{n}", n, n + 5), release(f"o{n}", n + 6, n + 8))
    ]
    fine("linearizability", *others, A, release("a", 20, 60), B, acquire("c", 5, None))
    rule = "x is not linearizable"
    shown = broken("linearizability", rule, *others, A, B, release("a", 60, 70))
    assert {each.rid for each in shown} == {"a", "b"}
    inner = [op("reenter", 12, 14, "a"), op("leave", 15, 16, "a")]
    fine("linearizability", A, *inner, release("a", 20, 30), B)
    fine("linearizability", A, inner[0], reported("a", 20), B)
    broken("linearizability", rule, A, inner[0], release("a", 20, 30), B)
