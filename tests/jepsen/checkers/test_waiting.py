"""By hand: fair locks, latches, barriers, hand-offs."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.jepsen.checkers.hand_off import ROUND_TRIPS
from tests.jepsen.checkers.latch import TIMED_OUT
from tests.jepsen.checkers.written import acquire, broken, fine, judge, nemesis, op, release
from tests.jepsen.history import Op


def queued(rid: str, enqueued: tuple[int, int], granted: int, deadline: int = 10_000) -> list[Op]:
    """Return a ticket and its grant."""
    return [
        op("ticket", *enqueued, rid),
        acquire(rid, enqueued[0], granted, deadline),
    ]


def test_first_come_first_served() -> None:
    fine("fifo", *queued("a", (0, 5), 20), *queued("b", (6, 10), 30), *queued("c", (8, 12), 25))


INVERTED = [*queued("a", (0, 5), 40), *queued("b", (6, 10), 30), *queued("c", (7, 12), 50)]


def test_a_later_request_comes_first() -> None:
    rule, shown = broken("fifo", *INVERTED)
    assert rule == "a later request of x came first"
    assert {each.rid for each in shown} == {"a", "b"}


def test_abandoned_tickets_do_not_count() -> None:
    gone = [op("ticket", 0, 2, "z"), acquire("z", 0, 90, out="fail")]
    fine("fifo", *gone, *queued("a", (3, 5), 20), *queued("b", (6, 10), 30))
    # Nor does a grant whose lease was over when it returned: it may have come before.
    late = queued("a", (0, 5), 40, deadline=39)
    fine("fifo", *late, *queued("b", (6, 10), 30), *queued("c", (11, 12), 50))


@pytest.mark.parametrize(("whom", "excused"), [("p-a", True), ("p-b", False), ("server", True)])
def test_a_waiter_that_was_struck_is_excused(whom: str, excused: bool) -> None:
    verdict = judge("fifo", *INVERTED, nemesis("pause worker", whom, 10, 20))
    assert verdict.ok is excused
    assert verdict.figures["excused"] == int(excused)


def test_only_visits_that_were_judged_are_looked_at() -> None:
    three = [*queued("a", (0, 5), 20), *queued("b", (6, 10), 30), *queued("c", (8, 12), 40)]
    # The first had nobody before it.
    assert judge("fifo", *queued("a", (0, 5), 20)).looked_at == 0
    assert judge("fifo", *three).looked_at == 2
    # Of the others one was struck, or both.
    assert judge("fifo", *three, nemesis("pause worker", "p-c", 10, 20)).looked_at == 1
    assert judge("fifo", *three, nemesis("freeze", "server", 25, 28)).looked_at == 0
    # A strike that lasts is not forgotten for a short one that began later.
    strikes = [nemesis("freeze", "server", 1, 35), nemesis("freeze", "server", 2, 3)]
    assert judge("fifo", *three, *strikes).looked_at == 0


def test_a_strike_after_the_grant_excuses_nothing() -> None:
    assert not judge("fifo", *INVERTED, nemesis("pause worker", "p-a", 41, 60)).ok


DOWNS = [op("count_down", 0, 10, "a"), op("count_down", 20, 30, "b")]


def test_a_latch_that_opens_in_time() -> None:
    fine("latch", *DOWNS, op("await", 5, 21, "w", value=2), op("await", 50, 51, "v"))
    fine("latch", op("count_down", 0, 10, "a", n=2), op("await", 5, 9, "w", value=2))
    # It timed out before the last count was down for certain.
    fine("latch", *DOWNS, op("await", 29, 60, "w", value=2, out="fail", err=TIMED_OUT))
    fine("latch", DOWNS[0], op("count_down", 20, None, "b"), op("await", 5, 25, "w", value=2))


def test_a_latch_that_opens_too_soon() -> None:
    rule, _ = broken("latch", *DOWNS, op("await", 5, 19, "w", value=2))
    assert rule == "x opened before its count was down"
    broken("latch", *DOWNS, op("await", 5, 40, "w"), parties={"x": 3})
    undone = op("count_down", 20, 30, "b", out="fail")
    broken("latch", DOWNS[0], undone, op("await", 5, 40, "w", value=2))


def test_a_latch_that_stays_closed() -> None:
    late = partial(op, "await", 31, 60, "w", value=2, out="fail")
    rule, _ = broken("latch", *DOWNS, late(err=TIMED_OUT))
    assert rule == "x was closed when its count was down"
    # It was cancelled, or has lost its connection: it says nothing of the latch.
    fine("latch", *DOWNS, late())
    fine("latch", *DOWNS, late(err="ConnectionLostError"))


def arrive(rid: str, t0: int, t1: int | None, n: int | None = 0, **facts: Any) -> Op:
    """Return an arrival at the barrier."""
    return op("arrive", t0, t1, rid, n=n, **facts)


TWO = {"parties": {"x": 2}}
FIRST = [arrive("a", 0, 11), arrive("b", 10, 12)]


def test_generations_one_after_the_other() -> None:
    fine("barrier", *FIRST, arrive("a2", 13, 21, 1), arrive("b2", 20, 22, 1), **TWO)
    fine("barrier", *FIRST, arrive("a2", 13, None, 1), **TWO)


def test_a_barrier_that_releases_too_soon() -> None:
    rule, shown = broken("barrier", *FIRST, arrive("a2", 13, 19, 1), arrive("b2", 20, 22, 1), **TWO)
    assert rule == "x released before all had arrived"
    assert [each.rid for each in shown] == ["a2"]
    refused = arrive("b2", 12, 15, 1, out="fail")
    broken("barrier", *FIRST, arrive("a2", 13, 19, 1), refused, **TWO)


def test_a_generation_with_too_many() -> None:
    third, fourth = arrive("c", 5, 12), arrive("d", 6, 12)
    assert broken("barrier", *FIRST, third, fourth, **TWO)[0] == (
        "more than its parties in a generation of x"
    )


def test_a_generation_before_the_last_one() -> None:
    crossed = [
        arrive("a", 0, 25, 0),
        arrive("b", 24, 26, 0),
        arrive("c", 1, 20, 1),
        arrive("d", 2, 20, 1),
    ]
    rule, _ = broken("barrier", *crossed, **TWO)
    assert rule == "a generation of x came before the last one"


SECOND = 1_000_000_000
HOLDER = [acquire("a", 0, 10), release("a", 1000, 1010)]


def busy(process: str, start: int, step: int, times: int = ROUND_TRIPS) -> list[Op]:
    """Return questions that a process asked one after the other."""
    moments = range(start, start + step * times, step)
    return [
        op("acquire", moment, moment + step - 1, f"q{moment}", obj="other", process=process)
        for moment in moments
    ]


def test_hand_offs_are_measured() -> None:
    ops = [*HOLDER, acquire("b", 500, 1500), release("b", 2000, 2100), acquire("c", 600, 2300)]
    ops += [release("c", 3000, 3010), acquire("d", 4000, 4010)]
    verdict = fine("no lost wake-up", *ops)
    assert verdict.looked_at == 2
    assert "max 0.00 (2)" in verdict.figures["through Redis, ms"]


def test_a_hold_that_is_passed_on_is_counted_apart() -> None:
    verdict = fine("no lost wake-up", *HOLDER, acquire("b", 500, 1500, owner="a"))
    assert "(1)" in verdict.figures["inside a process, ms"]


LATE = 2 * SECOND
ASLEEP = [*HOLDER, acquire("b", 500, LATE)]


def test_a_waiter_that_slept_beside_a_free_lock() -> None:
    rule, shown = broken("no lost wake-up", *ASLEEP, *busy("p-b", 2000, 1000), wake_bound=1)
    assert rule == "a waiter slept beside the free x"
    assert {"a", "b"} < {each.rid for each in shown}
    gave_up = [*HOLDER, acquire("b", 500, LATE, out="fail")]
    broken("no lost wake-up", *gave_up, *busy("p-b", 2000, 1000), wake_bound=1)


def test_slow_is_not_lost() -> None:
    slow = {"wake_bound": 1}
    # The machine was slow: nothing else came through, or one thing for all the time.
    fine("no lost wake-up", *ASLEEP, **slow)
    fine("no lost wake-up", *ASLEEP, *busy("p-b", 2000, 1000, ROUND_TRIPS - 1), **slow)
    fine("no lost wake-up", *ASLEEP, *busy("p-c", 2000, 1000), **slow)
    fine("no lost wake-up", *ASLEEP, *[
        op("acquire", 2000, LATE - 1, f"q{n}", obj="other", process="p-b") for n in range(50)
    ], **slow)  # fmt: skip
    # Or somebody was at work; or nobody says what is slow.
    questions = busy("p-b", 2000, 1000)
    fine("no lost wake-up", *ASLEEP, *questions, nemesis("cut", "link", 900, 2000), **slow)
    fine("no lost wake-up", *ASLEEP, *questions)
    fine("no lost wake-up", *ASLEEP, *questions, wake_bound=2)


def test_one_release_need_not_be_enough() -> None:
    questions = busy("p-b", 2000, 1000)
    slow: dict[str, Any] = {"wake_bound": 1}
    fine("no lost wake-up", *ASLEEP, *questions, limits={"x": 3}, **slow)
    fine("no lost wake-up", *ASLEEP, *questions, acquire("b", 500, LATE, obj="y"), **slow)
    reader = acquire("b", 500, LATE, value="read")
    fine("no lost wake-up", *HOLDER, reader, *questions, **slow)


def test_a_killed_waiter_does_not_wait() -> None:
    ops = [*HOLDER, acquire("b", 500, None), acquire("c", 600, 1200)]
    assert fine("no lost wake-up", *ops).looked_at == 1
    assert judge("no lost wake-up", *HOLDER, acquire("b", 500, None)).looked_at == 0
