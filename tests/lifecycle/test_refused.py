"""Redis refuses a part of a change, or the repetition of one: the client counts as Redis does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import LeaseLostError, NotHeldError, Redisson, ScriptError
from redisson_py.testing import FaultProxy
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import Permit, ProxyFactory
from tests.lifecycle.late_bytes import REENTRANT, deliver_late, executed, shortest_lease
from tests.support.kinds import DISTINCT, KINDS, Stage
from tests.support.leases import renewed_at_once
from tests.support.stragglers import lose_and_keep
from tests.support.streams import answered
from tests.support.waiting import until

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


@pytest.mark.also("cluster")
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


@pytest.mark.also("cluster")
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


#: What the script of a partial release cannot do without.
LOCKS: dict[str, tuple[Callable[[Redisson], Any], str]] = {
    "lock": (lambda client: client.get_lock("k"), "hincrby"),
    "fenced lock": (lambda client: client.get_fenced_lock("k"), "hincrby"),
    "fair lock": (lambda client: client.get_fair_lock("k"), "hincrby"),
    "write lock": (lambda client: client.get_read_write_lock("k").write_lock(), "hset"),
    "read lock": (lambda client: client.get_read_write_lock("k").read_lock(), "del"),
}


async def count(redis: Redis) -> int:
    """Return the hold count that Redis has."""
    found: Any = await redis.hgetall("k")
    return sum(int(value) for value in found.values() if value.isdigit())


@pytest.mark.parametrize("kind", LOCKS)
async def test_an_inner_release_that_was_refused_can_be_repeated(
    kind: str, clients: ClientFactory, allow: Permit, redis: Redis
) -> None:
    make, command = LOCKS[kind]
    client = clients(await allow())
    lock = make(client)
    outer, inner = await lock.acquire(), await lock.acquire()
    await allow(command)
    for release in (lock.release, inner.release):
        with pytest.raises(ScriptError):
            await release()
        assert await count(redis) == 2 == client.statistics().held_leases
    await allow()
    await lock.release()
    assert await count(redis) == 1 == client.statistics().held_leases
    await renewed_at_once(client)
    assert not outer.lost
    await lock.release()
    assert await count(redis) == 0


async def test_units_that_were_refused_can_be_given_back_again(
    clients: ClientFactory, allow: Permit, redis: Redis
) -> None:
    client = clients(await allow())
    semaphore = client.get_semaphore("semaphore", 5)
    permit = await semaphore.acquire(4)
    await allow("hset")
    for _ in range(2):
        with pytest.raises(ScriptError):
            await semaphore.release(1)
        assert (permit.units, await redis.get("semaphore")) == (4, b"1")
    await allow()
    await semaphore.release(1)
    assert (permit.units, await redis.get("semaphore")) == (3, b"2")
    await permit.release()
    assert await redis.get("semaphore") == b"5"


@pytest.mark.parametrize("kind", LOCKS)
async def test_an_inner_block_that_is_cancelled_at_its_end_leaves_nothing_either(
    kind: str, clients: ClientFactory, allow: Permit, redis: Redis
) -> None:
    make, command = LOCKS[kind]
    async with FaultProxy.in_front_of(await allow()) as link:
        client = clients(link.url)
        lock = make(client)
        task = asyncio.current_task()
        assert task is not None
        outer, inner = await lock.acquire(), await lock.acquire()
        await allow(command)
        link.hold()
        with pytest.raises(asyncio.CancelledError):
            async with inner:
                asyncio.get_running_loop().call_later(0, task.cancel)
        task.uncancel()
        link.release_held()
        await client.ping()
        assert client.statistics().held_leases == 1
        await allow()
        await outer.release()
        assert await count(redis) == 0 == client.statistics().held_leases


each_kind = pytest.mark.parametrize(
    "stage", [name for name in DISTINCT if KINDS[name].servers == 1], indirect=True
)


@each_kind
async def test_a_grant_whose_repetition_is_refused_is_given_back(
    stage: Stage, proxy: ProxyFactory
) -> None:
    link = await proxy()
    far = stage.party(url=link.url)
    await (await far.thing.acquire()).release()
    acquiring = await executed(link, far.thing.acquire())
    assert await stage.out() == 1
    async with stage.no_memory():
        link.pass_through()
        with pytest.raises(ScriptError):
            await acquiring
    await stage.assert_nothing_held(far)


@each_kind
async def test_a_request_that_was_refused_twice_is_not_granted_late(
    stage: Stage, proxy: ProxyFactory, url_of_k: str
) -> None:
    link = await proxy()
    far = stage.party(url=link.url)
    await (await far.thing.acquire()).release()
    async with stage.no_memory():
        late = lose_and_keep(link)
        with pytest.raises(ScriptError):
            await far.thing.try_acquire()
        await answered(far.clients[0])
    await deliver_late(url_of_k, late)
    await stage.assert_nothing_held(far)


@pytest.mark.usefixtures("one_server")
@pytest.mark.parametrize("kind", REENTRANT)
async def test_a_shorter_lease_counts_although_its_repetition_is_refused(
    kind: str, clients: ClientFactory, allow: Permit, redis: Redis
) -> None:
    async with FaultProxy.in_front_of(await allow()) as link:
        client = clients(link.url)
        lease = await REENTRANT[kind](client).acquire()
        extending = await executed(link, lease.extend(10))
        await allow("pexpire")
        link.pass_through()
        with pytest.raises(ScriptError):
            await extending
        left = await shortest_lease(redis) / 1000
        assert lease.remaining < left, "Redis ends it sooner than its holder knows"
        await allow()
        await lease.release()
        await client.aclose()
