"""Those who do not join the queue of clients, beside those who do."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from redis.asyncio import Redis

from redisson_py import LockLike, Redisson, RedLock
from tests.crowd.conftest import Join
from tests.crowd.kinds import holding, of_kind
from tests.crowd.queue_look import QUEUE, until_in_queue, until_nobody_is_left
from tests.fixtures.client import ClientFactory
from tests.support.waiting import until_async

pytestmark = [pytest.mark.heart, pytest.mark.timeout(120)]

#: Seconds in which everybody must have come who needs no safety poll.
SOON = 60


@pytest.mark.parametrize("of", ["lock", "write"])
@pytest.mark.parametrize("section", [0, 0.001, 0.05], ids=["empty", "short", "long"])
async def test_red_and_multi_locks_of_a_lock_in_a_crowd_come_too(
    clients: ClientFactory, redis: Redis, section: float, of: str
) -> None:
    granted = Counter[str]()
    enough = asyncio.Event()

    async def work(number: int, kind: str) -> None:
        client = clients()
        lock = (
            client.get_lock("k") if of == "lock" else client.get_read_write_lock("k").write_lock()
        )
        shared: LockLike = {
            "lock": lock,
            "red": RedLock(lock),
            "multi": client.get_multi_lock(lock, client.get_lock("{k}other")),
        }[kind]
        while not enough.is_set():
            async with shared:
                await asyncio.sleep(section)
                granted[f"{kind} {number}"] += 1
            if len(granted) == 8 and min(granted.values()) >= 3:
                enough.set()

    kinds = ["lock"] * 6 + ["red", "multi"]
    async with asyncio.timeout(SOON), asyncio.TaskGroup() as group:
        for number, kind in enumerate(kinds):
            group.create_task(work(number, kind))
    await until_nobody_is_left(redis)


@pytest.mark.parametrize("kind", ["lock", "write", "read"])
async def test_who_does_not_wait_takes_it_once_a_silent_client_is_passed_over(
    join: Join, clients: ClientFactory, client: Redisson, redis: Redis, kind: str
) -> None:
    lease = await holding(client, kind).acquire()
    silent = await join(kind)
    silent.stop()
    await lease.release()
    hasty = holding(clients(), kind)

    async def taken() -> bool:
        if (lease := await hasty.try_acquire()) is None:
            return False
        await lease.release()
        return True

    await until_async(taken, SOON)
    silent.go_on()
    await silent.granted()
    await silent.release()
    await until_nobody_is_left(redis)


@pytest.mark.usefixtures("nobody_is_passed_over")
@pytest.mark.parametrize("kind", ["lock", "write", "read"])
async def test_who_does_not_wait_lets_the_first_client_go_first(
    clients: ClientFactory, client: Redisson, redis: Redis, kind: str
) -> None:
    first = clients()
    lease = await holding(client, kind).acquire()
    waits = asyncio.create_task(of_kind(first, kind).acquire())
    await until_in_queue(redis, 1)
    await asyncio.sleep(0.03)  # after this newcomers do not come first
    await lease.release()
    hasty = await holding(client, kind).try_acquire()
    assert hasty is None
    await (await waits).release()


async def test_a_holder_enters_again_while_others_wait(
    clients: ClientFactory, client: Redisson, redis: Redis
) -> None:
    lock, others = client.get_lock("k"), [clients() for _ in range(3)]
    async with lock:
        waits = [asyncio.create_task(each.get_lock("k").acquire()) for each in others]
        await until_in_queue(redis, 3)
        async with lock, lock.hold(timeout=10):
            assert await lock.try_acquire() is not None
            await lock.release()
        assert not any(each.done() for each in waits)
    async with asyncio.timeout(SOON):
        for each in asyncio.as_completed(waits):
            await (await each).release()
    await until_nobody_is_left(redis)


async def test_a_clock_that_goes_back_makes_nobody_wait_for_a_silent_client(
    clients: ClientFactory, redis: Redis
) -> None:
    """As after a failover to a server whose clock is behind."""
    seconds, microseconds = await redis.time()
    later = (seconds + 20) * 1000000 + microseconds
    await redis.zadd(QUEUE, {"silent": later - 40 * 1000000, ">silent": -later})
    async with clients().get_lock("k").hold(timeout=5):
        pass
    await until_nobody_is_left(redis)
