"""A lease goes from process to process; some of them are killed or stopped on the way."""

from __future__ import annotations

import asyncio
import itertools
import signal
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import LeaseLostError, NotHeldError, Redisson
from redisson_py._keys import tombstone
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.waiting import until_async
from tests.system.conftest import LEASE, LONG, Part


async def free(redis: Redis) -> None:
    """Return when nobody holds `k`."""

    async def is_free() -> bool:
        return not await redis.exists("k")

    await until_async(is_free)


async def is_there(redis: Redis, key: bytes) -> bool:
    return bool(await redis.exists(key))


async def has_changed_hands(redis: Redis, giver: str) -> bool:
    """Return whether another owner has `k`."""
    owners = await redis.hkeys("k")
    return bool(owners) and owners != [giver.encode()]


async def test_a_chain_of_processes(part: Part, client: Redisson, redis: Redis) -> None:
    lock = client.get_fenced_lock("k")
    links = [await part() for _ in range(3)]
    held = await links[0]("acquire")
    for giver, taker in itertools.pairwise(links):
        token = (await giver("give"))["token"]
        await giver.kill()
        assert await lock.try_acquire() is None
        taken = await taker("adopt", token)
        assert taken["fencing"] == held["fencing"]
        assert await lock.try_acquire() is None
    assert not (await links[-1]("work"))["lost"]
    await links[-1]("release")
    async with lock as lease:
        assert lease.token > held["fencing"]


async def test_of_two_processes_one_adopts_it(part: Part, client: Redisson) -> None:
    takers = [await part() for _ in range(2)]
    for _ in range(10):
        token = await (await client.get_fenced_lock("k").acquire()).hand_over()
        answers = await asyncio.gather(*[taker("adopt", token) for taker in takers])
        (refused,) = [answer for answer in answers if "error" in answer]
        assert refused == {"error": "NotHeldError"}
        await takers[answers.index(refused) == 0]("release")


async def test_an_adopter_that_is_killed(part: Part, client: Redisson, redis: Redis) -> None:
    taker = await part(LEASE)
    lock = client.get_fenced_lock("k")
    token = await (await lock.acquire()).hand_over(lease_time=LONG)
    taken = await taker("adopt", token)
    # Its next answer comes behind the lease that it has set.
    await taker("work")
    await taker.kill()
    assert await redis.pttl("k") <= LEASE * 1000, "within a lease of the adopter"
    async with lock.hold(timeout=60) as after:
        assert after.token > taken["fencing"]
        with pytest.raises((NotHeldError, LeaseLostError)):
            await client.adopt(token)
    await free(redis)


async def test_a_giver_that_is_killed_before_anybody_adopts(
    part: Part, client: Redisson, redis: Redis
) -> None:
    giver = await part(LEASE)
    held = await giver("acquire")
    token = (await giver("give"))["token"]
    await giver.kill()
    assert await redis.pttl("k") <= LEASE * 1000
    async with client.get_fenced_lock("k").hold(timeout=60) as after:
        assert after.token > held["fencing"]
        with pytest.raises(LeaseLostError, match="came too late"):
            await client.adopt(token)


async def test_a_giver_that_is_killed_before_it_has_the_token(
    part: Part, client: Redisson, redis: Redis, proxy: ProxyFactory
) -> None:
    link = await proxy()
    giver = await part(LEASE, link.url)
    held = await giver("acquire")
    link.black_hole("down")
    giver.begin("give")
    kept = tombstone(b"k", held["owner"])
    await until_async(lambda: is_there(redis, kept))
    await giver.kill()
    assert 0 < await redis.pttl("k") <= LEASE * 1000
    async with client.get_fenced_lock("k").hold(timeout=60) as after:
        assert after.token > held["fencing"]
    await free(redis)


async def test_an_adopter_that_is_killed_before_it_hears_of_it(
    part: Part, clients: ClientFactory, redis: Redis, proxy: ProxyFactory
) -> None:
    link, client = await proxy(), clients(lease_time=LEASE)
    taker = await part(LEASE, link.url)
    await taker("acquire")
    await taker("release")
    lease = await client.get_fenced_lock("k").acquire()
    token = await lease.hand_over()
    link.black_hole("down")
    taker.begin("adopt", token)
    await until_async(lambda: has_changed_hands(redis, lease.owner))
    await taker.kill()
    assert 0 < await redis.pttl("k") <= LEASE * 1000
    with pytest.raises(NotHeldError, match="already adopted"):
        await client.adopt(token)
    async with client.get_fenced_lock("k").hold(timeout=60) as after:
        assert after.token > lease.token
    await free(redis)


async def test_a_giver_that_is_stopped_and_goes_on(part: Part, clients: Any, redis: Redis) -> None:
    giver, client = await part(LEASE), clients(lease_time=LONG)
    held = await giver("acquire")
    token = (await giver("give"))["token"]
    giver.process.send_signal(signal.SIGSTOP)
    adopted = await client.adopt(token)
    # Longer than the lease that the giver had: its timers are all due.
    await asyncio.sleep(LEASE * 1.2)
    giver.process.send_signal(signal.SIGCONT)
    assert await giver("work") == {**held, "lost": False}
    assert await giver("release") == {"error": "NotHeldError"}
    assert giver.process.stdin is not None
    giver.process.stdin.close()
    await giver.process.wait()
    assert await redis.hgetall("k") == {adopted.owner.encode(): b"1"}
    assert not adopted.lost
    await adopted.release()
