"""A crowd of readers: the lock lives exactly as long as one of them needs it, at a bounded cost."""

from __future__ import annotations

import random

import pytest
from redis.asyncio import Redis

from redisson_py._time import now
from tests.support.counting import Counted
from tests.support.scripts.calls import ask, everything
from tests.support.scripts.read_write import ReadWriteScripts

#: What release leaves on a lock, and what passes while one looks at many readers, one by one.
TOLERANCE = 10_000


def index_key(rw: ReadWriteScripts) -> bytes:
    return b"{" + rw.key + b"}:redisson_py:readers"


async def needed(rw: ReadWriteScripts) -> int:
    """Return how long the longest reader needs the lock, read from every reader."""
    fields = await rw.fields()
    return max([await rw.hold_left(owner) for owner in fields if owner != "mode"], default=0)


class Java:
    """Redisson's readers: what its scripts do to the keys."""

    def __init__(self, rw: ReadWriteScripts) -> None:
        self.rw = rw
        self.redis = rw.redis

    async def lock(self, owner: str, lease_ms: int) -> None:
        await ask(self.redis, "HSET", self.rw.key, "mode", "read", owner, 1)
        await self.renew(owner, lease_ms)

    async def renew(self, owner: str, lease_ms: int) -> None:
        await ask(self.redis, "SET", self.rw.hold_key(owner), 1, "PX", lease_ms)
        await ask(self.redis, "PEXPIRE", self.rw.key, max(lease_ms, await self.rw.left()))

    async def unlock(self, owner: str) -> None:
        await self.redis.delete(self.rw.hold_key(owner))
        await ask(self.redis, "HDEL", self.rw.key, owner)
        left = await needed(self.rw)
        await ask(self.redis, "PEXPIRE", self.rw.key, left) if left > 0 else None


async def leave_all(rw: ReadWriteScripts, redis: Redis, size: int, order: int) -> float:
    for number in range(size):
        assert await rw.read.acquire(f"c:{number}", lease_ms=1_000_000 + 1_000 * number) is None
    async with Counted(redis) as counted:
        for number in range(size)[::order]:
            assert await rw.read.release(f"c:{number}") is not None
    assert not await redis.exists(rw.key)
    return sum(counted.calls.values()) / size


@pytest.mark.parametrize("order", [1, -1], ids=["shortest lease first", "longest lease first"])
@pytest.mark.more
async def test_leaving_costs_the_same_in_any_crowd(
    rw: ReadWriteScripts, redis: Redis, order: int
) -> None:
    few, many = [await leave_all(rw, redis, size, order) for size in (100, 1_000)]
    assert many <= few + 10
    assert many <= 60


@pytest.mark.parametrize("size", [16, 17, 60])
async def test_the_lock_ends_with_the_longest_lease(rw: ReadWriteScripts, size: int) -> None:
    began = now()
    for number in range(size):
        await rw.read.acquire(f"c:{number}", lease_ms=100_000 + 10_000 * number)
    for number in range(size - 1, 0, -1):
        assert await rw.read.release(f"c:{number}") == 0
        expected = 100_000 + 10_000 * (number - 1)
        left = await rw.left()
        assert expected - 5_000 - 1000 * (now() - began) < left <= expected + 100
    assert await rw.read.release("c:0") == 1


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_readers_do_the_lock_lives_for_the_longest(
    rw: ReadWriteScripts, redis: Redis, seed: int
) -> None:
    chance = random.Random(seed)
    java = Java(rw)
    ours: list[str] = []
    theirs: list[str] = []
    for step in range(500):
        lease_ms = chance.randrange(100_000, 1_000_000)
        verb = chance.choice(["join"] * 4 + ["leave"] * 3 + ["renew", "set", "java", "bye", "more"])
        crowd = theirs if verb in ("bye", "more") else ours
        if verb in ("join", "java"):
            owner = f"{verb}:{step}"
            if verb == "join":
                assert await rw.read.acquire(owner, lease_ms=lease_ms) is None
                ours.append(owner)
            else:
                await java.lock(owner, lease_ms)
                theirs.append(owner)
        elif crowd:
            owner = chance.choice(crowd)
            if verb == "leave":
                # Most often the one that the lock lives for.
                lefts = [(await rw.hold_left(owner), owner) for owner in ours]
                owner = max(lefts)[1] if chance.random() < 0.7 else owner
                assert await rw.read.release(owner) is not None
            elif verb == "renew":
                assert await rw.read.renew(owner, lease_ms) == 1
            elif verb == "set":
                assert await rw.read.set_lease(owner, lease_ms) == 1
            elif verb == "bye":
                await java.unlock(owner)
            else:
                await java.renew(owner, max(lease_ms, await rw.hold_left(owner)))
            if verb in ("leave", "bye"):
                crowd.remove(owner)
        if step % 97 == 96:
            # The lock is freed by force and another begins: nothing of the first may count.
            await redis.delete(rw.key)
            ours, theirs = [], []
            if chance.random() < 0.5:
                for number in range(20):
                    await java.lock(f"first:{step}:{number}", 50_000)
                    theirs.append(f"first:{step}:{number}")
        longest, left = await needed(rw), await rw.left()
        assert left >= longest - TOLERANCE, f"{verb} cut a reader off at step {step}"
        if verb in ("leave", "set") and longest:
            assert left <= longest + TOLERANCE, f"{verb} left it too long at step {step}"
    await redis.flushdb()


async def test_the_index_is_of_a_crowd_only_and_ends_with_it(
    rw: ReadWriteScripts, redis: Redis
) -> None:
    for number in range(15):
        await rw.read.acquire(f"c:{number}")
    assert not await redis.exists(index_key(rw))
    await rw.read.acquire("c:15")
    await rw.read.acquire("c:16", lease_ms=100_000)
    assert 90_000 < await redis.pttl(index_key(rw)) <= 100_000
    assert {*await ask(redis, "ZRANGE", index_key(rw), 0, -1)} == {b"c:15", b"c:16"}
    for number in range(17):
        await rw.read.release(f"c:{number}")
    assert await everything(redis) == {}


async def test_dead_readers_keep_nobody_waiting(rw: ReadWriteScripts, redis: Redis) -> None:
    for number in range(40):
        await rw.read.acquire(f"c:{number}", lease_ms=100_000 + 10_000 * number)
    for number in range(39):
        await rw.end_holds(f"c:{number}")
    assert await rw.read.release("c:39") == 1
    assert await everything(redis) == {}


async def test_a_dead_reader_does_not_hide_the_longest_that_lives(rw: ReadWriteScripts) -> None:
    for number in range(40):
        await rw.read.acquire(f"c:{number}", lease_ms=100_000 + 10_000 * number)
    await rw.end_holds("c:38")
    assert await rw.read.release("c:39") == 0
    assert 460_000 < await rw.left() <= 470_000


async def test_readers_of_an_earlier_lock_do_not_stand_for_those_of_this_one(
    rw: ReadWriteScripts, redis: Redis
) -> None:
    for number in range(40):
        await rw.read.acquire(f"old:{number}", lease_ms=500_000)
    await redis.delete(rw.key)
    java = Java(rw)
    for number in range(20):
        await java.lock(f"java:{number}", 50_000)
    await java.lock("java:20", 900_000)
    # The first of ours has the least lease of all, and hides the old ones behind it.
    await rw.read.acquire("new:1", lease_ms=100_000)
    await rw.read.acquire("new:2", lease_ms=950_000)
    assert await rw.read.release("new:2") == 0
    assert 800_000 < await rw.left() <= 900_000
    await redis.flushdb()
