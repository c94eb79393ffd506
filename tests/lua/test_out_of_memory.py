"""A full server grants nothing, and gives back and renews what is held."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from redisson_py.testing import EmbeddedServer
from tests.support.scripts.calls import LEASE, TOMBSTONE, A, B, everything
from tests.support.scripts.lock import LockScripts


@pytest_asyncio.fixture
async def redis(own_server: EmbeddedServer) -> AsyncIterator[Redis]:
    """A client of a server that evicts nothing."""
    async with Redis.from_url(own_server.url) as redis:
        await redis.config_set("maxmemory-policy", "noeviction")
        yield redis


async def fill(redis: Redis) -> None:
    """Make the server refuse whatever needs memory."""
    await redis.config_set("maxmemory", 1)
    with pytest.raises(ResponseError, match="maxmemory"):
        await redis.set("more", "x")


async def test_an_acquire_is_refused_and_holds_nothing(either: LockScripts, redis: Redis) -> None:
    await fill(redis)
    with pytest.raises(ResponseError, match=r"OOM|maxmemory"):
        await either.acquire(A)
    assert await everything(redis) == {}


async def test_a_re_entry_is_refused_and_leaves_the_outer_hold(
    either: LockScripts, redis: Redis
) -> None:
    await either.acquire(A)
    before = await everything(redis)
    await fill(redis)
    with pytest.raises(ResponseError, match=r"OOM|maxmemory"):
        await either.acquire(A, 2)
    assert await everything(redis) == before


async def test_busy_is_still_told(either: LockScripts, redis: Redis) -> None:
    await either.acquire(A)
    await fill(redis)
    reply = await either.acquire(B)
    assert reply is not None
    assert LEASE - 5000 < reply <= LEASE


async def test_the_last_release_frees_the_lock(lock: LockScripts, redis: Redis) -> None:
    await lock.acquire(A)
    await fill(redis)
    assert await lock.release(A) == 1
    assert await everything(redis) == {}


async def test_an_undo_frees_the_lock_and_leaves_its_tombstone(
    lock: LockScripts, redis: Redis
) -> None:
    await lock.acquire(A)
    await fill(redis)
    assert await lock.undo(A) == 1
    assert list(await everything(redis)) == [lock.tombstone(A)]
    assert TOMBSTONE - 5000 < await redis.pttl(lock.tombstone(A)) <= TOMBSTONE


async def test_a_renewal_and_a_new_lease_are_carried_out(lock: LockScripts, redis: Redis) -> None:
    await lock.acquire(A, lease_ms=LEASE)
    await fill(redis)
    assert await lock.renew(A, 1_000_000) == 1
    assert await lock.left() > LEASE
    assert await lock.set_lease(A, LEASE) == 1
    assert LEASE - 5000 < await lock.left() <= LEASE


async def test_a_forced_release_of_a_held_lock_frees_it(lock: LockScripts, redis: Redis) -> None:
    await lock.acquire(A)
    await fill(redis)
    assert await lock.force_release() == 1
    assert list(await everything(redis)) == [lock.receipt()]


async def test_what_finds_nothing_leaves_its_tombstone_and_its_receipt(
    lock: LockScripts, redis: Redis
) -> None:
    await fill(redis)
    assert await lock.undo(B) is None
    assert await lock.force_release() == 0
    assert {*await everything(redis)} == {lock.tombstone(B), lock.receipt()}


async def test_a_partial_release_is_carried_out_from_redis_7_on(
    lock: LockScripts, redis: Redis
) -> None:
    await lock.acquire(A)
    await lock.acquire(A, 2)
    before = await everything(redis)
    await fill(redis)
    if lock.scripts.modern:
        assert await lock.release(A, 1) == 0
        assert await lock.holds() == {A: 1}
    else:
        with pytest.raises(ResponseError, match=r"OOM|maxmemory"):
            await lock.release(A, 1)
        assert await everything(redis) == before


async def test_a_change_with_a_version_is_carried_out(lock: LockScripts, redis: Redis) -> None:
    await lock.acquire(A)
    await lock.acquire(A, 2)
    await fill(redis)
    assert await lock.release(A, 1, version=1, version_ms=TOMBSTONE) == 0
    assert await lock.holds() == {A: 1}
    assert await lock.set_lease(A, 1_000_000, version=2, version_ms=TOMBSTONE) == 1
    assert await lock.release(A, 0, version=1) == 0
    assert await lock.left() > LEASE
