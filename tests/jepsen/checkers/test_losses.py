"""By hand: loss detection, leaks, sets under a lock, what never ends, what was not expected."""

from __future__ import annotations

from typing import Any

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
)  # fmt: skip
from tests.jepsen.history import Op

MS = 1_000_000
A, B = acquire("a", 0, 10, 100), acquire("b", 5, 120, 220)


def test_a_loss_that_is_known_in_time() -> None:
    verdict = fine("loss detection", A, check("a", 90, 95), told("a", 100), B)
    assert verdict.figures["losses told"] == 1
    assert verdict.figures["least margin before the next grant"] == "0.0 ms"


def test_a_check_that_succeeds_after_the_next_grant() -> None:
    rule, shown = broken("loss detection", A, check("a", 50, 99), check("a", 130, 180), B)
    assert rule == "a check of x succeeded after the next grant"
    assert [each.t0 for each in shown if each.op == "check"] == [130]


def test_a_check_that_succeeds_after_the_loss_was_told() -> None:
    rule, _ = broken("loss detection", A, told("a", 50), check("a", 60, 99))
    assert rule == "a check of x succeeded after its loss was told"
    # One lease of a task that entered twice may end before the other.
    fine("loss detection", A, told("a", 50, "ended"), check("a", 60, 99), check("a", 40, 90))


def test_a_lease_that_was_over_when_it_was_granted() -> None:
    rule, shown = broken("loss detection", A, op("late", 8, 12, "a", deadline=8), B)
    assert rule == "a lease of x was over when it was granted"
    assert [each.op for each in shown] == ["acquire", "late"]
    # What was given in time, and looked at late, is fine.
    fine("loss detection", A, check("a", 11, 100), op("late", 7, 12, "a", deadline=8), B)


def awake(t0: int, t1: int, process: str = "p-a") -> Op:
    """Return what the process of the first holder asked and was answered."""
    return op("acquire", t0, t1, f"q{t0}", obj="other", process=process)


def test_a_loss_that_is_told_late() -> None:
    rule, shown = broken("loss detection", A, B, awake(130, 140), told("a", 150))
    assert rule == "a loss of x was told after the next grant"
    assert {each.rid for each in shown} >= {"a", "b"}


@pytest.mark.parametrize("ran", [(110, 140), (130, 160), (160, 170)])
def test_a_process_that_did_not_run_cannot_tell(ran: tuple[int, int]) -> None:
    verdict = fine("loss detection", A, B, check("a", 20, 100), awake(*ran), told("a", 150))
    assert verdict.figures["after the next grant, by a process that did not run"] == 1
    fine("loss detection", A, B, awake(130, 140, "p-z"), told("a", 150))
    # It gave back another lease that was lost too, and asked nobody.
    lost = release("q", 130, 140, obj="other", process="p-a", out="info")
    fine("loss detection", A, B, lost, told("a", 150))


def test_an_exit_under_way_may_hear_of_the_loss_last() -> None:
    fine("loss detection", A, B, told("a", 90), awake(130, 140), told("a", 150, "taken"))


def test_a_release_that_learns_of_the_loss_did_not_rely_on_it() -> None:
    ops = A, release("a", 90, 160, out="info"), B, awake(130, 140), told("a", 150)
    assert judge("loss detection", *ops).figures["losses told"] == 0


def seen(moment: int, left: int, owner: str = "a") -> Op:
    """Return what the probe saw of the lease."""
    return probe("lease", moment, owner=owner, n=left)


HELD = acquire("a", 0, MS, 100 * MS)


def test_a_lease_that_ends_after_the_deadline() -> None:
    verdict = fine("loss detection", HELD, seen(20 * MS, 85))
    assert verdict.figures["least rest in the server"] == "5.0 ms"
    # Milliseconds are whole ones.
    fine("loss detection", HELD, seen(20 * MS, 79))
    # After the end, or what is learned later, does not count.
    assert judge("loss detection", HELD, seen(200 * MS, -2)).ok
    assert judge("loss detection", HELD, release("a", 30 * MS, 31 * MS), seen(40 * MS, -2)).ok
    fine("loss detection", HELD, seen(20 * MS, 85), check("a", 30 * MS, 150 * MS))
    fine(
        "loss detection",
        HELD,
        op("extend", 2 * MS, 3 * MS, "a", deadline=50 * MS),
        seen(4 * MS, 47),
    )


def test_a_lease_that_ends_too_soon_in_the_server() -> None:
    rule, _ = broken("loss detection", HELD, seen(20 * MS, 78))
    assert rule == "a lease of x ends in the server before its holder's deadline"
    broken("loss detection", HELD, check("a", 10 * MS, 120 * MS), seen(20 * MS, 85))


@pytest.mark.parametrize("look", [seen(20 * MS, -2), seen(20 * MS, 500, "b")])
def test_a_lease_that_is_not_there(look: Op) -> None:
    rule, _ = broken("loss detection", HELD, look)
    assert rule == "a lease of x is not in the server"


def test_semaphores_and_readers_do_not_exclude() -> None:
    permits = [acquire("a", 0, 10, 100), check("a", 60, 99), acquire("b", 0, 50, 100)]
    assert judge("loss detection", *permits, limits={"x": 2}).ok
    assert not judge("loss detection", *permits).ok


QUIET: dict[str, Any] = {"quiet": True, "obj": ""}
CLEAN = [
    probe("keys", 10, n=1, value=["redisson_lock_token:{x}"], **QUIET),
    probe("channels", 10, value=[], **QUIET),
    op("left", 5, 5, value=[0, 0], obj=""),
    op("left", 5, 5, value=0, obj="tasks"),
]


def test_nothing_is_left() -> None:
    fine("leaks", *CLEAN, probe("keys", 3, n=2, value=["x", "y"], obj=""))
    fine("leaks", probe("keys", 10, n=1, value=["s"], **QUIET), lasting=("s",))
    assert judge("leaks", probe("keys", 3, n=2, value=["x", "y"], obj="")).looked_at == 0


@pytest.mark.parametrize(
    ("left", "rule"),
    [
        (probe("keys", 10, n=1, value=["x"], **QUIET), "keys are left"),
        (probe("keys", 10, n=1, value=[], **QUIET), "the names of the keys are not all keys"),
        (probe("channels", 10, value=["c"], **QUIET), "channels are subscribed"),
        (op("left", 5, 5, value=[0, 1], obj=""), "a worker has holds or waiters left"),
        (op("left", 5, 5, value=1, obj="tasks"), "a worker has tasks left"),
    ],
)
def test_something_is_left(left: Op, rule: str) -> None:
    assert broken("leaks", *CLEAN, left)[0] == rule
    # Whatever was broken: it must be gone at the end.
    assert not judge("leaks", left, broken=frozenset({"data", "keys"})).ok


ADDS = [op("add", 0, 5, "a", value=1), op("add", 10, 15, "b", value=2),
        op("add", 16, 17, "c", value=3, out="info"),
        op("add", 18, 19, "d", value=4, out="fail")]  # fmt: skip


def last(*values: int) -> Op:
    """Return the last read."""
    return op("read", 20, 21, "r", value=list(values))


def test_each_element_once() -> None:
    fine("set add", *ADDS, last(1, 2))
    fine("set add", *ADDS, op("read", 1, 2, value=[]), last(1, 2, 3))
    # It may have been read before the element came.
    fine("set add", *ADDS, op("add", 19, 25, "e", value=5), last(1, 2))


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        ((1,), "an acknowledged element of x is lost"),
        ((1, 2, 2), "an element of x is there twice"),
        ((1, 2, 4), "a refused element of x is there"),
        ((1, 2, 9), "an element of x is there that nobody added"),
    ],
)
def test_a_wrong_set(values: tuple[int, ...], rule: str) -> None:
    assert broken("set add", *ADDS, last(*values))[0] == rule


def test_a_set_without_tokens_is_safe_until_a_hold_is_lost() -> None:
    assert fine("set add", *ADDS, told("a", 3), last(1)).figures["lost without tokens"] == 1
    tokens = [op("add", 30, 31, "e", value=7, fence=5)]
    broken("set add", *ADDS, *tokens, told("a", 3), last(1))


def test_everything_ends_unless_it_was_killed() -> None:
    fine("no deadlock", A, release("a", 20, 30, out="info"))
    stuck = acquire("z", 50, None)
    fine("no deadlock", stuck, nemesis("kill worker", "p-z", 60, 70))
    for other in (("kill worker", "p-a", 60, 70), ("kill worker", "p-z", 30, 40),
                  ("pause worker", "p-z", 60, 70)):  # fmt: skip
        rule, shown = broken("no deadlock", A, stuck, nemesis(*other))
        assert rule == "acquire of x never ended"
        assert [each.rid for each in shown if each.op == "acquire"] == ["z"]


def test_errors_that_nobody_expects() -> None:
    fine("no unexpected error", A)
    error = op("unexpected", 5, 5, err="KeyError('x')", out="info")
    assert broken("no unexpected error", A, error)[0] == "unexpected: KeyError('x')"


def test_a_release_that_a_full_server_refuses() -> None:
    full = release("a", 20, 30, out="fail", err="ScriptError OOM")
    rule, _ = broken("no unexpected error", A, full)
    assert rule == "a release of x was refused: ScriptError OOM"
    fine("no unexpected error", A, release("a", 20, 30, out="fail", err="ScriptError NOPERM"))


def test_what_is_held_for_a_client_that_was_closed() -> None:
    closed = op("closed", 10, 10, owner="c1")
    rule, _ = broken("leaks", closed, probe("owners", 20, value=["c2:1", "c1:7"]))
    assert rule == "x is held for a client that was closed"
    fine("leaks", closed, probe("owners", 20, value=["c2:1"]))
    # An older state has come back.
    fine("leaks", closed, probe("owners", 20, value=["c1:7"]), op("left", 9, 9, value=0),
         broken=frozenset({"data"}))  # fmt: skip


def test_a_barrier_that_forgets_no_round() -> None:
    kept = probe("rounds", 20, value=9, n=4)
    rule, _ = broken("leaks", kept)
    assert rule == "rounds that are over are kept: x"
    fine("leaks", probe("rounds", 20, value=9, n=0))
    # Nobody knows what is over if the server's clock was set.
    assert judge("leaks", kept, broken=frozenset({"clocks"})).ok


def test_what_is_held_after_its_release() -> None:
    seen = probe("lease", 60, owner="a", n=40)
    rule, _ = broken("leaks", A, release("a", 40, 50), seen)
    assert rule == "x is held after its release"
    fine("leaks", A, release("a", 40, 70), seen)
    fine("leaks", A, release("a", 40, 50, out="info"), seen)


def test_a_worker_that_never_works_again() -> None:
    rule, _ = broken("no deadlock", op("farewell", 10, None))
    assert rule == "farewell of x never ended"


def test_leases_that_nobody_asked_for() -> None:
    long_one = probe("lease", 50 * MS, owner="a", n=1001)
    rule, _ = broken("loss detection", A, long_one, longest_lease=1.0)
    assert rule == "a lease of x is longer than anybody asked for"
    renewed = check("a", 400 * MS, 1200 * MS)
    taken = [acquire("b", 20, 100 * MS), op("force", 15, 18)]
    rule, _ = broken("loss detection", A, *taken, renewed, longest_lease=1.0)
    assert rule == "a lease of x was renewed after the next grant"
    assert judge("loss detection", A, *taken, check("a", 99, 1100 * MS), longest_lease=1.0).ok


def test_a_forced_lock_is_held_by_nobody() -> None:
    forced = op("force", 50, 60)
    fine("mutual exclusion", A, forced, acquire("b", 55, 70, 170))
    broken("mutual exclusion", A, forced, acquire("b", 5, 45, 170))


def test_grants_that_no_replica_confirmed() -> None:
    frozen = op("frozen", 20, 200)
    settings = {"confirmed": True}
    rule, _ = broken("mutual exclusion", acquire("b", 30, 40, 90), frozen, settings=settings)
    assert rule == "a grant of x was not confirmed"
    fine("mutual exclusion", acquire("b", 10, 40, 90), frozen, settings=settings)


def test_a_check_after_the_lease_was_over() -> None:
    over = check("a", 110, value="over")
    rule, _ = broken("loss detection", A, over, check("a", 112))
    assert rule == "a check of x succeeded after its lease was over"
    # It may have ended just behind the look.
    fine("loss detection", A, over, check("a", 112, out="fail"))
