"""Scripts give no Lua numbers to Redis: some servers would read them as "1e+08"."""

from __future__ import annotations

import re

import pytest

from redisson_py._redis.scripts import source
from tests.house.lua_arguments import numbers

SCRIPTS = source.load_all()
#: One number as text, which may have parentheses in it.
CONVERTED = re.compile(r"string\.format\('%\.0f', ((?:[^(),]|\((?:[^()]|\([^()]*\))*\))+)\)")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_no_argument_is_a_number(script: source.Script) -> None:
    assert numbers(script.text) == []


def test_each_conversion_in_a_call_is_missed_when_it_is_gone() -> None:
    """What this house test does not see would be found by users of Redis 7.2."""
    missed, seen = [], 0
    for script in SCRIPTS:
        for found in CONVERTED.finditer(script.text):
            row = script.text[script.text.rfind("\n", 0, found.start()) + 1 : found.start()]
            called = re.search(r"redis\.p?call\('(\w+)'(?:(?!redis\.).)*$", row)
            if called is None or called[1] == "ZADD":
                continue
            worse = script.text[: found.start()] + found[1] + script.text[found.end() :]
            seen += 1
            if not numbers(worse):
                missed.append((script.name, found[0]))
    assert missed == []
    assert seen > 100
