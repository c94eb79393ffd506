"""By hand: sleeps that a timer ended although a release must have been heard of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.jepsen.checkers.written import acquire, broken, fine, nemesis, op, release
from tests.jepsen.history import Op
from tests.jepsen.places import Place

#: Nanoseconds, after which a refused SUBSCRIBE has been sent again.
_LATER = 5_000_000_000

_RULE = "a release of x did not wake its waiter"


def overslept(rid: str, asked: int, busy: int, over: int, answered: int, **facts: object) -> Op:
    """Return a sleep: its requests began at `asked`, and ended at `busy` and `answered`."""
    return op(
        "overslept", asked, answered, rid, value=[busy, over], **{"n": Place.NOWHERE, **facts}
    )


A = [acquire("a", 0, 10), release("a", 100, 110)]
B = acquire("b", 20, 510)


def test_a_release_after_the_answer_wakes() -> None:
    rule, shown = broken("no lost wake-up", *A, B, overslept("b", 20, 30, 500, 510))
    assert rule == _RULE
    assert {each.op for each in shown} == {"overslept", "release", "acquire"}


def test_whatever_a_nemesis_did_but_forbid_to_listen() -> None:
    fine("no lost wake-up", *A, B, nemesis("acl", "x", 0, 5), overslept("b", 20, 30, 500, 510))
    cut = nemesis("cut", "link", 100, 105)
    rule, _ = broken("no lost wake-up", *A, B, cut, overslept("b", 20, 30, 500, 510))
    assert rule == _RULE


def test_a_server_that_refused_everything_is_listened_to_later() -> None:
    sleep = overslept("b", 20, 30, 500, 510)
    fine("no lost wake-up", *A, B, nemesis("busy", "x", 0, 5), sleep)
    fine("no lost wake-up", *A, B, nemesis("busy", "x", 40, 600), sleep)
    assert broken("no lost wake-up", *A, B, nemesis("busy", "x", 501, 505), sleep)[0] == _RULE
    # It has been sent again by now.
    moved = [replace(each, t0=each.t0 + _LATER, t1=(each.t1 or 0) + _LATER) for each in (*A, B)]
    begun = overslept("b", *(_LATER + moment for moment in (20, 30, 500, 510)))
    assert broken("no lost wake-up", *moved, nemesis("busy", "x", 0, 5), begun)[0] == _RULE


@pytest.mark.parametrize(
    "sleep",
    [
        # The release may have been executed after the timer.
        overslept("b", 20, 30, 105, 510),
        # It was asked while the release went on, and may have heard "busy" from the next holder.
        overslept("b", 101, 105, 500, 510),
    ],
)
def test_what_need_not_have_been_heard(sleep: Op) -> None:
    later = [acquire("c", 90, 200), release("c", 600, 610)]
    fine("no lost wake-up", *A, B, *later, sleep)


def test_all_that_may_have_held_it_have_released_it() -> None:
    # Nobody knows whether it heard "busy" because of a or of c; each has released it since.
    c = [acquire("c", 90, 120), release("c", 130, 140)]
    sleep = overslept("b", 95, 105, 500, 510)
    rule, _ = broken("no lost wake-up", A[0], release("a", 100, 110), *c, B, sleep)
    assert rule == _RULE
    # Or d held it, of which nobody knows anything.
    fine("no lost wake-up", A[0], release("a", 100, 104), acquire("d", 90, None), B, sleep)


def test_a_hold_that_was_passed_on_was_not_released() -> None:
    next_one = acquire("e", 15, 105, owner="a", process="p-a")
    passed = [next_one, release("e", 600, 610, process="p-a")]
    fine("no lost wake-up", *A, B, *passed, overslept("b", 20, 30, 500, 510))
    # Or perhaps to one that was cancelled in that moment.
    gone = acquire("e", 15, 105, out="info", owner="", process="p-a")
    fine("no lost wake-up", *A, B, gone, overslept("b", 20, 30, 500, 510))


def test_several_holders_need_several_releases() -> None:
    sleep = overslept("b", 20, 30, 500, 510)
    fine("no lost wake-up", *A, B, sleep, limits={"x": 2})
    fine("no lost wake-up", *A, acquire("b", 20, 510, value="read"), sleep)


def test_in_a_queue_only_the_next_one_is_told() -> None:
    sleep = overslept("b", 20, 30, 500, 510, n=Place.IN_TURN)
    assert broken("no lost wake-up", *A, B, sleep)[0] == _RULE
    # Somebody else came before it, or may have been told and has given up.
    fine("no lost wake-up", *A, B, acquire("c", 15, 200), release("c", 501, 505), sleep)
    fine("no lost wake-up", *A, B, acquire("c", 15, 200, out="fail"), sleep)
    # Somebody that came before it has lost the place, is granted later, and may have been told.
    fine("no lost wake-up", *A, B, acquire("c", 15, 600), release("c", 700, 710), sleep)
    behind = [acquire("c", 35, 600), release("c", 700, 710)]
    assert broken("no lost wake-up", *A, B, *behind, sleep)[0] == _RULE


def test_who_is_overtaken_has_lost_its_place_and_need_not_be_told() -> None:
    sleep = overslept("b", 20, 30, 500, 510, n=Place.IN_TURN)
    came_later = [acquire("c", 200, 210), release("c", 220, 230)]
    before = [acquire("a", 0, 10), release("a", 12, 14)]
    fine("no lost wake-up", *before, B, *came_later, sleep)


def test_who_gave_up_before_a_release_may_still_stand_in_the_queue() -> None:
    sleep = overslept("b", 82, 90, 500, 510, n=Place.IN_TURN)
    gone = acquire("c", 15, 60, out="fail")
    fine("no lost wake-up", *A, B, gone, sleep)
    # Unless its process was granted another request since: Redis has read both.
    later = [acquire("d", 62, 66, process="p-c"), release("d", 70, 72, process="p-c")]
    rule, _ = broken("no lost wake-up", acquire("a", 75, 80), *A[1:], B, gone, *later, sleep)
    assert rule == _RULE


def test_the_first_in_the_queue_of_clients_is_called_and_no_other() -> None:
    first = overslept("b", 20, 30, 500, 510, n=Place.FIRST)
    # Whoever else waits, or got it before.
    others = [acquire("c", 15, 200), release("c", 501, 505)]
    assert broken("no lost wake-up", *A, B, *others, first)[0] == _RULE
    fine("no lost wake-up", *A, B, replace(first, n=Place.BEHIND))


def test_a_queue_of_clients_may_be_lost_or_out_of_order() -> None:
    first = overslept("b", 20, 30, 500, 510, n=Place.FIRST)
    for strike in ("flushall", "eviction", "memory-full", "disk-full"):
        fine("no lost wake-up", *A, B, nemesis(strike, "x", 40, 50), first)
        assert broken("no lost wake-up", *A, B, nemesis(strike, "x", 0, 5), first)[0] == _RULE
    fine("no lost wake-up", *A, B, nemesis("clock-step", "x", 0, 5), first)
    fine("no lost wake-up", *A, B, op("began", 0, 0, "c", value={"older": True}), first)
    assert broken("no lost wake-up", *A, B, nemesis("cut", "x", 40, 50), first)[0] == _RULE
