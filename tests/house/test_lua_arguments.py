"""Scripts give no Lua numbers to Redis: some servers would read them as "1e+08"."""

from __future__ import annotations

import re

import pytest

from redisson_py._scripts import source
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
            line = script.text[script.text.rfind("\n", 0, found.start()) + 1 : found.start()]
            called = re.search(r"redis\.p?call\('(\w+)'(?:(?!redis\.).)*$", line)
            if called is None or called[1] == "ZADD":
                continue
            worse = script.text[: found.start()] + found[1] + script.text[found.end() :]
            seen += 1
            if not numbers(worse):
                missed.append((script.name, found[0]))
    assert missed == []
    assert seen > 100


@pytest.mark.parametrize(
    "line",
    [
        "local ms = whole(ARGV[1], 1)\nredis.call('PEXPIRE', KEYS[1], ms)",
        "redis.call('PEXPIRE', KEYS[1], ARGV[1] * 2)",
        "redis.call('PEXPIRE', KEYS[1], ARGV[1] + 1)",
        "redis.call('SET', KEYS[1], 'x', 'PX', math.max(1, 2))",
        "redis.call('INCRBY', KEYS[1], -units)",
        "redis.call('INCRBY', KEYS[1], #KEYS)",
        "redis.call('INCRBY', KEYS[1], 100000000)",
        "redis.call('PUBLISH', KEYS[1], redis.call('HLEN', KEYS[2]))",
        "redis.call('PEXPIRE', KEYS[1], redis.call('PTTL', KEYS[2]))",
        "redis.call('PEXPIRE', KEYS[1], ARGV[1] == '0' and '1' or now())",
        "redis.call('PEXPIRE', KEYS[1], left or '1')",
        "local left = redis.call('PTTL', KEYS[1])\nredis.call('PEXPIRE', KEYS[1], left)",
        "local ms = ARGV[1]\nms = tonumber(ms)\nredis.pcall('PEXPIRE', KEYS[1], ms)",
        "local a, b = ARGV[1], whole(ARGV[2], 1)\nredis.call('SET', KEYS[1], a, 'PX', b)",
        "local function f(key, ms)\n  redis.call('PEXPIRE', key, ms)\nend",
        "for i = 1, 3 do\n  redis.call('INCRBY', KEYS[1], i)\nend",
        "local rows = {}\nrows[1] = now()\nredis.call('HSET', KEYS[1], unpack(rows))",
        "redis.call('SET', KEYS[1], 'v' .. whole(ARGV[1], 1))",
    ],
)
def test_numbers_are_seen(line: str) -> None:
    assert numbers(line) != []


@pytest.mark.parametrize(
    "line",
    [
        "local ms = ARGV[1]\nredis.call('PEXPIRE', KEYS[1], ms)\nms = whole(ms, 1)",
        "redis.call('PEXPIRE', KEYS[1], string.format('%.0f', ARGV[1] * 2))",
        "redis.call('LRANGE', KEYS[1], 0, -1)",
        "redis.call('PEXPIRE', KEYS[1], left and string.format('%.0f', left) or '1')",
        "local mine = redis.call('HGET', KEYS[1], ARGV[1])\nredis.call('INCRBY', KEYS[2], mine)",
        "for _, each in ipairs(KEYS) do\n  redis.call('DEL', each)\nend",
        "local rows = {}\nrows[1] = string.format('%.0f', 1)\nredis.call('DEL', unpack(rows))",
        "-- redis.call('PEXPIRE', KEYS[1], 5 * 5)",
        "redis.call('SET', KEYS[1], 'v' .. ARGV[1])",
        "redis.call('ZADD', KEYS[1], now(), ARGV[1])",
    ],
)
def test_text_is_none(line: str) -> None:
    assert numbers(line) == []
