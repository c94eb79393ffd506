"""A rate limiter that real Redisson clients and ours share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import RateLimit, RateLimiter, Redisson
from tests.fixtures.client import ClientFactory
from tests.fixtures.java import RedissonFactory
from tests.interop.java import Java, JavaError, JavaObject
from tests.interop.waits import soon
from tests.primitives.test_rate_limiter import admissions
from tests.support.monitor import Monitor
from tests.support.waiting import until_async

pytestmark = [pytest.mark.also("interop-cluster")]

LONG = 600.0
#: Bytes of a record: the length of the id, the id, how many units.
RECORD_BYTES = 1 + 16 + 4


@pytest_asyncio.fixture(autouse=True)
async def _removed(redis: Redis) -> AsyncIterator[None]:
    """A limiter stays until it is deleted, on both sides."""
    yield
    await redis.flushdb()


@pytest.fixture
def ours(client: Redisson) -> RateLimiter:
    """The limiter, as Python has it, without a rate."""
    return client.get_rate_limiter("k")


@pytest_asyncio.fixture
async def theirs(redisson: JavaObject) -> JavaObject:
    """The limiter, as Java has it."""
    return await redisson.get("getRateLimiter", "k")


async def set_there(theirs: JavaObject, rate: int, ms: int, kind: str = "OVERALL") -> bool:
    """Set the rate as Redisson does."""
    return bool(await theirs.call("trySetRate", kind, rate, ms, "MILLISECONDS"))


async def set_by(side: str, ours: RateLimiter, theirs: JavaObject, rate: int, per: float) -> None:
    if side == "java":
        assert await set_there(theirs, rate, round(per * 1000))
    else:
        assert await ours.try_set_rate(rate, per)


both_set = pytest.mark.parametrize("sets", ["java", "python"])


@both_set
async def test_both_take_the_same_units(sets: str, ours: RateLimiter, theirs: JavaObject) -> None:
    await set_by(sets, ours, theirs, 5, LONG)
    assert await ours.rate() == RateLimit(5, LONG, per_client=False)
    assert not await set_there(theirs, 7, 1000)
    assert not await ours.try_set_rate(7)
    assert await ours.acquire(2)
    assert await theirs.call("availablePermits") == 3
    assert await theirs.call("tryAcquire", 2) is True
    assert await ours.available() == 1
    assert not await ours.try_acquire(2)
    assert await theirs.call("tryAcquire", 2) is False
    assert await ours.acquire()
    assert await theirs.call("tryAcquire") is False


@both_set
async def test_the_same_bytes(
    sets: str, ours: RateLimiter, theirs: JavaObject, java: Java, redis: Redis
) -> None:
    await set_by(sets, ours, theirs, 5, LONG)
    expected = {b"rate": b"5", b"interval": b"600000", b"type": b"0", b"keepAliveTime": b"0"}
    if sets == "java" and not java.since(3, 38):
        del expected[b"keepAliveTime"]
    assert await redis.hgetall("k") == expected
    await ours.acquire(2)
    await theirs.call("acquire", 2)
    records: Any = await redis.zrange("{k}:permits", 0, -1, withscores=True)
    assert [len(member) for member, _ in records] == [RECORD_BYTES] * 2
    assert [member[:1] + member[-4:] for member, _ in records] == [b"\x10\x02\0\0\0"] * 2
    # Both clocks are of this machine; a second is far less than an hour, or a wrong unit.
    assert abs(records[0][1] - records[1][1]) < 60_000
    assert await redis.get("{k}:value") == b"1"


async def test_java_waits_for_units_that_python_took(ours: RateLimiter, theirs: JavaObject) -> None:
    await set_there(theirs, 2, 300)
    await ours.acquire(2)
    await soon(theirs.call("acquire", 2))
    assert not await ours.try_acquire(2)


async def test_python_waits_for_units_that_java_took(ours: RateLimiter, theirs: JavaObject) -> None:
    await set_there(theirs, 2, 300)
    await theirs.call("acquire", 2)
    refused = await ours.try_acquire(2)
    assert refused or 0 < refused.retry_after <= 0.301
    assert await ours.acquire(2, timeout=30)


async def test_all_that_wait_on_both_sides_are_admitted_once(
    clients: ClientFactory, redissons: RedissonFactory, redis: Redis
) -> None:
    there = [await (await redissons()).get("getRateLimiter", "k") for _ in range(2)]
    here = [clients().get_rate_limiter("k") for _ in range(2)]
    await set_there(there[0], 5, 40)
    # Not how many in an interval: Redisson records the moment at which it asked, by its
    # own clock, which may be long before the server admits it.
    async with Monitor(redis) as monitor:
        taken: list[asyncio.Future[object]] = [
            limiter.call("acquire", thread=f"{number}") for limiter in there for number in range(60)
        ]
        mine = [limiter.acquire() for limiter in here for _ in range(60)]
        await asyncio.wait_for(asyncio.gather(*mine, *taken), 120)
        moments = admissions(await monitor.rows())
    assert len(moments) == 240
    await until_async(lambda: _is_whole(here[0], there[0]))


async def _is_whole(ours: RateLimiter, theirs: JavaObject) -> bool:
    return bool(await ours.available() == await theirs.call("availablePermits") == 5)


async def test_each_client_has_its_own(
    clients: ClientFactory, redissons: RedissonFactory, redis: Redis
) -> None:
    redisson, client = await redissons(), clients()
    theirs, ours = await redisson.get("getRateLimiter", "k"), client.get_rate_limiter("k")
    await set_there(theirs, 2, 600_000, "PER_CLIENT")
    assert await ours.rate() == RateLimit(2, LONG, per_client=True)
    assert await ours.acquire(2)
    assert not await ours.try_acquire()
    assert await theirs.call("tryAcquire", 2) is True
    assert await theirs.call("tryAcquire") is False
    java_id = await redisson.call("getId")
    keys = {
        f"{{k}}:{part}:{each}" for part in ("value", "permits") for each in (java_id, client.id)
    }
    found: list[Any] = await redis.keys("{k}:*")
    assert {key.decode() for key in found if b"receipt" not in key} == keys


@both_set
async def test_a_new_rate_begins_anew_for_both(
    sets: str, ours: RateLimiter, theirs: JavaObject
) -> None:
    await set_there(theirs, 2, 600_000)
    await ours.acquire(2)
    if sets == "java":
        await theirs.call("setRate", "OVERALL", 4, 60_000, "MILLISECONDS")
    else:
        await ours.set_rate(4, 60)
    assert await ours.rate() == RateLimit(4, 60.0, per_client=False)
    assert await ours.available() == await theirs.call("availablePermits") == 4
    assert await theirs.call("tryAcquire", 4) is True
    assert not await ours.try_acquire()


@both_set
async def test_deleted_for_both(
    sets: str, ours: RateLimiter, theirs: JavaObject, redis: Redis
) -> None:
    await set_there(theirs, 2, 600_000)
    await ours.acquire()
    await theirs.call("acquire")
    assert await (theirs.call("delete") if sets == "java" else ours.delete()) is True
    assert [key for key in await redis.keys("*") if b"receipt" not in key] == []
    assert await ours.rate() is None
    with pytest.raises(JavaError, match="not initialized"):
        await theirs.call("availablePermits")


async def test_a_cancelled_wait_leaves_java_what_it_had(
    ours: RateLimiter, theirs: JavaObject
) -> None:
    await set_there(theirs, 2, 600_000)
    taking = asyncio.create_task(ours.acquire(2))
    await asyncio.sleep(0)
    taking.cancel()
    await asyncio.wait([taking])
    assert await ours.available() == 2
    assert await theirs.call("tryAcquire", 2) is True


async def test_units_that_java_gives_back_are_free(
    java: Java, ours: RateLimiter, theirs: JavaObject
) -> None:
    if not java.since(3, 52):
        pytest.skip(f"Redisson {java.release} cannot give units back")
    await set_there(theirs, 2, 600_000)
    await ours.acquire(2)
    await theirs.call("release", 1)
    assert await ours.available() == 1
    assert await ours.try_acquire()


async def test_a_time_to_live_of_redisson_is_kept(
    java: Java, ours: RateLimiter, theirs: JavaObject, redis: Redis
) -> None:
    if not java.since(3, 38):
        pytest.skip(f"Redisson {java.release} has no keepAliveTime")
    keys = ("k", "{k}:value", "{k}:permits")
    await theirs.call("trySetRate", "OVERALL", 2, "PT300S", "PT500S")
    await ours.acquire()
    assert all([400_000 < await redis.pttl(key) <= 500_000 for key in keys])
