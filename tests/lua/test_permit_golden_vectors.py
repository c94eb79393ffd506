"""Keys, values and messages of semaphores are those of Redisson.

What Redisson's own scripts left behind was recorded there. Where it published a negative number
we publish nothing (18, must not 1). Beside its keys ours has records, a note and receipts of its
own.
"""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

from tests.lua.test_golden_vectors import listening
from tests.support.scripts.calls import LEASE, A, B, Scripts, ask
from tests.support.scripts.expirable import ExpirableScripts
from tests.support.scripts.permits import NEVER, SemaphoreScripts

W, X, Y, Z = (bytes([n]) * 16 for n in range(4))

#: What Redisson does to the keys (12.2, 13.2, 13.3), in our own words.
JAVA_ACQUIRE = """
if tonumber(redis.call('get', KEYS[1]) or -1) < tonumber(ARGV[1]) then return 0 end
redis.call('decrby', KEYS[1], ARGV[1])
return 1
"""
JAVA_RELEASE = """
redis.call('publish', ARGV[2], redis.call('incrby', KEYS[1], ARGV[1]))
"""
JAVA_ACQUIRE_ID = """
local over = redis.call('zrangebyscore', KEYS[2], 0, ARGV[3], 'limit', 0, 1)
if #over > 0 then
  redis.call('zrem', KEYS[2], unpack(over))
  redis.call('incrby', KEYS[1], #over)
end
if tonumber(redis.call('get', KEYS[1]) or -1) < 1 then return 0 end
redis.call('decrby', KEYS[1], 1)
redis.call('zadd', KEYS[2], ARGV[2], ARGV[1])
return 1
"""
JAVA_RELEASE_ID = """
if redis.call('zrem', KEYS[2], ARGV[1]) == 0 then return 0 end
redis.call('publish', ARGV[2], redis.call('incrby', KEYS[1], 1))
return 1
"""


async def milliseconds(redis: Redis) -> int:
    seconds, micros = await ask(redis, "TIME")
    return int(seconds) * 1000 + int(micros) // 1000


async def test_plain_semaphore(scripts: Scripts, redis: Redis) -> None:
    s = SemaphoreScripts(scripts, b"s")
    async with listening(redis, b"redisson_sc:{s}") as listener:
        assert await s.set(3) == 1
        assert await redis.get("s") == b"3"
        assert await redis.pttl("s") == -1
        assert await listener.heard() == [b"3"]
        assert await s.acquire(A, 2) is None
        assert await redis.get("s") == b"1"
        assert await s.acquire(B, 2) is not None
        assert await listener.heard() == []
        assert await s.release(A) == 2
        assert await redis.get("s") == b"3"
        assert await listener.heard() == [b"3"]
        assert await s.add(5) == 8
        assert await listener.heard() == [b"8"]
        assert await s.drain() == 8
        assert await redis.get("s") == b"0"
        assert await listener.heard() == []
        assert await s.add(-5) == -5
        assert await redis.get("s") == b"-5"
        assert await listener.heard() == []
    assert {*await ask(redis, "KEYS", "*")} == {b"s", s.receipt(), s.total}
    await redis.delete("s")


async def test_permits_with_ids(scripts: Scripts, redis: Redis) -> None:
    p = ExpirableScripts(scripts, b"p")
    async with listening(redis, b"redisson_sc:{p}") as listener:
        assert await p.set(3) == 1
        assert await listener.heard() == [b"3"]
        assert await p.acquire(W) is None
        assert await p.acquire(X + Y) is None
        for permit in (X, Y):
            await ask(redis, "ZADD", "{p}:timeout", NEVER, permit)
        hint = await p.acquire(Z)
        assert hint is not None
        assert 0 < hint <= LEASE
        assert await listener.heard() == []
        assert {*await ask(redis, "ZRANGE", "{p}:timeout", 0, -1)} == {W, X, Y}
        await p.end(W)
        assert await p.acquire(Z) is None
        assert await listener.heard() == [b"1"]  # from giving back what was over
        assert await p.acquire(Z) is None
        assert await p.release(Z) == 2
        assert await listener.heard() == [b"1"]
        assert await p.release_all(X + Y) == 2
        assert await listener.heard() == [b"2"]
        assert await redis.get("p") == b"3"
        assert await p.set(5, replaces=1) == 1
        assert await listener.heard() == [b"5"]
        assert await p.set(2, replaces=1) == 1
        assert await listener.heard() == [b"2"]
        assert await p.add(3) == 5
        assert await listener.heard() == [b"3"]
        assert await p.add(-9) == -4
        assert await listener.heard() == []
    assert {*await ask(redis, "KEYS", "*")} == {b"p", p.receipt()}
    await redis.delete("p")


async def test_redisson_and_we_share_a_plain_semaphore(scripts: Scripts, redis: Redis) -> None:
    s = SemaphoreScripts(scripts, b"s")

    async def java(script: str, *args: Any) -> Any:
        return await ask(redis, "EVAL", script, 1, b"s", *args)

    await redis.set("s", 5)
    assert await s.acquire(A, 3) is None
    assert await java(JAVA_ACQUIRE, 3) == 0
    assert await java(JAVA_ACQUIRE, 2) == 1
    assert await s.acquire(B) is not None
    async with listening(redis, b"redisson_sc:{s}") as listener:
        await java(JAVA_RELEASE, 2, b"redisson_sc:{s}")
        assert await s.acquire(B) is None
        await s.end(A)
        # The dead holder of ours does not stop Redisson for longer than we need to ask.
        assert await java(JAVA_ACQUIRE, 3) == 0
        assert await s.available() == 4
        assert await java(JAVA_ACQUIRE, 3) == 1
        await java(JAVA_RELEASE, 3, b"redisson_sc:{s}")
        assert await s.release(B) == 2
        assert await listener.heard() == [b"2", b"4", b"4", b"5"]
    await redis.delete("s")


async def test_redisson_and_we_share_permits_with_ids(scripts: Scripts, redis: Redis) -> None:
    p = ExpirableScripts(scripts, b"p")

    async def java(script: str, *args: Any) -> Any:
        return await ask(redis, "EVAL", script, 2, b"p", b"{p}:timeout", *args)

    await redis.set("p", 2)
    present = await milliseconds(redis)
    assert await java(JAVA_ACQUIRE_ID, W, NEVER, present) == 1
    assert await p.acquire(X) is None
    assert await java(JAVA_ACQUIRE_ID, Y, NEVER, present) == 0
    assert await p.lease_left(W) == -1
    # Each may give back, lengthen and reclaim what the other took.
    assert await p.update_lease(W, 60_000) == 1
    assert await p.release(W) == 1
    assert await java(JAVA_ACQUIRE_ID, Y, present - 1, present) == 1
    assert await p.acquire(Z) is None
    await p.end(X)
    assert await java(JAVA_ACQUIRE_ID, W, NEVER, present) == 1
    async with listening(redis, b"redisson_sc:{p}") as listener:
        assert await java(JAVA_RELEASE_ID, Z, b"redisson_sc:{p}") == 1
        assert await listener.heard() == [b"1"]
    assert await p.release(Z) is None
    assert await p.release(X) is None
    assert await p.release_all(W) == 1
    assert await p.available() == [2, 0]
    await redis.delete("p")
