"""The scripts of one fair lock, and what Redisson's fair lock does to the same keys."""

from __future__ import annotations

from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import _keys
from redisson_py._redis.scripts.source import Arg
from tests.support.scripts.calls import LEASE, TOMBSTONE, A, Scripts, ask
from tests.support.scripts.lock import LockScripts

#: What Redisson takes for the wait of a caller without one.
WAIT = 300_000
#: How far apart two looks at the server's clock may be, in milliseconds.
SLACK = 4000

_PURGE = """
while true do
  local head = redis.call('lindex', KEYS[2], 0)
  local score = head and redis.call('zscore', KEYS[3], head)
  if not score or tonumber(score) > tonumber(ARGV[4]) then break end
  redis.call('zrem', KEYS[3], head)
  redis.call('lpop', KEYS[2])
end
"""

#: What Redisson does to the keys, in other words.
#: ARGV: lease, owner, wait, now.
REDISSON_TRY = (
    _PURGE
    + """
local owner, wait, now = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local head = redis.call('lindex', KEYS[2], 0)
if redis.call('exists', KEYS[1]) == 0 and (not head or head == owner) then
  redis.call('lpop', KEYS[2])
  redis.call('zrem', KEYS[3], owner)
  for _, member in ipairs(redis.call('zrange', KEYS[3], 0, -1)) do
    redis.call('zincrby', KEYS[3], -wait, member)
  end
  redis.call('hset', KEYS[1], owner, 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
if redis.call('zscore', KEYS[3], owner) then
  return math.max(0, redis.call('pttl', KEYS[1]))
end
local last = redis.call('lindex', KEYS[2], -1)
local score = last and last ~= owner and redis.call('zscore', KEYS[3], last)
local left = score and tonumber(score) - now or redis.call('pttl', KEYS[1])
if redis.call('zadd', KEYS[3], string.format('%.0f', now + left + wait), owner) == 1 then
  redis.call('rpush', KEYS[2], owner)
end
return left
"""
)
#: The same for 4.6. ARGV: unused, owner, channel, now.
REDISSON_UNLOCK = (
    _PURGE
    + """
local function tell()
  local head = redis.call('lindex', KEYS[2], 0)
  if head then redis.call('publish', ARGV[3] .. ':' .. head, 0) end
  return 1
end
if redis.call('exists', KEYS[1]) == 0 then return tell() end
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return nil end
redis.call('del', KEYS[1])
return tell()
"""
)


def about(score: float) -> object:
    """Return what equals a moment, but for the time between two looks at the clock."""
    return pytest.approx(score, abs=SLACK)


class FairScripts(LockScripts):
    """The scripts of one fair lock, with the values that most tests do not vary.

    Args:
        positions: The places in the queue that an acquire asks for, unless it says otherwise.
    """

    def __init__(self, scripts: Scripts, key: bytes = b"k", positions: int = 1) -> None:
        super().__init__(scripts, key=key)
        self.positions = positions
        self.queue = _keys.prefixed(b"redisson_lock_queue", key)
        self.timeouts = _keys.prefixed(b"redisson_lock_timeout", key)
        self.waiters = _keys.suffixed(key, b"redisson_py:waiters")

    def channel_of(self, owner: str) -> bytes:
        """Return where a waiter is told that it is the head of a free lock."""
        return self.channel + b":" + owner.encode()

    def known(self, owner: str) -> dict[str, Arg]:
        """Return what scripts are told of this lock and of an owner."""
        names = {"queue": self.queue, "timeouts": self.timeouts, "waiters": self.waiters}
        return super().known(owner) | names | {"wait_ms": WAIT, "alive_ms": LEASE, "place": "1"}

    async def acquire(
        self,
        owner: str = A,
        holds: Arg = 1,
        lease_ms: Arg = LEASE,
        tokens: Arg = 0,
        *,
        positions: Arg | None = None,
        **more: Arg,
    ) -> int | None:
        """Ask for a hold and, if it is busy, for a place in the queue; None is granted."""
        more |= {"holds": holds, "lease_ms": lease_ms}
        more["place"] = str(self.positions if positions is None else positions)
        reply: int | None = await self.run("fair_lock.acquire", owner, **more)
        return reply

    async def try_once(self, owner: str = A) -> int | None:
        """Ask for a hold, and for nothing else."""
        return await self.acquire(owner, positions=0)

    async def release(
        self,
        owner: str = A,
        holds: Arg = 0,
        lease_ms: Arg = LEASE,
        tombstone_ms: Arg = 0,
        **more: Arg,
    ) -> int | None:
        """Fall to a hold count; to none means to leave the queue too."""
        more |= {"holds": holds, "lease_ms": lease_ms, "tombstone_ms": tombstone_ms}
        reply: int | None = await self.run("fair_lock.release", owner, **more)
        return reply

    async def leave(self, owner: str = A, wait_ms: Arg = WAIT) -> int | None:
        """Give up, as a waiter does whose time is up or who is cancelled."""
        return await self.release(owner, tombstone_ms=TOMBSTONE, wait_ms=wait_ms)

    async def set_lease(self, owner: str = A, lease_ms: Arg = LEASE, **more: Arg) -> int:
        """Set what is left of the lease."""
        return int(await self.run("fair_lock.set_lease", owner, lease_ms=lease_ms, **more))

    async def force_release(self, request: str = "r1", receipt_ms: Arg = TOMBSTONE) -> int:
        """Free the lock whoever has it."""
        receipt = self.receipt(request)
        return int(
            await self.run("fair_lock.force_release", receipt=receipt, receipt_ms=receipt_ms)
        )

    async def inspect(self) -> list[Any]:
        """Read the lock and its queue."""
        found: list[Any] = await self.run("fair_lock.inspect")
        return found

    async def queued(self) -> list[str]:
        """Return who waits, in order."""
        return [owner.decode() for owner in await ask(self.redis, "LRANGE", self.queue, 0, -1)]

    async def everybody_leaves(self) -> None:
        """Have all who wait give up, one after the other from the head."""
        if await self.redis.type(self.queue) == b"list":
            for owner in await self.queued():
                await self.leave(owner)

    async def moments(self, key: bytes | None = None) -> dict[str, float]:
        """Return the scores in `timeouts` or another sorted set, from now, in milliseconds."""
        untyped: Any = self.redis
        pairs = await untyped.zrange(key or self.timeouts, 0, -1, withscores=True)
        present = await server_ms(self.redis)
        return {owner.decode(): score - present for owner, score in pairs}

    async def alive(self) -> dict[str, float]:
        """Return for how many milliseconds this toolkit's waiters count as alive."""
        return await self.moments(self.waiters)

    async def set_moment(self, owner: str, left_ms: float, key: bytes | None = None) -> None:
        """Move a score of `timeouts`, or another sorted set, to so long from now."""
        score = round(await server_ms(self.redis) + left_ms)
        await ask(self.redis, "ZADD", key or self.timeouts, score, owner)

    async def die(self, owner: str) -> None:
        """Make it a lease since this waiter last asked."""
        await self.set_moment(owner, -1, self.waiters)

    async def end_lease(self) -> None:
        """Have the holder's lease end, without a message."""
        await self.redis.delete(self.key)

    async def java_tries(
        self, owner: str, wait_ms: int = WAIT, lease_ms: int = LEASE, ahead_ms: int = 0
    ) -> int | None:
        """Ask as Redisson does; its clock may be ahead."""
        present = await server_ms(self.redis) + ahead_ms
        reply: int | None = await self._redisson(REDISSON_TRY, lease_ms, owner, wait_ms, present)
        return reply

    async def java_unlocks(self, owner: str) -> int | None:
        """Release as Redisson does."""
        present = await server_ms(self.redis)
        reply: int | None = await self._redisson(REDISSON_UNLOCK, 0, owner, self.channel, present)
        return reply

    async def _redisson(self, text: str, *args: Arg) -> Any:
        keys = (self.key, self.queue, self.timeouts)
        return await ask(self.redis, "EVAL", text, len(keys), *keys, *args)


async def server_ms(redis: Redis) -> int:
    """Return the server's clock in milliseconds."""
    seconds, microseconds = await ask(redis, "TIME")
    return int(seconds) * 1000 + int(microseconds) // 1000
