"""What is special about multi locks of both sides: order, parts of each other, members, leases."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import MultiLock, Redisson
from tests.fixtures.client import ClientFactory
from tests.interop.java import JavaObject
from tests.interop.kinds import SOON, until_ours_waits
from tests.interop.tasks import Tasks
from tests.interop.waits import until_java_listens
from tests.support.waiting import until_async, until_waiting

pytestmark = pytest.mark.also("interop-cluster")


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
