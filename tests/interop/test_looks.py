"""What each side says of a lock that the other holds, and the fencing tokens of both."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from redisson_py import Redisson
from tests.interop.java import JavaObject
from tests.interop.kinds import LONG, Scene, only

pytestmark = pytest.mark.also("interop-cluster")


# Of those that are made of others Redisson tells nothing.
@only(lambda kind: not kind.joint)
async def test_both_see_holder_hold_count_and_remaining_time(scene: Scene) -> None:
    theirs, ours = await scene.theirs(), scene.ours()
    assert not await theirs.call("isLocked")
    assert await theirs.call("remainTimeToLive") == -2
    assert await ours.remaining() is None
    assert (await ours.inspect()).holders == ()

    async with ours:
        assert await theirs.call("isLocked")
        assert not await theirs.call("isHeldByCurrentThread")
        assert 1000 * (LONG - 10) < await theirs.call("remainTimeToLive") <= 1000 * LONG

    holds = 2 if scene.kind.reentrant else 1
    for _ in range(holds):
        assert await theirs.try_lock(lease_time=LONG)
    assert await ours.locked()
    assert not await ours.owned()
    assert await ours.hold_count() == 0
    left = await theirs.call("remainTimeToLive")
    assert LONG - 10 < (await ours.remaining() or 0) <= left / 1000
    (holder,) = (await ours.inspect()).holders
    assert (holder.owner, holder.holds) == (await theirs.owner("a"), holds)
    assert LONG - 10 < holder.remaining <= left / 1000
    assert (holder.host, holder.pid, holder.client_name, holder.task) == (None,) * 4
    for _ in range(holds):
        await theirs.unlock()


@only(lambda kind: kind.joint)
async def test_we_see_what_java_holds_of_several_locks(scene: Scene) -> None:
    theirs, ours = await scene.theirs(), scene.ours()
    assert not await ours.locked()
    assert await theirs.try_lock(lease_time=LONG)
    assert await ours.locked()
    assert not await ours.owned()
    assert LONG - 10 < (await ours.remaining() or 0) <= LONG
    owners = [holder.owner.rpartition(":")[0] for holder in (await ours.inspect()).holders]
    theirs_are = [await redisson.call("getId") for redisson in theirs.redissons]
    assert set(owners) == set(theirs_are)
    assert len(owners) == len(theirs.members)
    await theirs.unlock()
    async with ours:
        # A red lock does with two of three.
        assert sum([await member.call("isLocked") for member in theirs.members]) >= 2
        for member in theirs.members:
            assert not await member.call("isHeldByCurrentThread")
    assert await scene.state() == []


async def test_tokens_grow_on_both_sides(
    client: Redisson, redisson: JavaObject, redis: Redis
) -> None:
    ours, theirs = client.get_fenced_lock("k"), await redisson.get("getFencedLock", "k")
    seconds, _ = await redis.time()
    tokens: list[int] = []

    async def java_takes(*method: object) -> None:
        token = await theirs.call(str(method[0]), *method[1:], thread="a")
        tokens.append(token)
        assert await theirs.call("getToken", thread="b") == token
        # Entering again it gets a new one; we keep ours.
        tokens.append(await theirs.call("lockAndGetToken", thread="a"))
        for _ in range(2):
            await theirs.call("unlock", thread="a")

    async def we_take() -> None:
        async with ours as lease, ours as again:
            assert lease.token is not None
            assert again.token == lease.token
            tokens.append(lease.token)
            # Redis keeps the last of those that may be passed to tasks here.
            assert await theirs.call("getToken") >= lease.token

    await java_takes("lockAndGetToken")
    assert tokens == [1, 2]
    await we_take()
    assert tokens[-1] >= seconds * 1_000_000
    await java_takes("tryLockAndGetToken")
    await java_takes("tryLockAndGetToken", 1, "SECONDS")
    await asyncio.gather(*(asyncio.create_task(we_take()) for _ in range(3)))
    await we_take()
    await java_takes("tryLockAndGetToken", 1, 10, "SECONDS")
    assert tokens == sorted(set(tokens))


async def test_java_gets_no_token_and_takes_none_while_we_hold(
    client: Redisson, redisson: JavaObject
) -> None:
    ours, theirs = client.get_fenced_lock("k"), await redisson.get("getFencedLock", "k")
    async with ours:
        before = await theirs.call("getToken")
        # Without arguments it would wait, whoever holds it.
        assert await theirs.call("tryLockAndGetToken", 0, "SECONDS") is None
        assert await theirs.call("getToken") == before
