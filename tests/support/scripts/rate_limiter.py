"""Runs the scripts of a rate limiter, and Redisson's beside them."""

from __future__ import annotations

from typing import Any

from redisson_py._redis.commands.rate_limiter import Limit, RateLimiterCommands
from redisson_py._redis.scripts.source import Arg
from tests.support.scripts.calls import Scripts, ask

#: Of RedissonRateLimiter in the jar of Redisson 4.7.0, as MONITOR shows it; only the ends of rows
#: are ours.
REDISSON_ACQUIRE = r"""
local rate = redis.call('hget', KEYS[1], 'rate');
local interval = redis.call('hget', KEYS[1], 'interval');
local type = redis.call('hget', KEYS[1], 'type');
assert(rate ~= false and interval ~= false and type ~= false, 'RateLimiter is not initialized')
local valueName = KEYS[2];
local permitsName = KEYS[4];
if type == '1' then valueName = KEYS[3];permitsName = KEYS[5];end;
assert(tonumber(rate) >= tonumber(ARGV[1]), 'Requested permits amount cannot exceed defined rate');
local currentValue = redis.call('get', valueName); local res;
if currentValue ~= false then
 local expiredValues = redis.call('zrangebyscore', permitsName, 0, tonumber(ARGV[2]) - interval);
 local released = 0; for i, v in ipairs(expiredValues) do
 local random, permits = struct.unpack('Bc0I', v);released = released + permits;end;
 if released > 0 then
 redis.call('zremrangebyscore', permitsName, 0, tonumber(ARGV[2]) - interval);
 if tonumber(currentValue) + released > tonumber(rate) then
 local values = redis.call('zrange', permitsName, 0, -1); local used = 0;
 for i, v in ipairs(values) do
 local random, permits = struct.unpack('Bc0I', v);used = used + permits;end;
 currentValue = tonumber(rate) - used;
 else currentValue = tonumber(currentValue) + released; end;
 redis.call('set', valueName, currentValue);end;
 if tonumber(currentValue) < tonumber(ARGV[1]) then
 local firstValue = redis.call('zrange', permitsName, 0, 0, 'withscores');
 res = 3 + interval - (tonumber(ARGV[2]) - tonumber(firstValue[2]));
 else redis.call('zadd', permitsName, ARGV[2],
 struct.pack('Bc0I', string.len(ARGV[3]), ARGV[3], ARGV[1]));
 redis.call('decrby', valueName, ARGV[1]); res = nil; end;
else redis.call('set', valueName, rate);
 redis.call('zadd', permitsName, ARGV[2],
 struct.pack('Bc0I', string.len(ARGV[3]), ARGV[3], ARGV[1]));
 redis.call('decrby', valueName, ARGV[1]); res = nil; end;
local keepAliveTime = redis.call('hget', KEYS[1], 'keepAliveTime');
if (keepAliveTime ~= false and tonumber(keepAliveTime) > 0) then
 redis.call('pexpire', KEYS[1], keepAliveTime); redis.call('pexpire', valueName, keepAliveTime);
 redis.call('pexpire', permitsName, keepAliveTime);
else local ttl = redis.call('pttl', KEYS[1]); if ttl > 0 then
 redis.call('pexpire', valueName, ttl); redis.call('pexpire', permitsName, ttl); end; end;
return res;
"""
#: Units given back, by Redisson 3.52.0 and newer; without what is about expiries.
REDISSON_RELEASE = r"""
local rate = redis.call('hget', KEYS[1], 'rate');
local currentValue = redis.call('get', KEYS[2]);
if currentValue == false then currentValue = tonumber(rate);
else currentValue = tonumber(currentValue);end;
local newValue = currentValue + tonumber(ARGV[1]);
if newValue > tonumber(rate) then newValue = tonumber(rate);end;
redis.call('set', KEYS[2], newValue);
"""


class RateLimiterScripts:
    """The scripts of one rate limiter of one client."""

    def __init__(self, scripts: Scripts, key: bytes = b"r") -> None:
        self.scripts = scripts
        self.redis = scripts.redis
        self.commands = RateLimiterCommands(key, "me", 0)
        self.key = key
        self.names: dict[str, Arg] = {
            "config": key,
            **self.commands._counters,
            "undone": self.commands._undone,
            "channel": self.commands.channel,
            "receipt": b"{%s}:redisson_py:receipt:a" % key,
        }
        self._calls = 0

    async def acquire(
        self, *requests: tuple[bytes, int], first: Limit | None = None, looks: int = 0
    ) -> list[int]:
        first = first or Limit(0, 0, per_client=False)
        found: list[int] = await self.scripts.run(
            "rate_limiter.acquire",
            self.names,
            ids=b"".join(each for each, _ in requests),
            units=b"".join(n.to_bytes(4, "big") for _, n in requests),
            looks=looks,
            rate=first.rate,
            interval_ms=first.interval_ms,
            per_client=int(first.per_client),
        )
        return found

    async def undo(self, request_id: bytes, units: Arg = 1, undone_ms: Arg = 60_000) -> int:
        values: dict[str, Arg] = {"id": request_id, "units": units, "undone_ms": undone_ms}
        return int(await self.scripts.run("rate_limiter.undo", self.names, **values))

    async def set(
        self,
        rate: Arg = 5,
        interval_ms: Arg = 60_000,
        *,
        replaces: int = 1,
        per_client: Arg = 0,
        calls: int | None = None,
    ) -> int:
        limit: dict[str, Arg] = {"rate": rate, "interval_ms": interval_ms}
        limit |= {"per_client": per_client, "replaces": replaces}
        return await self._change("set", calls, **limit)

    async def delete(self, *, calls: int | None = None) -> int:
        return await self._change("delete", calls)

    async def _change(self, verb: str, calls: int | None, **values: Arg) -> int:
        self._calls = self._calls + 1 if calls is None else max(self._calls, calls)
        values["calls"] = self._calls if calls is None else calls
        return int(await self.scripts.run(f"rate_limiter.{verb}", self.names, **values))

    async def state(self) -> tuple[Any, list[tuple[int, int]]]:
        """Return what is left, and the moments and units of the admissions."""
        value = await ask(self.redis, "GET", self.names["value"])
        permits = self.commands.keys(per_client=False)[2]
        found: Any = await self.redis.zrange(permits, 0, -1, withscores=True)
        return value, sorted((int(at), int.from_bytes(each[-4:], "little")) for each, at in found)

    async def redisson_acquire(self, now_ms: int, request_id: bytes, units: int) -> int | None:
        """Ask as Redisson does; None: admitted."""
        keys = [self.key, *self.commands._counters.values()]
        found: int | None = await ask(
            self.redis, "EVAL", REDISSON_ACQUIRE, 5, *keys, units, now_ms, request_id
        )
        return found

    async def redisson_release(self, units: int) -> None:
        """Give units back as Redisson does."""
        await ask(
            *(self.redis, "EVAL", REDISSON_RELEASE, 2, self.key, self.commands._counters["value"]),
            units,
        )
