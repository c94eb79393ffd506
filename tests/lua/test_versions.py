"""A late duplicate of an older change of a live hold changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import _keys
from tests.support.counting import Counted
from tests.support.scripts.any_lock import LOCKS
from tests.support.scripts.calls import LEASE, TOMBSTONE, A, B, Scripts, everything
from tests.support.scripts.lock import LockScripts
from tests.support.scripts.permits import SemaphoreScripts
from tests.support.scripts.read_write import LONG, ReadWriteScripts

#: Milliseconds that a test may take before a lease that it set counts as another.
SLACK = 5_000
KEEP = {"version_ms": TOMBSTONE}


@pytest.fixture(params=LOCKS)
def hold(request: pytest.FixtureRequest, scripts: Scripts) -> Any:
    """The scripts of each kind of lock in turn."""
    return LOCKS[request.param](scripts)


async def held(redis: Redis) -> int:
    """Return the one hold count of the lock `k`."""
    (count,) = [int(v) for v in (await redis.hgetall("k")).values() if v.isdigit()]
    return count


def field(hold: Any) -> str:
    return A + ":write" if getattr(hold, "side", "") == "write" else A


def version_key(hold: Any) -> bytes:
    return _keys.version_key(b"k", field(hold))


async def left(redis: Redis) -> int:
    return int(await redis.pttl("k"))


async def test_a_repeated_lease_is_set_again(hold: Any, redis: Redis) -> None:
    await hold.acquire(A)
    for _ in range(2):
        assert await hold.set_lease(A, LONG, version=7, **KEEP) == 1
    assert LONG - SLACK < await left(redis) <= LONG
    assert await redis.get(version_key(hold)) == b"7"
    assert TOMBSTONE - SLACK < await redis.pttl(version_key(hold)) <= TOMBSTONE


async def test_a_late_re_entry_is_void(hold: Any, redis: Redis) -> None:
    await hold.acquire(A)
    assert await hold.acquire(A, 2, version=1, **KEEP) is None
    assert await hold.release(A, 1, version=2, **KEEP) == 0
    assert await hold.acquire(A, 2, version=1, **KEEP) == -3
    assert await held(redis) == 1
    assert await hold.acquire(A, 2, version=2) is None


async def test_a_late_final_release_is_void(hold: Any, redis: Redis) -> None:
    await hold.acquire(A)
    assert await hold.set_lease(A, LONG, version=5, **KEEP) == 1
    assert await hold.release(A, version=4) == 0
    assert await held(redis) == 1
    assert await hold.release(A, version=6) == 1
    assert not await redis.exists("k")


async def test_without_a_version_its_key_is_left_alone(hold: Any, redis: Redis) -> None:
    await redis.lpush(version_key(hold), "of another type: reading it would be an error")
    before = await everything(redis)
    await hold.acquire(A)
    await hold.acquire(A, 2, version_ms=TOMBSTONE)
    await hold.set_lease(A, version_ms=TOMBSTONE)
    await hold.release(A, 1, version_ms=TOMBSTONE)
    await hold.release(A)
    # The counter of fencing tokens stays.
    await redis.delete(_keys.fencing_token(b"k"))
    assert await everything(redis) == before
    await redis.delete(version_key(hold))


async def test_a_version_that_nobody_can_need_is_not_kept(hold: Any, redis: Redis) -> None:
    await hold.acquire(A)
    assert await hold.acquire(A, 2, version=1) is None
    assert await hold.set_lease(A, version=2) == 1
    assert await hold.release(A, 1, version=3) == 0
    assert not await redis.exists(version_key(hold))


async def test_a_refused_change_keeps_no_version(hold: Any, redis: Redis) -> None:
    await hold.acquire(B)
    before = await everything(redis)
    assert await hold.set_lease(A, version=2, **KEEP) == 0
    assert await hold.acquire(A, 2, version=3, **KEEP) == -2
    assert await everything(redis) == before


async def test_the_hot_path_is_as_short_as_ever(scripts: Scripts, redis: Redis) -> None:
    lock = LockScripts(scripts)
    await lock.acquire(A)
    await lock.release(A)
    async with Counted(redis) as counted:
        await lock.acquire(A)
        await lock.release(A)
    # A release looks at the queue of clients, which costs it one command.
    commands = {"exists": 1, "hincrby": 1, "pexpire": 1}
    commands |= {"hexists": 1, "zrange": 1, "publish": 1, "del": 1}
    assert counted.calls == {"evalsha": 2, **commands}


class TestReadUnderAWriteHold:
    """Its owner is the owner of the write hold, so there is no tombstone for it."""

    @pytest.fixture
    async def rw(self, scripts: Scripts) -> ReadWriteScripts:
        rw = ReadWriteScripts(scripts)
        assert await rw.write.acquire(A) is None
        return rw

    async def test_a_late_acquire_after_its_release_is_void(self, rw: ReadWriteScripts) -> None:
        assert await rw.read.acquire(A, version=1) is None
        assert await rw.read.release(A, version=2, **KEEP) == 0
        assert await rw.read.acquire(A, version=1) == -3
        assert await rw.fields() == {"mode": "write", A + ":write": "1"}
        assert await rw.hold_keys() == []

    async def test_a_late_acquire_after_its_undo_is_void(self, rw: ReadWriteScripts) -> None:
        assert await rw.read.release(A, version=2, **KEEP) is None
        assert await rw.read.acquire(A, version=1) == -3
        assert await rw.read.acquire(A, version=3) is None

    async def test_a_late_acquire_after_the_writer_left_is_void(
        self, rw: ReadWriteScripts, redis: Redis
    ) -> None:
        assert await rw.read.acquire(A, version=1) is None
        assert await rw.read.release(A, version=2, **KEEP) == 0
        assert await rw.write.release(A) == 1
        assert await rw.read.acquire(A, version=1) == -3
        assert not await redis.exists(rw.key)


class TestPermits:
    @pytest.fixture
    async def plain(self, scripts: Scripts) -> AsyncIterator[SemaphoreScripts]:
        semaphore = SemaphoreScripts(scripts)
        await semaphore.start(5)
        yield semaphore
        await scripts.redis.delete(semaphore.key, semaphore.permits, semaphore.counts)

    async def test_a_lease_that_has_ended_keeps_no_version(
        self, plain: SemaphoreScripts, redis: Redis
    ) -> None:
        await plain.acquire(A)
        await plain.end(A)
        assert await plain.set_lease(A, LEASE, version=1, **KEEP) == 0
        assert not await redis.exists(_keys.version_key(plain.key, A))
