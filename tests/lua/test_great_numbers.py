"""Numbers that Redis 7.2.0 to 7.2.4 hands to commands in scientific notation change nothing.

There a script's number that can be divided by 10^8 arrives as "1e+08" (redis#13113, fixed in Redis
7.2.5 and Valkey 7.2.6): a lease of 100,000 seconds is enough. No server of these versions is at
hand, so the scripts run with a `redis` that does the same to their arguments.
"""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from redisson_py._redis.scripts.source import Arg, Script
from tests.lua.scenes import SCENES
from tests.lua.test_refusals import Recorded, outcome
from tests.support.scripts.calls import Scripts, ask

#: A lease of nearly 28 hours; also as a number of permits, a hold count and a version.
GREAT = 100_000_000

#: Converts numbers as fpconv_dtoa does, of which only those with eight zeros at the end matter.
OLD_REDIS = """
local redis = (function(redis)
  local function told(...)
    local words = {...}
    for i = 1, select('#', ...) do
      local word = words[i]
      if type(word) == 'number' and word ~= 0 and word % 100000000 == 0 then
        words[i] = string.gsub(string.format('%.16e', word), '%.?0*e', 'e')
      end
    end
    return unpack(words, 1, select('#', ...))
  end
  local call, pcall = redis.call, redis.pcall
  return setmetatable({
    call = function(...) return call(told(...)) end,
    pcall = function(...) return pcall(told(...)) end,
  }, {__index = redis})
end)(redis)
"""


class OldScripts(Scripts):
    """The scripts as such a server runs them."""

    async def _evalsha(self, script: Script, args: tuple[Arg, ...]) -> Any:
        first, _, body = self.wording(script).text.partition("\n")
        parts = [first, OLD_REDIS, body] if first.startswith("#!") else [OLD_REDIS, first, body]
        return await ask(self.redis, "EVAL", "\n".join(parts), *args)


async def test_the_old_server_is_the_old_server(redis: Redis) -> None:
    """Else nothing is shown here."""
    for number, shown in [
        ("1e8", b"1e+08"),
        ("12300000000", b"1.23e+10"),
        ("-2e8", b"-2e+08"),
        ("10000000", b"10000000"),
        ("0", b"0"),
        ("'100000000'", b"100000000"),
    ]:
        # Lua writes two digits of an exponent, fpconv_dtoa as few as there are.
        text = f"{OLD_REDIS}return redis.call('ECHO', {number})"
        assert await ask(redis, "EVAL", text, 0) == shown
    with pytest.raises(ResponseError, match="not an integer"):
        await ask(redis, "EVAL", OLD_REDIS + "return redis.call('PEXPIRE', KEYS[1], 1e8)", 1, "k")


def rough(value: Any) -> Any:
    """Return a reply or a state without the milliseconds that two runs differ by."""
    if isinstance(value, dict):
        return {name: rough(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [rough(each) for each in value]
    if isinstance(value, bytes) and re.fullmatch(rb"-?\d+(\.\d+)?", value):
        return rough(float(value))
    if isinstance(value, bytes):
        # A generation of a barrier is named after its moment.
        return re.sub(rb"\d{16}", b"moment", value)
    if isinstance(value, int | float) and value > 10**15:
        # A moment of the clock in microseconds: two runs may be seconds apart.
        return "moment"
    if isinstance(value, int | float) and value > GREAT / 2:
        # A moment of the clock in milliseconds, or a time that is left.
        return round(value / 10_000_000)
    # Half as long again is the same: two runs may be seconds apart.
    is_long = isinstance(value, int | float) and value > 1000
    return round(math.log2(1.3 * value)) if is_long else value


async def state(redis: Redis) -> list[Any]:
    """Return every key with its value and expiry."""
    found: list[Any] = []
    for key in sorted([each async for each in redis.scan_iter()]):
        readings: dict[Any, tuple[Any, ...]] = {
            b"hash": ("HGETALL", key),
            b"string": ("GET", key),
            b"list": ("LRANGE", key, 0, -1),
            b"zset": ("ZRANGE", key, 0, -1, "WITHSCORES"),
        }
        value = await ask(redis, *readings[await redis.type(key)])
        found.append([key, rough(await redis.pttl(key)), rough(value)])
    return found


async def grow(redis: Redis) -> None:
    """Have great numbers and far ends where there are others."""
    for key in await ask(redis, "KEYS", "*"):
        kind = await redis.type(key)
        if kind == b"string" and (await ask(redis, "GET", key)).isdigit():
            await redis.set(key, GREAT, keepttl=True)
        fields = await ask(redis, "HGETALL", key) if kind == b"hash" else {}
        for field, value in fields.items():
            # Each hold of a reader has a key of its own, so they are few.
            if value.isdigit() and int(value) > 1 and b"mode" not in fields:
                await ask(redis, "HSET", key, field, GREAT)
        if await redis.pttl(key) > 0:
            await redis.pexpire(key, 2 * GREAT)


@pytest.mark.parametrize("name", SCENES)
async def test_great_numbers_do_there_what_they_do_here(redis: Redis, name: str) -> None:
    recorded = await Recorded.on(redis)
    old = await OldScripts.on(redis)
    await recorded.before(name)

    async def seen(by: Scripts, index: int, *, grows: bool) -> tuple[Any, Any]:
        await recorded.before(name)
        if grows:
            await grow(redis)
        changed = [(index, GREAT)] if index else []
        reply = await outcome(recorded.call(*changed, by=by))
        return rough(reply), await state(redis)

    for grows in (False, True):
        for number, index in [("none", 0), *recorded.numbers()] if grows else recorded.numbers():
            here = there = None
            # Who waits in a queue goes first after 20 ms and is passed over after 50: where the
            # machine stood still in one of the two runs, both are done again.
            for _ in range(5):
                here, there = [await seen(by, index, grows=grows) for by in (recorded, old)]
                if here == there:
                    break
            assert here == there, (number, grows)
    await redis.flushdb()
