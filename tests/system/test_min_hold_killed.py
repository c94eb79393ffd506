"""A process with a `min_hold` is killed: in its block, after it, and between the two."""

from __future__ import annotations

from redis.asyncio import Redis

from redisson_py import Redisson
from tests.fixtures.redis_server import ProxyFactory
from tests.support.waiting import until_async
from tests.system.conftest import LEASE, Part

#: Seconds, longer than any test takes.
LONG = "300"


async def owners(redis: Redis) -> list[str]:
    """Return who has `k`, on the server."""
    return [each.decode() for each in await redis.hkeys("k")]  # type: ignore[union-attr]


async def test_in_its_block_the_name_is_free_within_a_lease(
    part: Part, client: Redisson, redis: Redis
) -> None:
    holder = await part(LEASE)
    held = await holder("enter", LONG)
    await holder.kill()
    assert await owners(redis) == [held["owner"]]
    assert await redis.pttl("k") <= LEASE * 1000
    async with client.get_fenced_lock("k").hold(timeout=60) as after:
        assert after.token > held["fencing"]


async def test_after_its_block_the_name_stays_taken(
    part: Part, client: Redisson, redis: Redis
) -> None:
    holder = await part(LEASE)
    held = await holder("enter", LONG)
    await holder("leave")
    await holder.kill()
    assert await owners(redis) == [f"{held['owner']}:kept"]
    assert await redis.pttl("k") > LEASE * 1000
    lock = client.get_fenced_lock("k")
    assert await lock.try_acquire() is None
    assert await lock.force_release()
    async with lock as after:
        assert after.token > held["fencing"]


async def test_before_the_server_hears_that_it_leaves(
    part: Part, client: Redisson, redis: Redis, proxy: ProxyFactory
) -> None:
    link = await proxy()
    holder = await part(LEASE, link.url)
    held = await holder("enter", LONG)
    link.hold()
    holder.begin("leave")
    await link.wait_until(lambda link: link.held > 0)
    await holder.kill()
    assert await owners(redis) == [held["owner"]]
    assert await redis.pttl("k") <= LEASE * 1000
    async with client.get_fenced_lock("k").hold(timeout=60) as after:
        assert after.token > held["fencing"]


async def test_before_it_hears_that_it_has_left(
    part: Part, client: Redisson, redis: Redis, proxy: ProxyFactory
) -> None:
    link = await proxy()
    holder = await part(LEASE, link.url)
    held = await holder("enter", LONG)
    link.black_hole("down")
    holder.begin("leave")

    async def has_left() -> bool:
        return await owners(redis) == [f"{held['owner']}:kept"]

    await until_async(has_left)
    await holder.kill()
    assert await redis.pttl("k") > LEASE * 1000
    assert await client.get_lock("k").force_release()
