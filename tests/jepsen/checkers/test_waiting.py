"""By hand: good and bad histories of what is waited for, what ends, and what is left."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tests.jepsen.checkers.hand_off import ROUND_TRIPS
from tests.jepsen.checkers.opening import TIMED_OUT
from tests.jepsen.checkers.oversleeping import Position
from tests.jepsen.checkers.written import (
    acquire,
    broken,
    fine,
    judge,
    nemesis,
    op,
    probe,
    release,
    reported,
)
from tests.jepsen.history import Op


def queued(rid: str, enqueued: tuple[int, int], granted: int, deadline: int = 10_000) -> list[Op]:
    """Return a ticket and its grant."""
    return [op("ticket", *enqueued, rid), acquire(rid, enqueued[0], granted, deadline)]


INVERTED = [*queued("a", (0, 5), 40), *queued("b", (6, 10), 30), *queued("c", (7, 12), 50)]


def test_first_come_first_served() -> None:
    three = [*queued("a", (0, 5), 20), *queued("b", (6, 10), 30), *queued("c", (8, 12), 25)]
    # The first had nobody before it.
    assert fine("fifo", *three).looked_at == 2
    rule = "a later request of x came first"
    assert {each.rid for each in broken("fifo", rule, *INVERTED)} == {"a", "b"}
    # Abandoned tickets do not count, nor a grant whose lease was over when it returned.
    gone = [op("ticket", 0, 2, "z"), acquire("z", 0, 90, out="fail")]
    fine("fifo", *gone, *three, *queued("d", (0, 1), 100, deadline=99))


@pytest.mark.parametrize(
    ("whom", "start", "end", "excused"),
    [("p-a", 10, 20, 1), ("server", 10, 20, 1), ("p-b", 10, 20, 0), ("p-a", 41, 60, 0)],
)
def test_a_waiter_that_was_struck_is_excused(whom: str, start: int, end: int, excused: int) -> None:
    verdict = judge("fifo", *INVERTED, nemesis("pause", whom, start, end))
    assert (verdict.ok, verdict.figures["excused"]) == (excused == 1, excused)


def term(rid: str, token: int, granted: int, end: int) -> list[Op]:
    """Return a term, whose value is `value_of(rid, 0)`."""
    return [acquire(rid, granted - 5, granted, end, fence=token), release(rid, end, end + 5)]


def look(moment: int, token: int | None = None, value: str = "", rid: str = "look") -> Op:
    """Return a look at the leader."""
    return op("look", moment, moment + 1, rid, fence=token, value=value)


TERMS = [
    *term("a", 1, 10, 100),
    op("proclaim", 40, 50, "a", fence=1, value="a#1"),
    *term("b", 2, 110, 200),
]


def test_a_look_shows_the_leader_and_its_last_value() -> None:
    fine(
        "leaders",
        *TERMS,
        *(look(0), look(8, 1, "a#0"), look(20, 1, "a#0"), look(45, 1, "a#0"), look(45, 1, "a#1")),
        *(look(60, 1, "a#1"), look(103), look(103, 1, "a#1"), look(107, 2, "b#0")),
        # A worker that was killed may have led.
        look(300, 3, "who knows"),
    )
    said = "a look saw what no leader of x said then"
    for wrong in (look(20, 1, "a#1"), look(60, 1, "a#0"), look(120, 2, "a#1")):
        assert wrong in broken("leaders", said, *TERMS, wrong)
    hidden = "a look at x did not show its leader"
    assert {each.op for each in broken("leaders", hidden, *TERMS, look(20))} == {
        *("acquire", "release", "look")
    }
    older = "a look at x saw an older term"
    assert len(broken("leaders", older, *TERMS, look(206, 1, "a#1"))) >= 2
    broken("leaders", older, look(0, 3, "c#0"), look(2, 2, "b#0", "again"))


def test_what_failed_may_have_been_published_or_not_but_not_after_a_later_value() -> None:
    lost = [*TERMS[:3], op("proclaim", 60, None, "a", fence=1, value="a#2")]
    fine("leaders", *lost, look(70, 1, "a#1"), look(80, 1, "a#2"))
    lost.append(op("proclaim", 82, 84, "a", fence=1, value="a#3"))
    fine("leaders", *lost, look(90, 1, "a#3"))
    broken("leaders", "a look saw what no leader of x said then", *lost, look(90, 1, "a#2"))


def test_an_observer_sees_no_step_back() -> None:
    def seen(moment: int, token: int | None, value: str = "", rid: str = "o") -> Op:
        return op("seen", moment, moment, rid, fence=token, value=value)

    fine("leaders", *TERMS, seen(30, 1, "a#0"), seen(70, 1, "a#1"), seen(104, None), seen(300, 2))
    fine("leaders", *TERMS, seen(180, 2, "b#0"), seen(190, 1, "a#1", rid="another"))
    back = "an observer of x saw a step back"
    broken("leaders", back, *TERMS, seen(180, 2, "b#0"), seen(181, None), seen(190, 1, "a#1"))
    broken("leaders", back, *TERMS, seen(70, 1, "a#1"), seen(80, 1, "a#0"))


DOWNS = [op("count_down", 0, 10, "a"), op("count_down", 20, 30, "b")]


def test_a_latch_opens_when_its_count_is_down() -> None:
    fine("latch", *DOWNS, op("await", 5, 21, "w", value=2), op("await", 50, 51, "v"))
    fine("latch", op("count_down", 0, 10, "a", n=2), op("await", 5, 9, "w", value=2))
    fine("latch", DOWNS[0], op("count_down", 20, None, "b"), op("await", 5, 25, "w", value=2))
    rule = "x opened before its count was down"
    broken("latch", rule, *DOWNS, op("await", 5, 19, "w", value=2))
    broken("latch", rule, *DOWNS, op("await", 5, 40, "w"), parties={"x": 3})
    undone = op("count_down", 20, 30, "b", out="fail")
    broken("latch", rule, DOWNS[0], undone, op("await", 5, 40, "w", value=2))
    late = partial(op, "await", 31, 60, "w", value=2, out="fail")
    broken("latch", "x was closed when its count was down", *DOWNS, late(err=TIMED_OUT))
    # One that has lost its connection says nothing of the latch; nor one that asked before.
    fine("latch", *DOWNS, late(err="ConnectionLostError"))
    fine("latch", *DOWNS, op("await", 29, 60, "w", value=2, out="fail", err=TIMED_OUT))


def arrive(rid: str, t0: int, t1: int | None, n: int = 0, **facts: Any) -> Op:
    return op("arrive", t0, t1, rid, n=n, **facts)


TWO = {"parties": {"x": 2}}
FIRST = [arrive("a", 0, 11), arrive("b", 10, 12)]


def test_a_barrier_releases_its_parties_together() -> None:
    fine("barrier", *FIRST, arrive("a2", 13, 21, 1), arrive("b2", 20, 22, 1), **TWO)
    fine("barrier", *FIRST, arrive("a2", 13, None, 1), **TWO)
    rule, soon = "x released before all had arrived", arrive("a2", 13, 19, 1)
    broken("barrier", rule, *FIRST, soon, arrive("b2", 20, 22, 1), **TWO)
    broken("barrier", rule, *FIRST, soon, arrive("b2", 12, 15, 1, out="fail"), **TWO)
    rule = "more than its parties in a generation of x"
    broken("barrier", rule, *FIRST, arrive("c", 5, 12), arrive("d", 6, 12), **TWO)
    crossed = [
        arrive("a", 0, 25),
        arrive("b", 24, 26),
        arrive("c", 1, 20, 1),
        arrive("d", 2, 20, 1),
    ]
    broken("barrier", "a generation of x came before the last one", *crossed, **TWO)


SECOND = 1_000_000_000
HOLDER = [acquire("a", 0, 10), release("a", 1000, 1010)]
ASLEEP = [*HOLDER, acquire("b", 500, 2 * SECOND)]


def busy(process: str, times: int = ROUND_TRIPS) -> list[Op]:
    """Return questions that a process asked one after the other."""
    return [
        op("acquire", moment, moment + 999, f"q{moment}", obj="other", process=process)
        for moment in range(2000, 2000 + 1000 * times, 1000)
    ]


def test_a_waiter_that_slept_beside_a_free_lock() -> None:
    wrong = partial(broken, "no lost wake-up", "a waiter slept beside the free x", wake_bound=1)
    assert {"a", "b"} < {each.rid for each in wrong(*ASLEEP, *busy("p-b"))}
    wrong(*HOLDER, acquire("b", 500, 2 * SECOND, out="fail"), *busy("p-b"))
    well = partial(fine, "no lost wake-up", wake_bound=1)
    # The machine was slow: hardly anything else came through, or not to this process.
    well(*ASLEEP, *busy("p-b", ROUND_TRIPS - 1))
    well(*ASLEEP, *busy("p-c"))
    # Somebody was at work; or nobody says what is slow.
    well(*ASLEEP, *busy("p-b"), nemesis("cut", "link", 900, 2000))
    fine("no lost wake-up", *ASLEEP, *busy("p-b"))
    # One release need not be enough.
    well(*ASLEEP, *busy("p-b"), limits={"x": 3})
    well(*ASLEEP, *busy("p-b"), acquire("b", 500, 2 * SECOND, obj="y"))
    well(*HOLDER, acquire("b", 500, 2 * SECOND, value="read"), *busy("p-b"))
    # Of a waiter that was killed nobody knows until when it waited.
    assert judge("no lost wake-up", *HOLDER, acquire("b", 500, None)).looked_at == 0


def test_hand_offs_are_measured() -> None:
    ops = [*HOLDER, acquire("b", 500, 1500), release("b", 2000, 2100), acquire("c", 600, 3002000)]
    ops += [release("c", 4000000, 4000010), acquire("d", 5000000, 5000010)]
    verdict = fine("no lost wake-up", *ops)
    assert verdict.looked_at == 2
    assert "max 3.00 (2)" in verdict.figures["through Redis, ms"]
    passed = fine("no lost wake-up", *HOLDER, acquire("b", 500, 1500, owner="a"))
    assert "(1)" in passed.figures["inside a process, ms"]


def overslept(rid: str, asked: int, busy: int, ended: int, answered: int, position: Position) -> Op:
    """Return a sleep: its requests began at `asked`, and ended at `busy` and `answered`."""
    return op("overslept", asked, answered, rid, value=[busy, ended], n=position)


HELD = [acquire("a", 0, 10), release("a", 100, 110)]
WAITER = acquire("b", 20, 510)
NOWHERE, FIRST_IN_QUEUE, IN_ORDER = (
    overslept("b", 20, 30, 500, 510, position)
    for position in (Position.NOWHERE, Position.FIRST, Position.IN_ORDER)
)

asleep = partial(broken, "no lost wake-up", "a release of x did not wake its waiter")
woken = partial(fine, "no lost wake-up")


def test_a_release_after_the_answer_wakes() -> None:
    shown = asleep(*HELD, WAITER, NOWHERE)
    assert {each.op for each in shown} == {"overslept", "release", "acquire"}
    # Nobody knows whether it heard "busy" because of a or of c; each has released it since.
    both = overslept("b", 95, 105, 500, 510, Position.NOWHERE)
    asleep(*HELD, acquire("c", 90, 120), release("c", 130, 140), WAITER, both)
    woken(HELD[0], release("a", 100, 104), acquire("d", 90, None), WAITER, both)
    # The release may have been executed after the timer, or before the answer of the next holder.
    later = [acquire("c", 90, 200), release("c", 600, 610)]
    woken(*HELD, WAITER, *later, overslept("b", 20, 30, 105, 510, Position.NOWHERE))
    woken(*HELD, WAITER, *later, overslept("b", 101, 105, 500, 510, Position.NOWHERE))
    # It was passed on in the process, perhaps to one that was cancelled in that moment.
    passed = [
        acquire("e", 15, 105, owner="a", process="p-a"),
        release("e", 600, 610, process="p-a"),
    ]
    woken(*HELD, WAITER, *passed, NOWHERE)
    woken(*HELD, WAITER, acquire("e", 15, 105, out="info", owner="", process="p-a"), NOWHERE)
    # Several holders need several releases.
    woken(*HELD, WAITER, NOWHERE, limits={"x": 2})
    woken(*HELD, acquire("b", 20, 510, value="read"), NOWHERE)


def test_who_was_not_allowed_to_listen_hears_nothing() -> None:
    asleep(*HELD, WAITER, nemesis("cut", "link", 100, 105), NOWHERE)
    woken(*HELD, WAITER, nemesis("acl", "x", 0, 5), NOWHERE)
    woken(*HELD, WAITER, nemesis("busy", "x", 0, 5), NOWHERE)
    woken(*HELD, WAITER, nemesis("busy", "x", 40, 600), NOWHERE)
    asleep(*HELD, WAITER, nemesis("busy", "x", 501, 505), NOWHERE)
    # Five seconds later SUBSCRIBE has been sent again.
    late = 5 * SECOND
    moved = [replace(each, t0=each.t0 + late, t1=(each.t1 or 0) + late) for each in (*HELD, WAITER)]
    begun = overslept("b", late + 20, late + 30, late + 500, late + 510, Position.NOWHERE)
    asleep(*moved, nemesis("busy", "x", 0, 5), begun)


def test_in_the_queue_of_a_fair_lock_only_the_next_one_is_notified() -> None:
    asleep(*HELD, WAITER, IN_ORDER)
    asleep(*HELD, WAITER, acquire("c", 35, 600), release("c", 700, 710), IN_ORDER)
    # Somebody came before it, or was told and has given up, or has lost the place.
    woken(*HELD, WAITER, acquire("c", 15, 200), release("c", 501, 505), IN_ORDER)
    woken(*HELD, WAITER, acquire("c", 15, 200, out="fail"), IN_ORDER)
    woken(*HELD, WAITER, acquire("c", 15, 600), release("c", 700, 710), IN_ORDER)
    # It has lost its own place.
    overtaken = [acquire("c", 200, 210), release("c", 220, 230)]
    woken(acquire("a", 0, 10), release("a", 12, 14), WAITER, *overtaken, IN_ORDER)
    # Who gave up may still stand there, unless its process was granted another request since.
    sleep, gone = (
        overslept("b", 82, 90, 500, 510, Position.IN_ORDER),
        acquire("c", 15, 60, out="fail"),
    )
    woken(*HELD, WAITER, gone, sleep)
    since = [acquire("d", 62, 66, process="p-c"), release("d", 70, 72, process="p-c")]
    asleep(acquire("a", 75, 80), HELD[1], WAITER, gone, *since, sleep)


def test_the_first_in_the_queue_of_clients_is_called_and_no_other() -> None:
    # Whoever else waits, or got it before.
    asleep(*HELD, WAITER, acquire("c", 15, 200), release("c", 501, 505), FIRST_IN_QUEUE)
    woken(*HELD, WAITER, replace(FIRST_IN_QUEUE, n=Position.BEHIND))
    # The queue may be lost, or out of order; an older version calls nobody.
    for strike in ("flushall", "eviction", "memory-full", "disk-full"):
        woken(*HELD, WAITER, nemesis(strike, "x", 40, 50), FIRST_IN_QUEUE)
        asleep(*HELD, WAITER, nemesis(strike, "x", 0, 5), FIRST_IN_QUEUE)
    woken(*HELD, WAITER, nemesis("clock-step", "x", 0, 5), FIRST_IN_QUEUE)
    woken(*HELD, WAITER, op("began", 0, 0, "c", value={"older": True}), FIRST_IN_QUEUE)


A = acquire("a", 0, 10, 100)


def test_everything_ends_unless_it_was_killed() -> None:
    stuck = acquire("z", 50, None)
    fine("no deadlock", A, stuck, nemesis("kill", "p-z", 60, 70))
    for other in (("kill", "p-a", 60, 70), ("kill", "p-z", 30, 40), ("pause", "p-z", 60, 70)):
        shown = broken("no deadlock", "acquire of x never ended", A, stuck, nemesis(*other))
        assert [each.rid for each in shown if each.op == "acquire"] == ["z"]
    broken("no deadlock", "farewell of x never ended", op("farewell", 10, None))


def test_errors_that_nobody_expects() -> None:
    fine("no unexpected error", A, release("a", 20, 30, out="fail", err="ScriptError NOPERM"))
    error = op("unexpected", 5, 5, err="KeyError('x')", out="info")
    broken("no unexpected error", "unexpected: KeyError('x')", A, error)
    full = release("a", 20, 30, out="fail", err="ScriptError OOM")
    rule = "a release of x was refused: ScriptError OOM"
    broken("no unexpected error", rule, A, full)


QUIET: dict[str, Any] = {"quiet": True, "obj": ""}
CLEAN = [
    probe("keys", 10, n=1, value=["redisson_lock_token:{x}"], **QUIET),
    probe("channels", 10, value=[], **QUIET),
    op("left", 5, 5, value=[0, 0], obj=""),
    op("left", 5, 5, value=0, obj="tasks"),
]
CLOSED = op("closed", 10, 10, owner="c1")
OWNED = probe("owners", 20, value=["c2:1", "c1:7"])
SEEN = probe("lease", 60, owner="a", n=40)
ROUNDS = probe("rounds", 20, value=9, n=4)


@pytest.mark.parametrize(
    ("left", "rule"),
    [
        ([probe("keys", 10, n=1, value=["x"], **QUIET)], "keys are left"),
        ([probe("keys", 10, n=1, value=[], **QUIET)], "the names of the keys are not all keys"),
        ([probe("channels", 10, value=["c"], **QUIET)], "channels are subscribed"),
        ([op("left", 5, 5, value=[0, 1], obj="")], "a worker has holds or waiters left"),
        ([op("left", 5, 5, value=1, obj="tasks")], "a worker has tasks left"),
        ([CLOSED, OWNED], "x is held for a client that was closed"),
        ([ROUNDS], "rounds that are over are kept: x"),
        ([A, release("a", 40, 50), SEEN], "x is held after its release"),
    ],
)
def test_something_is_left(left: list[Op], rule: str) -> None:
    broken("leaks", rule, *CLEAN, *left)


def test_nothing_is_left() -> None:
    fine("leaks", *CLEAN, probe("keys", 3, n=2, value=["x", "y"], obj=""))
    fine("leaks", probe("keys", 10, n=1, value=["s"], **QUIET), lasting=("s",))
    fine("leaks", CLOSED, replace(OWNED, value=["c2:1"]), replace(ROUNDS, n=0))
    fine("leaks", A, release("a", 40, 70), SEEN)
    fine("leaks", A, release("a", 40, 50, out="info"), SEEN)
    # An older state has come back; a clock was set; keys must be gone whatever was broken.
    fine("leaks", *CLEAN, CLOSED, OWNED, broken=frozenset({"data"}))
    fine("leaks", *CLEAN, ROUNDS, broken=frozenset({"clocks"}))
    left = probe("keys", 10, n=1, value=["x"], **QUIET)
    assert not judge("leaks", left, broken=frozenset({"data", "keys"})).ok


ADDS = [op("add", 0, 5, "a", value=1), op("add", 10, 15, "b", value=2),
        op("add", 16, 17, "c", value=3, out="info"),
        op("add", 18, 19, "d", value=4, out="fail")]  # fmt: skip


def last(*values: int) -> Op:
    """Return the last read."""
    return op("read", 20, 21, "r", value=list(values))


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        ((1,), "an acknowledged element of x is lost"),
        ((1, 2, 2), "an element of x is there twice"),
        ((1, 2, 4), "a refused element of x is there"),
        ((1, 2, 9), "an element of x is there that nobody added"),
    ],
)
def test_each_element_once(values: tuple[int, ...], rule: str) -> None:
    broken("set add", rule, *ADDS, last(*values))
    # Without tokens it holds until a hold is lost, with tokens always.
    assert (
        fine("set add", *ADDS, reported("a", 3), last(*values)).figures["lost without tokens"] == 1
    )
    tokens = op("add", 19, 25, "e", value=5, fence=5)
    broken("set add", rule, *ADDS, tokens, reported("a", 3), last(*values))
    # One may have come after the read; of another nobody knows.
    fine("set add", *ADDS, tokens, last(1, 2))
    fine("set add", *ADDS, op("read", 1, 2, value=[]), last(1, 2, 3))
