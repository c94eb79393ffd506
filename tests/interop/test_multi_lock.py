"""What is special about multi locks of both sides: order, parts of each other, members, leases."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import MultiLock, Redisson
from tests.fixtures.client import ClientFactory
from tests.fixtures.java import RedissonFactory
from tests.interop.java import MS, JavaObject
from tests.interop.kinds import SOON, until_ours_waits
from tests.interop.tasks import Tasks
from tests.interop.waits import until_java_listens
from tests.support.waiting import until_async, until_waiting

pytestmark = pytest.mark.also("interop-cluster")

WATCHDOG = 9.0


def ours(client: Redisson, *names: str) -> MultiLock:
    return client.get_multi_lock(*(client.get_lock(name) for name in names))


async def theirs(redisson: JavaObject, *names: str) -> JavaObject:
    return await redisson.get("getMultiLock", *[await redisson.get("getLock", n) for n in names])


async def holders(redis: Redis) -> dict[str, str]:
    """Return the client that holds each member, as the owner's name has it."""
    found = {}
    for name in "abc":
        owners: list[Any] = await redis.hkeys(name)
        for owner in owners:
            found[name] = owner.decode().partition(":")[0]
    return found


async def until_held(redis: Redis, wanted: dict[str, str]) -> None:
    """Return when each member is held by whom it should be, and no other.

    A side that waits for one member releases the others now and then, and acquires them again.
    """

    async def held() -> bool:
        return await holders(redis) == wanted

    await until_async(held)


async def until_renewed(redis: Redis, name: str, times: int = 1) -> None:
    """Return when the lease of a lock has grown so many times."""
    left, grown = await redis.pttl(name), 0

    async def renewed() -> bool:
        nonlocal left, grown
        before, left = left, await redis.pttl(name)
        assert left > 0, "lost"
        grown += left > before
        return grown == times

    await until_async(renewed)


@pytest.mark.usefixtures("only_messages")
async def test_multi_locks_given_in_the_wrong_order_by_both_sides_come_to_an_end(
    clients: ClientFactory, redisson: JavaObject, redis: Redis, tasks: Tasks
) -> None:
    client = clients(turn=60)
    java = await redisson.call("getId")
    both, lock = ours(client, "b", "a"), await theirs(redisson, "b", "a")
    lease = await client.get_lock("a").acquire()
    waiting = lock.call("lock")
    # Java has one member and wants the other one, for which a task of ours comes later.
    await until_java_listens(redis, "redisson_lock__channel:{a}")
    await until_held(redis, {"a": client.id, "b": java})
    mine = tasks.call("a", both.acquire)
    await until_waiting(client, 1)
    async with asyncio.timeout(3 * SOON):
        # Passed to the other task: now each side has what the other one wants, and gives it
        # back after a while. Either may be the first to have both.
        await lease.release()
        await asyncio.wait({mine, waiting}, return_when=asyncio.FIRST_COMPLETED)
        java_first = waiting.done()
        for java_has_it in (java_first, not java_first):
            if java_has_it:
                await waiting
                assert await holders(redis) == {"a": java, "b": java}
                await lock.call("unlock")
            else:
                ours_lease = await mine
                assert await holders(redis) == {"a": client.id, "b": client.id}
                await ours_lease.release()
    assert await holders(redis) == {}


@pytest.mark.usefixtures("only_messages")
@pytest.mark.parametrize("member", ["a", "b"])
async def test_a_member_held_by_java_keeps_us_out_until_it_is_released(
    member: str, client: Redisson, redisson: JavaObject, redis: Redis, tasks: Tasks
) -> None:
    java = await redisson.call("getId")
    both, single = ours(client, "a", "b"), await redisson.get("getLock", member)
    await single.call("lock")
    assert await both.try_acquire() is None
    assert await holders(redis) == {member: java}
    waiting = tasks.call("a", both.acquire, timeout=SOON)
    await until_ours_waits(both)
    # What comes before is held already, and what comes after is left alone.
    await until_held(redis, {"a": client.id, member: java})
    await single.call("unlock")
    lease = await waiting
    assert await holders(redis) == {"a": client.id, "b": client.id}
    await lease.release()


@pytest.mark.parametrize("member", ["a", "b"])
async def test_a_member_held_by_us_keeps_java_out_until_it_is_released(
    member: str, client: Redisson, redisson: JavaObject, redis: Redis
) -> None:
    java = await redisson.call("getId")
    both = await theirs(redisson, "a", "b")
    async with client.get_lock(member):
        assert not await both.call("tryLock")
        assert await holders(redis) == {member: client.id}
        # Longer than the test; Redisson's lock() asks again for all of them every 3 s.
        waiting = both.call("tryLock", 60, "SECONDS")
        await until_java_listens(redis, f"redisson_lock__channel:{{{member}}}")
        assert await holders(redis) == {"a": java, member: client.id}
    async with asyncio.timeout(SOON):
        assert await waiting
    assert await holders(redis) == {"a": java, "b": java}
    await both.call("unlock")


@pytest.mark.usefixtures("only_messages")
async def test_multi_locks_that_share_a_member_exclude_only_each_other(
    client: Redisson, redisson: JavaObject, redis: Redis, tasks: Tasks
) -> None:
    java = await redisson.call("getId")
    left, right = await theirs(redisson, "a", "b"), ours(client, "b", "c")
    await left.call("lock")
    assert await right.try_acquire() is None
    assert await holders(redis) == {"a": java, "b": java}
    async with client.get_lock("c"):
        pass
    waiting = tasks.call("a", right.acquire, timeout=SOON)
    await until_ours_waits(right)
    await left.call("unlock")
    lease = await waiting
    assert not await left.call("tryLock")
    assert await holders(redis) == {"b": client.id, "c": client.id}
    single = await redisson.get("getLock", "a")
    assert await single.call("tryLock")
    await single.call("unlock")
    again = left.call("tryLock", 60, "SECONDS")
    await until_java_listens(redis, "redisson_lock__channel:{b}")
    await lease.release()
    async with asyncio.timeout(SOON):
        assert await again
    await left.call("unlock")
    assert await holders(redis) == {}


async def test_a_lease_time_counts_from_when_all_members_are_held_on_both_sides(
    client: Redisson, redisson: JavaObject, redis: Redis, tasks: Tasks
) -> None:
    both = await theirs(redisson, "a", "b")
    async with client.get_lock("b"):
        # Until it has all, Redisson keeps those it has for twice as long as it waits at most.
        waiting = both.call("tryLock", 200_000, 3_000_000, MS)
        await until_java_listens(redis, "redisson_lock__channel:{b}")
        assert 200_000 < await redis.pttl("a") <= 400_000
    assert await waiting
    for name in ("a", "b"):
        assert 400_000 < await redis.pttl(name) <= 3_000_000
    mine = ours(client, "a", "b")
    second = await redisson.get("getLock", "b")
    await both.call("unlock")
    await second.call("lock")
    lease = tasks.call("a", mine.acquire, lease_time=3000)
    await until_ours_waits(mine)
    assert 0 < await redis.pttl("a") <= 30_000
    await second.call("unlock")
    part = await lease
    for name in ("a", "b"):
        assert 400_000 < await redis.pttl(name) <= 3_000_000
    await part.release()


async def test_each_side_waits_for_a_second_member_longer_than_a_lease_lasts(
    clients: ClientFactory, redissons: RedissonFactory, redis: Redis, tasks: Tasks
) -> None:
    # Each side waits for the second member of a pair of its own, longer than a lease lasts.
    client = clients(lease_time=WATCHDOG)
    redisson = await redissons(lockWatchdogTimeout=int(WATCHDOG * 1000))
    java = await redisson.call("getId")
    mine, both = ours(client, "a", "b"), await theirs(redisson, "c", "d")
    second, fourth = await redisson.get("getLock", "b"), client.get_lock("d")
    await second.call("lock", thread="other")
    async with fourth:
        waiting = tasks.call("a", mine.acquire, timeout=2 * SOON)
        java_waiting = both.call("tryLock", 600, "SECONDS")
        await until_ours_waits(mine)
        await until_java_listens(redis, "redisson_lock__channel:{d}")
        # More than one lease, of what is renewed every third of it. Ours gives "a" back now and
        # then, and asks again.
        await until_renewed(redis, "c", times=4)
        held = await holders(redis)
        assert (held["b"], held["c"]) == (java, java)
        assert not waiting.done()
        await second.call("unlock", thread="other")
        lease = await waiting
        await asyncio.gather(*(until_renewed(redis, name) for name in ("a", "b", "c", "d")))
    assert await java_waiting
    assert await holders(redis) == {"a": client.id, "b": client.id, "c": java}
    await asyncio.gather(*(until_renewed(redis, name) for name in ("a", "b", "c", "d")))
    assert not lease.lost
    await lease.release()
    await both.call("unlock")
