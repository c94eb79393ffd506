"""By hand: fencing, the referee, hold counts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.jepsen.checkers.verdict import EXCUSED
from tests.jepsen.checkers.written import acquire, broken, check, fine, judge, op, release, told
from tests.jepsen.history import Op

#: Three grants, one after the other.
GRANTS = [
    acquire("a", 0, 10, fence=5),
    acquire("b", 20, 30, fence=7),
    acquire("c", 25, 40, fence=8),
]
REENTERED = op("reenter", 12, 14, "a", fence=5)


def test_tokens_that_grow_are_fine() -> None:
    fine("fencing", *GRANTS, REENTERED)
    # Those that overlap may have any order.
    fine("fencing", acquire("a", 0, 10, fence=7), acquire("b", 5, 30, fence=5))
    fine("fencing", GRANTS[1], acquire("d", 50, 60, fence=3, out="info"))


def test_one_token_for_two_grants() -> None:
    rule, shown = broken("fencing", *GRANTS, acquire("d", 35, 60, fence=7))
    assert rule == "one token for two grants of x"
    assert {each.rid for each in shown} == {"b", "d"}


def test_a_smaller_token_later() -> None:
    rule, shown = broken("fencing", *GRANTS, acquire("d", 41, 60, fence=6))
    assert rule == "a later grant of x has a smaller token"
    assert {each.rid for each in shown} == {"c", "d"}


def test_another_token_on_re_entry() -> None:
    rule, _ = broken("fencing", *GRANTS, op("reenter", 12, 14, "a", fence=6))
    assert rule == "another token of x on re-entry"


@pytest.mark.parametrize(
    ("assumptions", "excused"),
    [({"data"}, False), ({"keys"}, False), ({"clocks"}, False), ({"clocks", "data"}, True)],
)
def test_tokens_need_the_counter_or_the_clock(assumptions: set[str], excused: bool) -> None:
    late = acquire("d", 41, 60, fence=6)
    assert judge("fencing", *GRANTS, late, broken=frozenset(assumptions)).ok is excused


def step(word: str, moment: int, rid: str, **facts: Any) -> Op:
    """Return a step that the resource saw."""
    return op(word, moment, moment, rid, process="resource", **facts)


def section(rid: str, moment: int, token: int, value: int, out: str = "ok") -> list[Op]:
    """Return a section that asks, reads and writes at three moments."""
    return [
        step("ask", moment, rid),
        step("begin", moment + 1, rid, owner=rid, fence=token),
        step("write", moment + 2, rid, fence=token, value=value, out=out),
    ]


def test_sections_one_after_the_other() -> None:
    fine("referee", *section("a", 0, 1, 1), *section("b", 10, 2, 2), *section("c", 20, 3, 3))
    # A round may begin with what the last one wrote.
    fine("referee", *section("b", 10, 2, 2), *section("c", 20, 3, 3))


def test_a_smaller_token_is_accepted() -> None:
    old = section("a", 0, 1, 2)
    old[2] = step("write", 15, "a", fence=1, value=2)
    found = judge("referee", *old, *section("b", 0, 2, 1))
    assert "smaller token accepted: x" in {each.rule for each in found.violations}


def test_tokens_not_in_order() -> None:
    rule, shown = broken("referee", *section("a", 0, 3, 1), *section("b", 10, 2, 2, out="fail"))
    assert rule == "tokens not in order: x"
    assert {each.rid for each in shown} == {"a", "b"}


def test_a_newer_section_is_overtaken() -> None:
    before = [step for n in range(20) for step in section(f"z{n}", 4 * n, n + 1, n + 1)]
    old = section("a", 100, 21, 21)
    old[2] = step("write", 115, "a", fence=21, value=21)
    newer = [step("ask", 110, "b"), step("begin", 111, "b", owner="b", fence=22)]
    rule, shown = broken("referee", *before, *old, *newer)
    assert rule == "overtaken: x"
    assert {each.rid for each in shown} == {"a", "b"}


def test_a_lost_update() -> None:
    ops = [*section("a", 0, 1, 1), *section("b", 10, 2, 2), *section("c", 20, 3, 2)]
    rule, shown = broken("referee", *ops)
    assert rule == "lost update: x"
    assert {each.rid for each in shown} == {"b", "c"}


def test_a_resource_without_tokens_is_safe_until_a_hold_is_lost() -> None:
    ops = [*section("a", 0, 0, 1), *section("b", 10, 0, 1)]
    holds = [acquire("a", 0, 1, 50), release("a", 3, 4), acquire("b", 5, 6, 50), release("b", 9, 9)]
    rule, _ = broken("referee", *ops, *holds)
    assert rule == "lost update: x"
    for lost in (told("b", 30), check("b", 30, out="fail"), acquire("c", 0, 60, 70)):
        verdict = fine("referee", *ops, *holds, lost)
        assert verdict.figures[EXCUSED] == {"lost update": 1}


#: Entered twice, left twice; the server was asked now and then.
ENTRIES = [
    acquire("a", 0, 1, 50, n=1),
    op("reenter", 2, 3, "a", n=2, value=2),
    op("leave", 4, 5, "a", n=1),
    release("a", 6, 7, n=0, value=0),
]


def test_hold_counts_as_they_should_be() -> None:
    fine("hold count", *ENTRIES)
    assert judge("hold count", *ENTRIES).looked_at == 4


@pytest.mark.parametrize(
    ("place", "changed", "rule"),
    [
        (0, {"n": 2}, "the hold count is not that of the model: of x"),
        (1, {"n": 3}, "the hold count is not that of the model: of x"),
        (1, {"value": 1}, "the hold count in the server is not that of the model: of x"),
        (2, {"n": 2}, "the hold count is not that of the model: of x"),
        (3, {"value": 1}, "the hold count in the server is not that of the model: of x"),
    ],
)
def test_a_wrong_count(place: int, changed: dict[str, int], rule: str) -> None:
    words = [("acquire", 0), ("reenter", 2), ("leave", 4), ("release", 6)]
    ops = [*ENTRIES]
    word, moment = words[place]
    facts = {"n": ops[place].n, "value": ops[place].value, "owner": ops[place].owner, **changed}
    ops[place] = op(word, moment, moment + 1, "a", **facts)
    assert broken("hold count", *ops)[0] == rule


def test_a_release_without_a_hold() -> None:
    rule, _ = broken("hold count", *ENTRIES, op("leave", 8, 9, "a"))
    assert rule == "a release without a hold of x"


def test_an_uncertain_entry_counts_both_ways() -> None:
    unsure = op("reenter", 2, 3, "a", out="info")
    for count in (0, 1):
        left = op("leave", 4, 5, "a", n=count)
        fine("hold count", ENTRIES[0], unsure, left)
    broken("hold count", ENTRIES[0], unsure, op("leave", 4, 5, "a", n=2))
    # After that it is known.
    broken(
        "hold count", ENTRIES[0], unsure, op("leave", 4, 5, "a", n=1), op("leave", 6, 7, "a", n=1)
    )


def test_nothing_counts_after_a_loss() -> None:
    fine("hold count", *ENTRIES[:2], told("a", 4), op("leave", 5, 6, "a", n=7))
    fine("hold count", *ENTRIES[:2], check("a", 4, out="fail"), op("leave", 5, 6, "a", n=7))
