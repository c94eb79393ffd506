"""What is special about a MultiLock: all or nothing, in one order, on one or several servers."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from redis.asyncio import Redis

from redisson_py import (
    LeaseLostError,
    Redisson,
)
from redisson_py._time import now
from redisson_py.composite.multi_lock import MultiLock
from redisson_py.composite.red_lock import RedLock
from redisson_py.locks.lock_like import LockLike
from tests.fixtures.client import ClientFactory
from tests.support.counting import Counted
from tests.support.leases import assert_left, renew_now
from tests.support.streams import answered, stream_of
from tests.support.waiting import until, until_listening

pytestmark = pytest.mark.also("cluster")

NAMES = ("a", "b", "c")


def multi(client: Redisson, *names: str) -> MultiLock:
    """Return a multi lock of plain locks of one client."""
    return MultiLock(*(client.get_lock(name) for name in names or NAMES))


async def held(redis: Redis) -> list[bool]:
    """Return of which of the names somebody holds the lock."""
    return [bool(await redis.exists(name)) for name in NAMES]


async def assert_all_left(redis: Redis, lease_time: float, since: float) -> None:
    for name in NAMES:
        assert_left(await redis.pttl(name) / 1000, lease_time, since)


# Members.


def test_members_are_locks_each_once(clients: ClientFactory) -> None:
    client, other = clients(), clients()
    for no_lock in ("a", client, None):
        with pytest.raises(TypeError, match="made of locks"):
            MultiLock(client.get_lock("a"), no_lock)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not of list: pass each lock as an argument"):
        client.get_multi_lock([client.get_lock("a")])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one"):
        MultiLock()
    for twin in (client.get_lock("a"), other.get_lock("a"), other.get_fenced_lock("a")):
        with pytest.raises(ValueError, match="the same lock in Redis"):
            MultiLock(client.get_lock("b"), client.get_lock("a"), twin)
    # In another database it is another lock.
    elsewhere = Redisson.from_url("redis://" + client._where + "/1")
    assert MultiLock(client.get_lock("a"), elsewhere.get_lock("a")).name == "a"


def test_members_are_sorted_and_multi_locks_opened(client: Redisson) -> None:
    lock = MultiLock(client.get_lock("c"), multi(client, "b", "d"), client.get_lock(b"a"))
    assert [member.name for member in lock._members] == [b"a", "b", "c", "d"]
    assert lock.name == "a, b, c, d"
    assert repr(lock) == "<MultiLock 'a, b, c, d'>"


async def test_members_of_any_kind(client: Redisson, redis: Redis) -> None:
    guarded = client.get_read_write_lock("rw")
    members: list[LockLike] = [
        client.get_fenced_lock("fenced"),
        client.get_fair_lock("fair"),
        guarded.read_lock(),
        client.get_read_write_lock("other").write_lock(),
        client.get_lock("plain", reentrant=False),
        RedLock(client.get_lock("red")),
    ]
    async with MultiLock(*members) as lease:
        assert lease.token is None
        for member in members:
            assert await member.owned(), member
        async with members[0] as inner:
            assert inner.token
    assert not [key for key in await redis.keys() if b"redisson" not in key]


async def test_what_is_made_of_two_sides_is_two_locks(client: Redisson) -> None:
    sides = client.get_read_write_lock("rw")
    read = MultiLock(sides.read_lock(), client.get_lock("a"))
    write = MultiLock(sides.write_lock(), client.get_lock("a"))
    await write.acquire()
    await read.acquire()
    await write.release()
    assert [await side.owned() for side in (read, write)] == [True, False]
    assert not await sides.write_lock().owned()
    await read.release()
    assert (await sides.inspect()).holders == ()


# Acquiring and releasing.


async def test_free_members_cost_one_round_trip_each_way(client: Redisson, redis: Redis) -> None:
    lock = multi(client)
    async with lock:
        pass
    before = stream_of(client).traffic.writes
    for lease_time in (None, 10):
        async with Counted(redis) as counted:
            async with lock.hold(lease_time=lease_time):
                pass
        assert counted.calls["evalsha"] == 2 * len(NAMES)
    assert stream_of(client).traffic.writes - before == 4


async def test_lease_counts_from_when_all_are_held(clients: ClientFactory, redis: Redis) -> None:
    client, other = clients(), clients()
    lock = multi(client)
    began = now()
    async with other.get_lock("c") as in_the_way:
        waiting = asyncio.create_task(lock.acquire(lease_time=5))
        await until_listening(client)
        # Those that are held already are kept by the watchdog meanwhile.
        left = await redis.pttl("a") / 1000
        assert 28 - (now() - began) < left <= 30
        began = now()
    lease = await waiting
    assert in_the_way.lost is False
    assert lease.remaining < 5
    assert_left(lease.remaining, 5, began)
    await assert_all_left(redis, 5, began)
    await lease.release()


# Against deadlock.


async def test_opposite_orders_do_not_deadlock(clients: ClientFactory) -> None:
    """Redisson takes members as they are given, and waits until a timeout breaks the circle."""
    orders = list(itertools.permutations(NAMES))
    locks = [
        multi(client, *order)
        for client, order in zip([clients(), clients()] * 3, orders, strict=True)
    ]
    inside = 0

    async def visit(lock: MultiLock) -> None:
        nonlocal inside
        for _ in range(4):
            async with lock:
                inside += 1
                assert inside == 1
                await asyncio.sleep(0)
                inside -= 1

    async with asyncio.timeout(60):
        await asyncio.gather(*(visit(lock) for lock in locks))


async def test_nobody_waits_for_a_member_while_holding_a_later_one(
    clients: ClientFactory, redis: Redis
) -> None:
    client, other = clients(), clients()
    async with other.get_lock("b"):
        waiting = asyncio.create_task(multi(client, "c", "b", "a").acquire())
        await until_listening(client)
        await answered(client)
        assert await held(redis) == [True, True, False]
        async with multi(other, "c").hold(timeout=0):
            pass
    await (await waiting).release()


# Losing a member.


async def test_member_lost_while_others_are_waited_for_is_taken_again(
    clients: ClientFactory, redis: Redis
) -> None:
    client, other = clients(), clients()
    lock = multi(client)
    async with other.get_lock("c"):
        waiting = asyncio.create_task(lock.acquire())
        await until_listening(client)
        await redis.delete("a")
        renew_now(client)
        await until(lambda: client.statistics().losses)
    lease = await waiting
    assert await held(redis) == [True] * 3
    assert not lease.lost
    await lease.release()


async def test_release_goes_on_after_a_member_that_fails(client: Redisson, redis: Redis) -> None:
    """Redisson stops at the first error, and leaves the later members locked."""
    lock = multi(client)
    lease = await lock.acquire()
    for name in ("a", "c"):
        await redis.delete(name)
    with pytest.raises(LeaseLostError):
        await lease.release()
    assert await held(redis) == [False] * 3
    async with lock as lease:
        for name in ("a", "c"):
            await redis.delete(name)
            await redis.set(name, "no lock", px=20000)
        # A key of another type is a hold that is gone.
        with pytest.raises(LeaseLostError, match="taken"):
            await lock.release()
        assert await held(redis) == [True, False, True]
    for name in ("a", "c"):
        await redis.delete(name)
