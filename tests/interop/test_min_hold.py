"""A name that stays taken after our block: Java waits for the end, as for any holder's lease."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py._time import now
from tests.fixtures.java import RedissonFactory
from tests.interop.java import MS, Java
from tests.interop.kinds import must_look_again
from tests.interop.waits import soon, until_asleep

pytestmark = pytest.mark.usefixtures("only_messages")

KINDS = {"getLock": "get_lock", "getFairLock": "get_fair_lock", "getFencedLock": "get_fenced_lock"}


@pytest.mark.parametrize("kind", KINDS)
async def test_java_is_refused_until_then_and_gets_it_at_the_end(
    kind: str, client: Redisson, redissons: RedissonFactory, java: Java
) -> None:
    must_look_again(kind, java)
    theirs = await (await redissons()).get(kind, "k")
    lock = getattr(client, KINDS[kind])("k")
    began = now()
    async with lock.hold(min_hold=5):
        waiting = theirs.call("tryLock", 60_000, 60_000, MS, thread="a")
        await until_asleep(theirs, "a")
    assert await theirs.call("tryLock", thread="b") is False
    assert await theirs.call("isLocked", thread="b") is True
    assert await soon(waiting) is True
    assert now() - began >= 5
    assert await lock.try_acquire() is None
    await theirs.call("unlock", thread="a")


@pytest.mark.parametrize("kind", KINDS)
async def test_java_frees_it_by_force(
    kind: str, client: Redisson, redissons: RedissonFactory, redis: Redis
) -> None:
    theirs = await (await redissons()).get(kind, "k")
    lock = getattr(client, KINDS[kind])("k")
    async with lock.hold(min_hold=300):
        pass
    assert await theirs.call("forceUnlock") is True
    assert await redis.exists("k") == 0
    async with lock:
        pass
