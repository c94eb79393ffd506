"""The list of a client's holds: found by key and by field, whatever comes and goes."""

from __future__ import annotations

import random
from typing import Any

from redisson_py._engine.hold import Hold
from redisson_py._engine.holds import Holds
from tests.unit.fakes import FakeContext, FakeOwnership, make_hold


def of_names(names: int, each: int) -> list[Hold]:
    """Make this many holds on each of some names."""
    context = FakeContext()
    return [
        make_hold(FakeOwnership(f"k{name}", context=context), owner=f"c:{number}")
        for name in range(names)
        for number in range(each)
    ]


def test_what_is_there_is_found_on_its_key_and_by_its_field() -> None:
    made, chance = of_names(5, 6), random.Random(31)
    holds, there = Holds(), list[Hold]()
    for _ in range(3000):
        hold = chance.choice(made)
        if hold in holds:
            holds.remove(hold)
            there.remove(hold)
        else:
            holds.add(hold)
            there.append(hold)
        holds.check()
        key = hold.ownership.commands.key
        assert holds.on(key) == [each for each in there if each.ownership.commands.key == key]
        assert holds.find(key, hold.field) is (hold if hold in holds else None)
        assert sorted(holds, key=id) == sorted(there, key=id)
    holds.clear()
    holds.check()
    assert not any(holds.on(each.ownership.commands.key) for each in made)


def test_a_name_has_holds_of_several_kinds() -> None:
    context: Any = FakeContext()
    one = make_hold(FakeOwnership("k", "lock", context), owner="c:1")
    other = make_hold(FakeOwnership("k", "read lock", context), owner="c:2")
    holds = Holds()
    for hold in (one, other):
        holds.add(hold)
    assert holds.on(b"k") == [one, other]
    assert holds.find(b"k", b"c:2") is other
    assert holds.find(b"k", b"c:3") is None
