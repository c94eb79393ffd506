"""Bad input gets a clear error before anything is sent (faults.md, section I)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import CountDownLatch, CyclicBarrier, Redisson, ScriptError
from redisson_py._time import now
from redisson_py.locks.lock_like import LockLike
from tests.contract.conftest import (
    for_kinds,
    in_redis,
    is_lock,
    locks,
    of_redis,
    single_of_redis,
    timed,
)
from tests.contract.servers import Servers
from tests.support.kinds import Kind, MakeLock
from tests.support.leases import assert_left

LEASES: list[tuple[Any, type[Exception]]] = [
    (0, ValueError),
    (-1, ValueError),
    (0.0004, ValueError),
    (float("nan"), ValueError),
    (float("inf"), ValueError),
    (float("-inf"), ValueError),
    (2.0**63, ValueError),
    (10**400, ValueError),
    (timedelta(0), ValueError),
    (timedelta(seconds=-5), ValueError),
    ("5", TypeError),
    (True, TypeError),
    ([5], TypeError),
]
TIMEOUTS: list[tuple[Any, type[Exception]]] = [
    (-0.001, ValueError),
    (float("nan"), ValueError),
    (float("-inf"), ValueError),
    (timedelta(seconds=-1), ValueError),
    ("5", TypeError),
    (False, TypeError),
]
NAMES: list[tuple[Any, type[Exception]]] = [
    ("", ValueError),
    (b"", ValueError),
    ("x" * 4097, ValueError),
    ("ä" * 2049, ValueError),
    ("\ud800", ValueError),
    (5, TypeError),
    (None, TypeError),
    (True, TypeError),
    (bytearray(b"k"), TypeError),
]


Get = Callable[[Redisson, Any], CountDownLatch | CyclicBarrier]
WAITS: dict[str, Get] = {
    "latch": lambda client, name: client.get_latch(name, 1),
    "barrier": lambda client, name: client.get_barrier(name, 2),
}
waits = pytest.mark.parametrize("get", WAITS.values(), ids=WAITS)


@timed
async def test_lease_time(make_lock: MakeLock, servers: Servers) -> None:
    client = servers.unconnected()
    lock = make_lock(client)
    for lease_time, error in LEASES:
        for call in (lock.acquire, lock.try_acquire):
            with pytest.raises(error, match="lease_time"):
                await call(lease_time=lease_time)
        with pytest.raises(error, match="lease_time"):
            lock.hold(lease_time=lease_time)
        with pytest.raises(error, match="lease_time"):
            servers.unconnected(lease_time=lease_time)
    assert client.statistics().commands_sent == 0


async def test_timeout(make_lock: MakeLock, servers: Servers) -> None:
    client = servers.unconnected()
    lock = make_lock(client)
    for timeout, error in TIMEOUTS:
        for call in (lock.acquire, lock.try_acquire):
            with pytest.raises(error, match="timeout"):
                await call(timeout=timeout)
        with pytest.raises(error, match="timeout"):
            lock.hold(timeout=timeout)
    assert client.statistics().commands_sent == 0


async def test_name(make_lock: MakeLock, servers: Servers) -> None:
    client = servers.unconnected()
    for name, error in NAMES:
        with pytest.raises(error, match="name"):
            make_lock(client, name)


@waits
async def test_timeout_of_a_wait(get: Get) -> None:
    client = Redisson.from_url("redis://127.0.0.1:1")
    for timeout, error in TIMEOUTS:
        with pytest.raises(error, match="timeout"):
            await get(client, "k").wait(timeout)
    assert client._life._root is None


@waits
async def test_name_of_what_is_waited_for(get: Get) -> None:
    client = Redisson.from_url("redis://127.0.0.1:1")
    for name, error in NAMES:
        with pytest.raises(error, match="name"):
            get(client, name)
    assert get(client, "job").name == "job"
    assert "'job'" in repr(get(client, "job"))


@locks
async def test_options_after_the_name_are_keyword_only(lock: LockLike) -> None:
    with pytest.raises(TypeError):
        await lock.acquire(1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        lock.hold(1)  # type: ignore[call-arg]


async def test_extend(lock: LockLike) -> None:
    began = now()
    async with lock as lease:
        for lease_time, error in LEASES:
            with pytest.raises(error, match="lease_time"):
                await lease.extend(lease_time)
        assert_left(lease.remaining, 30, began)


async def test_longest_name_and_longest_timeout_work(make_lock: MakeLock, client: Redisson) -> None:
    # Clients of other stores have a prefix.
    prefix = client._context.options.names.key("x")[:-1]
    async with make_lock(client, "x" * (4096 - len(prefix))).hold(timeout=float("inf")):
        pass


@timed
async def test_longest_lease_works(lock: LockLike) -> None:
    async with lock.hold(lease_time=86400 * 3650):
        pass


@of_redis
async def test_wrong_type_of_key(lock: LockLike, servers: Servers) -> None:
    await make_lists(servers)
    with pytest.raises(ScriptError, match="WRONGTYPE") as caught:
        await lock.acquire()
    assert "acquire v" in caught.value.script
    await assert_lists(servers)


@for_kinds(lambda kind: in_redis(kind) and is_lock(kind))
async def test_force_release_of_a_wrong_type_of_key(lock: LockLike, servers: Servers) -> None:
    await make_lists(servers)
    with pytest.raises(ScriptError, match="WRONGTYPE"):
        await lock.force_release()
    await assert_lists(servers)


async def make_lists(servers: Servers) -> None:
    """Store a value of another type under the name on every server."""
    for redis in servers.all:
        async with redis.pipeline() as both:
            both.rpush(servers.kind.key(), "something else")
            both.pexpire(servers.kind.key(), 60_000)
            await both.execute()


async def assert_lists(servers: Servers) -> None:
    """Fail unless they still have it; take it away."""
    for redis in servers.all:
        found: Any = await redis.lrange(servers.kind.key(), 0, -1)
        assert found == [b"something else"]
        await redis.delete(servers.kind.key())


@single_of_redis
async def test_corrupted_hold_count(kind: Kind, lock: LockLike, redis: Redis) -> None:
    lease = await lock.acquire()
    await redis.hset(kind.key(), lease.owner + kind.suffix, "many")
    if kind.reentrant:  # only re-entry reads the count
        with pytest.raises(ScriptError, match="not a number"):
            await lock.acquire()
    await lease.release()
    assert not await lock.locked()
