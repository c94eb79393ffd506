"""By hand: the search for an order, its models, and what it is given of a history."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest

from tests.jepsen.checkers.models import FENCED_REGISTER, MUTEX, REENTRANT, REGISTER, semaphore
from tests.jepsen.checkers.random_calls import MODELS, random_calls
from tests.jepsen.checkers.wgl import Call, Model, linearize
from tests.jepsen.checkers.written import acquire, broken, check, fine, op, release, told
from tests.jepsen.history import Op

INF = float("inf")


def call(start: float, end: float, *action: object) -> Call:
    return Call(start, end, action)


#: The greatest token that anybody has shown is 2, and the value is 0.
SEEN = call(0, 1, "begin", 2, 0, True)


def a(t0: float, t1: float) -> Call:
    return call(t0, t1, "acquire", "a")


def b(t0: float, t1: float) -> Call:
    return call(t0, t1, "acquire", "b")


def a_leaves(t0: float, t1: float) -> Call:
    return call(t0, t1, "release", "a")


def units(*counts: int) -> list[Call]:
    return [call(0, 1, "acquire", count) for count in counts]


@pytest.mark.parametrize(
    ("model", "calls", "expected"),
    [
        (MUTEX, [a(0, 9), b(1, 8), a_leaves(2, 3)], True),
        (MUTEX, [a(0, 3), b(1, 4), a_leaves(5, 6)], False),
        (MUTEX, [a(0, 3), b(1, 4), a_leaves(2, INF)], True),
        (MUTEX, [a(0, 3), b(1, 4), a_leaves(5, INF)], False),
        (MUTEX, [a_leaves(0, 1)], False),
        (REENTRANT, [a(0, 1), a(2, 3), a_leaves(4, 5), b(6, 7)], False),
        (REENTRANT, [a(0, 1), a(2, 3), a_leaves(4, 5), a_leaves(4, 5), b(6, 7)], True),
        (REENTRANT, [a(0, 1), a(2, 3), call(4, 5, "drop", "a"), b(6, 7)], True),
        (semaphore(2), units(1, 1, 1), False),
        (semaphore(3), units(1, 2), True),
        (REGISTER, [call(0, 9, "write", 1), call(1, 2, "read", 1), call(3, 4, "read", 1)], True),
        (REGISTER, [call(0, 9, "write", 1), call(1, 2, "read", 1), call(3, 4, "read", 0)], False),
        (REGISTER, [call(0, INF, "write", 1), call(5, 6, "read", 1)], True),
        (FENCED_REGISTER, [SEEN, call(2, 3, "write", 1, 5, True)], False),
        (FENCED_REGISTER, [SEEN, call(2, 3, "write", 1, 5, False)], True),
        (FENCED_REGISTER, [SEEN, call(2, 3, "begin", 3, 4, True)], False),
    ],
)
def test_histories_by_hand(model: Model, calls: list[Call], expected: bool) -> None:
    assert linearize(calls, model).linearizable is expected


def test_too_many_states_are_unknown() -> None:
    calls = [call(0, 100, "write", number) for number in range(12)]
    assert linearize(calls, REGISTER, most=50).linearizable is None
    assert linearize(calls, REGISTER).linearizable is True


def _by_trying(calls: Sequence[Call], model: Model) -> bool:
    """Return whether any order of any calls that must be there is allowed."""
    sure = [place for place, each in enumerate(calls) if each.end < INF]
    unsure = [place for place, each in enumerate(calls) if each.end == INF]
    for chosen in range(1 << len(unsure)):
        places = [*sure, *(place for bit, place in enumerate(unsure) if chosen >> bit & 1)]
        for order in permutations(places):
            if _allowed([calls[place] for place in order], model):
                return True
    return False


def _allowed(order: Sequence[Call], model: Model) -> bool:
    state = model.start
    for number, each in enumerate(order):
        if any(later.end < each.start for later in order[number:]):
            return False
        state = model.step(state, each.action)
        if state is None:
            return False
    return True


@pytest.mark.parametrize("name", MODELS)
def test_the_search_agrees_with_trying_every_order(name: str) -> None:
    chance, agreed = random.Random(f"trying {name}"), {True: 0, False: 0}
    for _ in range(150):
        model, calls = random_calls(name, chance, most=5)
        expected = _by_trying(calls, model)
        assert linearize(calls, model).linearizable is expected, calls
        agreed[expected] += 1
    assert min(agreed.values()) > 10, agreed


LOST = acquire("a", 0, 10, 100)


def test_holds_are_calls_of_a_mutex() -> None:
    ops = [acquire("a", 0, 10, 100), release("a", 20, 40), acquire("b", 5, 30, 90)]
    fine("linearizability", *ops, release("b", 50, 60))
    # A lost hold is given up at some moment after its certain end.
    for end in (told("a", 40), check("a", 40, out="fail"), release("a", 40, None)):
        fine("linearizability", LOST, end, acquire("b", 5, 50, 90))
    fine("linearizability", LOST, acquire("b", 5, 101, 900))
    # Nobody knows of the third; it disturbs nobody.
    fine("linearizability", *ops, acquire("c", 5, None), acquire("d", 5, 9, out="info"))


def test_a_mutex_that_two_hold() -> None:
    others = [
        each
        for moment in range(-800, -600, 10)
        for each in (
            acquire(f"o{moment}", moment, moment + 5),
            release(f"o{moment}", moment + 6, moment + 8),
        )
    ]
    faulty = [LOST, acquire("b", 5, 50, 90), release("a", 60, 70)]
    rule, shown = broken("linearizability", *others, *faulty)
    assert rule == "x is not linearizable"
    assert {each.rid for each in shown} == {"a", "b"}


def test_re_entry_is_counted() -> None:
    inner = [op("reenter", 12, 14, "a"), op("leave", 15, 16, "a")]
    fine("linearizability", LOST, *inner, release("a", 20, 30), acquire("b", 5, 40, 90))
    fine("linearizability", LOST, inner[0], told("a", 20), acquire("b", 5, 40, 90))
    broken("linearizability", LOST, inner[0], release("a", 20, 30), acquire("b", 5, 40, 90))


def test_units_are_counted() -> None:
    ops = [acquire("a", 0, 10, 100, n=2), acquire("b", 5, 20, 90), acquire("c", 0, 30, 90)]
    fine("linearizability", *ops, limits={"x": 4})
    fine("linearizability", *ops, release("b", 22, 30), limits={"x": 3})
    rule, shown = broken("linearizability", *ops, release("b", 40, 50), limits={"x": 3})
    assert rule == "x is not linearizable"
    assert {each.rid for each in shown} == {"a", "b", "c"}


def test_registers_of_workers() -> None:
    many = [op("write", 10 * n, 10 * n + 5, f"z{n}", value=n) for n in range(1, 30)]
    fine("linearizability", *many, op("read", 292, 299, "r", value=29))
    rule, shown = broken("linearizability", *many, op("read", 292, 299, "r", value=7))
    assert rule == "the register x is not linearizable"
    assert len(shown) == 3


def test_a_resource_that_accepts_what_it_must_refuse() -> None:
    steps = [op("begin", 0, 0, "a", fence=5, process="resource"),
             op("begin", 1, 1, "b", fence=7, process="resource"),
             op("write", 2, 2, "b", fence=7, value=1, process="resource")]  # fmt: skip
    refused = {"fence": 5, "value": 1, "process": "resource"}
    fine("linearizability", *steps, op("write", 3, 3, "a", out="fail", **refused))
    rule, _ = broken("linearizability", *steps, op("write", 3, 3, "a", **refused))
    assert rule == "the resource x is no fenced register"


def reads(rid: str, t0: int, t1: int, **facts: Any) -> Op:
    return acquire(rid, t0, t1, 100, value="read", **facts)


def writes(rid: str, t0: int, t1: int) -> Op:
    return acquire(rid, t0, t1, 100, value="write")


def test_readers_are_many_and_a_writer_is_alone() -> None:
    readers = [reads("a", 0, 10), reads("b", 0, 10), release("a", 20, 30)]
    fine("linearizability", *readers, release("b", 25, 30), writes("c", 5, 26))
    # Whoever lost it gives it up at some moment after that.
    fine("linearizability", *readers, told("b", 50), writes("c", 5, 60))
    for hold in (reads, writes):
        rule, shown = broken("linearizability", writes("a", 0, 10), release("a", 50, 60),
                             hold("b", 5, 40))  # fmt: skip
        assert rule == "x is not linearizable"
        assert {each.rid for each in shown} == {"a", "b"}


def test_a_writer_reads_inside_and_longer() -> None:
    inside = [writes("p/1", 0, 10), reads("p/2", 11, 12, handle="p-p/1", process="p-p/1")]
    left = release("p/1", 13, 14)
    fine("linearizability", *inside, left, reads("b", 15, 20))
    rule, _ = broken("linearizability", *inside, left, writes("b", 15, 20), release("p/2", 30, 40))
    assert rule == "x is not linearizable"
    # Another task of its process may not.
    broken("linearizability", inside[0], reads("p/2", 11, 12), release("p/1", 50, 60))
