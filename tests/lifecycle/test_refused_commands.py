"""Redis refuses a command in the middle of a script: the reply still reports the real change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import LeaseLostError, NotHeldError, Redisson, ReleaseFailedError, ScriptError
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import Permit, ProxyFactory
from tests.support.waiting import until

pytestmark = pytest.mark.also("cluster")

#: What a release must not change if its message is refused: each with a script of its own.
RELEASES: dict[str, Callable[[Redisson], Any]] = {
    "lock": lambda client: client.get_lock("k"),
    "fair_lock": lambda client: client.get_fair_lock("k"),
    "write_lock": lambda client: client.get_read_write_lock("k").write_lock(),
    "read_lock": lambda client: client.get_read_write_lock("k").read_lock(),
    "semaphore": lambda client: client.get_semaphore("semaphore", 2),
    "expirable_semaphore": lambda client: client.get_permit_expirable_semaphore("semaphore", 2),
}


async def everything(redis: Redis) -> dict[bytes, Any]:
    """Return the contents of all keys but tombstones, client descriptions and token counters."""
    found: dict[bytes, Any] = {}
    for key in sorted(await redis.keys()):
        name = bytes(key)  # type: ignore[arg-type]  # not decoded
        if b"tombstone" in name or b"redisson_py:client" in name or b"lock_token" in name:
            continue
        match await redis.type(key):
            case b"hash":
                found[name] = await redis.hgetall(key)
            case b"zset":
                found[name] = await redis.zrange(key, 0, -1)
            case _:
                found[name] = await redis.get(key)
    return found


@pytest.mark.parametrize("kind", RELEASES)
async def test_a_release_whose_message_is_refused_has_changed_nothing(
    kind: str, clients: ClientFactory, allow: Permit, redis: Redis
) -> None:
    """Or it has released and raises no error; never both."""
    client = clients(await allow(), lease_time=10)
    lease = await RELEASES[kind](client).acquire()
    before = await everything(redis)
    await allow("publish")
    try:
        await lease.release()
    except ScriptError:
        assert await everything(redis) == before
    else:
        assert await everything(redis) != before
    await allow()
    with suppress(NotHeldError, LeaseLostError, ScriptError):
        await lease.release()
    await client.aclose()
    # A hold that a refused release leaves ends with its lease, also where the key remains.
    await redis.flushdb()


#: Of five permits.
SEMAPHORES: dict[str, Callable[[Redisson], Any]] = {
    "semaphore": lambda client: client.get_semaphore("semaphore", 5),
    "expirable_semaphore": lambda client: client.get_permit_expirable_semaphore("semaphore", 5),
}


@pytest.mark.parametrize("kind", SEMAPHORES)
@pytest.mark.parametrize("refused", ["incrby", "zadd", "pttl", "publish"])
async def test_an_acquire_that_is_refused_leaves_no_record_to_be_reclaimed(
    refused: str, kind: str, clients: ClientFactory, allow: Permit
) -> None:
    """Records whose units were never taken from the counter would be added to it later."""
    poor, good = clients(await allow(), lease_time=1), clients()
    semaphore_of = SEMAPHORES[kind]
    # On a busy machine the lease may be over first: the unit comes back all the same.
    with suppress(LeaseLostError, ReleaseFailedError):
        await (await semaphore_of(poor).acquire()).release()
    await allow(refused)
    for _ in range(3):
        with suppress(ScriptError):
            await semaphore_of(poor).try_acquire()
    await poor.aclose()
    await allow()
    await asyncio.sleep(1.5)  # longer than any lease of these
    permits = [await semaphore_of(good).acquire(timeout=30) for _ in range(5)]
    assert await semaphore_of(good).try_acquire() is None
    for permit in permits:
        await permit.release()
    assert await semaphore_of(good).available() == 5


@pytest.mark.parametrize("kind", SEMAPHORES)
@pytest.mark.parametrize("refused", ["incrby", "zadd", "publish", "set"])
async def test_an_acquire_that_is_refused_halfway_mints_nothing(
    refused: str, kind: str, clients: ClientFactory, allow: Permit, proxy: ProxyFactory
) -> None:
    """Dead holders' permits are reclaimed on the way, and the counter is written after that."""
    link = await proxy()
    dying, poor, good = clients(link.url, lease_time=1), clients(await allow()), clients()

    semaphore_of = SEMAPHORES[kind]
    await (await semaphore_of(poor).acquire()).release()
    permits = [await semaphore_of(dying).acquire() for _ in range(3)]
    link.black_hole()
    await until(lambda: all(permit.lost for permit in permits))
    await allow(refused)
    for _ in range(3):
        try:
            permit = await semaphore_of(poor).try_acquire()
        except ScriptError:
            continue
        # It needed no such command; what it holds is given back where that is allowed.
        await allow()
        if permit is not None:
            await permit.release()
        await allow(refused)
    await allow()
    permits = [await semaphore_of(good).acquire(timeout=30) for _ in range(5)]
    assert await semaphore_of(good).try_acquire() is None
    for permit in permits:
        await permit.release()
    assert await semaphore_of(good).available() == 5
    link.pass_through()
    link.cut()
    await dying.aclose()
    assert await semaphore_of(good).available() == 5
