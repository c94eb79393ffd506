"""Keys, values, expiries and messages are those of Redisson.

What Redisson's own scripts left behind was recorded there; here ours must leave the same. Its
unlock latch is private to its client and has no counterpart. Where Redisson publishes `0` when a
lock is free, ours publish `00`: the same number to Redisson, and no call to our own clients.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.support.scripts.calls import LEASE, Scripts, ask
from tests.support.scripts.lock import LockScripts

#: Client ids and thread numbers, as Redisson writes them.
A = "0a1b2c3d-4e5f-4071-8293-a4b5c6d7e8f9:31"
B = "f9e8d7c6-b5a4-4392-8170-5f4e3d2c1b0a:1"

#: What Redisson's lock and unlock do to the keys (sections 2.2, 2.3 and 7).
REDISSON_LOCK = """
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  if KEYS[2] then redis.call('incr', KEYS[2]) end
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
return redis.call('pttl', KEYS[1])
"""
REDISSON_UNLOCK = """
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end
if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then return 0 end
redis.call('del', KEYS[1])
redis.call('publish', ARGV[2], 0)
return 1
"""


class Listener:
    """Hears what is published on one channel, and proves silence."""

    def __init__(self, redis: Redis, channel: bytes) -> None:
        self._redis = redis
        self._channel = channel
        self._pubsub: Any = redis.pubsub()

    async def heard(self) -> list[bytes]:
        """Return what was published since the last call, in order."""
        end = b"end of test"
        await self._redis.publish(self._channel, end)
        found: list[bytes] = []
        while (payload := await self._next("message")) != end:
            found.append(payload)
        return found

    async def start(self) -> None:
        await self._pubsub.subscribe(self._channel)
        await self._next("subscribe")

    async def stop(self) -> None:
        await self._pubsub.unsubscribe(self._channel)
        await self._next("unsubscribe")
        await self._pubsub.aclose()

    async def _next(self, kind: str) -> bytes:
        message = None
        while message is None or message["type"] != kind:
            message = await self._pubsub.get_message(timeout=10)
        data: bytes = message["data"]
        return data


@asynccontextmanager
async def listening(redis: Redis, channel: bytes) -> AsyncGenerator[Listener, None]:
    listener = Listener(redis, channel)
    await listener.start()
    try:
        yield listener
    finally:
        await listener.stop()


async def raw_hash(redis: Redis, key: bytes) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = await ask(redis, "HGETALL", key)
    return found


async def keys(redis: Redis) -> list[bytes]:
    return sorted(await ask(redis, "KEYS", "*"))


async def test_plain_lock(scripts: Scripts, redis: Redis) -> None:
    lk = LockScripts(scripts, key=b"lk")
    async with listening(redis, b"redisson_lock__channel:{lk}") as listener:
        # 1.
        assert await lk.acquire(A) is None
        assert await raw_hash(redis, b"lk") == {A.encode(): b"1"}
        assert LEASE - 20_000 < await redis.pttl(b"lk") <= LEASE
        left = await lk.acquire(B)
        assert left is not None
        assert LEASE - 20_000 < left <= LEASE
        assert await lk.acquire(A, 2) is None
        assert await raw_hash(redis, b"lk") == {A.encode(): b"2"}
        # 2.
        assert await lk.release(A, 1) == 0
        assert await raw_hash(redis, b"lk") == {A.encode(): b"1"}
        assert await lk.release(A, 1) == 0
        assert await listener.heard() == []
        assert await keys(redis) == [b"lk"]
        # 3.
        assert await lk.release(A) == 2  # freed, and one client told
        assert await keys(redis) == []
        assert await listener.heard() == [b"00"]
        assert await lk.release(A) is None
        assert await listener.heard() == []
        await lk.acquire(A)
        assert await lk.force_release("r1") == 1
        assert await redis.exists(b"lk") == 0
        assert await listener.heard() == [b"00"]
        assert await lk.force_release("r1") == 1
        assert await lk.force_release("r2") == 0
        assert await listener.heard() == []


async def test_fenced_lock(scripts: Scripts, redis: Redis) -> None:
    fk = LockScripts(scripts, key=b"fk", fenced=True)
    counter = b"redisson_lock_token:{fk}"
    async with listening(redis, b"redisson_lock__channel:{fk}") as listener:
        code, first = await fk.acquire_fenced(A, tokens=1)
        assert code == 1
        assert await raw_hash(redis, b"fk") == {A.encode(): b"1"}
        assert LEASE - 20_000 < await redis.pttl(b"fk") <= LEASE
        assert await redis.get(counter) == str(first).encode()
        assert await redis.pttl(counter) == -1
        assert await keys(redis) == [b"fk", counter]
        code, left = await fk.acquire_fenced(B, tokens=1)
        assert code == 0
        assert LEASE - 20_000 < left <= LEASE
        assert await redis.get(counter) == str(first).encode()
        assert await fk.release(A) == 2
        assert await keys(redis) == [counter]
        assert await listener.heard() == [b"00"]
        assert await fk.acquire_fenced(B, tokens=1) > [1, first]
        assert await fk.force_release() == 1
        assert await listener.heard() == [b"00"]
        assert int(await ask(redis, "GET", counter)) > first


@pytest.mark.parametrize("fenced", [False, True])
async def test_redisson_and_we_exclude_each_other(
    scripts: Scripts, redis: Redis, fenced: bool
) -> None:
    lock = LockScripts(scripts, key=b"lk", fenced=fenced)
    lock_keys = [b"lk", lock.token_key] if fenced else [b"lk"]

    async def java_locks(owner: str) -> Any:
        return await ask(redis, "EVAL", REDISSON_LOCK, len(lock_keys), *lock_keys, LEASE, owner)

    async def java_unlocks(owner: str) -> Any:
        return await ask(
            redis, "EVAL", REDISSON_UNLOCK, 1, b"lk", owner, b"redisson_lock__channel:{lk}"
        )

    async with listening(redis, b"redisson_lock__channel:{lk}") as listener:
        assert await java_locks(A) is None
        left = await lock.acquire(B)
        assert left is not None
        assert LEASE - 20_000 < left <= LEASE
        assert await lock.release(B) is None
        assert await java_unlocks(A) == 1
        assert await listener.heard() == [b"0"]
        assert await lock.acquire(B) is None
        assert LEASE - 20_000 < await java_locks(A) <= LEASE
        assert await java_unlocks(A) is None
        assert await lock.release(B) == 2
        assert await listener.heard() == [b"00"]
        assert await java_locks(A) is None
        assert await java_unlocks(A) == 1


async def test_redisson_goes_on_above_our_tokens_and_we_above_its(
    scripts: Scripts, redis: Redis
) -> None:
    fk = LockScripts(scripts, key=b"fk", fenced=True)
    counter = b"redisson_lock_token:{fk}"
    _, first = await fk.acquire_fenced(A, tokens=64)
    await fk.release(A)
    await ask(redis, "EVAL", REDISSON_LOCK, 2, b"fk", counter, LEASE, B)
    theirs = int(await ask(redis, "GET", counter))
    assert theirs == first + 64
    await redis.delete(b"fk")
    _, ours = await fk.acquire_fenced(A, tokens=64)
    assert ours > theirs
