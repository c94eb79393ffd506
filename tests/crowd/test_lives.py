"""Clients of a queue whose event loop or process ends, and many clients in one process."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from redisson_py import Redisson
from tests.crowd.kinds import each_queue, holding, of_kind, one_by_one_queues
from tests.crowd.queue_look import until_in_queue, until_nobody_is_left
from tests.fixtures.client import ClientFactory
from tests.support.waiting import until_listening

pytestmark = pytest.mark.timeout(120)

#: Seconds in which everybody must have come who needs no safety poll.
SOON = 60


@each_queue
async def test_a_client_whose_event_loop_was_closed_lets_the_next_go(
    clients: ClientFactory, client: Redisson, redis: Redis, server_url: str, kind: str
) -> None:
    lease = await holding(client, kind).acquire()
    ended = Redisson.from_url(server_url)

    async def leave_while_waiting() -> None:
        waits = asyncio.create_task(of_kind(ended, kind).acquire())
        await until_listening(ended)
        # `asyncio.run` cancels it, and closes the loop.
        assert not waits.done()

    await asyncio.to_thread(asyncio.run, leave_while_waiting())
    following = asyncio.create_task(of_kind(clients(), kind).acquire())
    await until_in_queue(redis, 1)
    await lease.release()
    async with asyncio.timeout(SOON):
        await (await following).release()

    async def use_again() -> None:
        async with ended, of_kind(ended, kind).hold(timeout=SOON):
            pass

    await asyncio.to_thread(asyncio.run, use_again())
    await until_nobody_is_left(redis)


@one_by_one_queues
@pytest.mark.usefixtures("nobody_is_passed_over")
async def test_512_clients_of_one_process_come_in_order(
    clients: ClientFactory, client: Redisson, redis: Redis, kind: str
) -> None:
    lease = await holding(client, kind).acquire()
    crowd = [clients() for _ in range(512)]
    order: list[int] = []

    async def work(number: int) -> None:
        async with of_kind(crowd[number], kind):
            order.append(number)

    tasks = []
    for number in range(512):
        tasks.append(asyncio.create_task(work(number)))
        if number % 64 == 63:
            await until_in_queue(redis, number + 1)
    await lease.release()
    async with asyncio.timeout(SOON):
        await asyncio.gather(*tasks)
    # Within one bunch the connections decide.
    assert [number // 64 for number in order] == sorted(number // 64 for number in order)
    await until_nobody_is_left(redis)
