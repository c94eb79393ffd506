"""Clients in the queue of a semaphore: as many come as there are units, and who wants many too."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import PermitExpirableSemaphore, Redisson, Semaphore
from tests.crowd.queue_look import QUEUE, members, until_in_queue, until_nobody_is_left
from tests.fixtures.client import ClientFactory
from tests.support.waiting import (
    set_safety_poll,
    until,
    until_async,
    until_listening,
    until_waiting,
)

pytestmark = [pytest.mark.heart, pytest.mark.timeout(120)]

#: Seconds in which everybody must have come who needs no safety poll.
SOON = 60
each_kind = pytest.mark.parametrize("kind", ["semaphore", "permits"])


def of(client: Redisson, kind: str, permits: int | None = None) -> Any:
    if kind == "semaphore":
        return client.get_semaphore("k", permits)
    return client.get_permit_expirable_semaphore("k", permits)


async def all_taken(client: Redisson, kind: str, permits: int) -> list[Any]:
    """Take all permits, one by one."""
    semaphore = of(client, kind, permits)
    return [await semaphore.acquire() for _ in range(permits)]


async def waiting(
    crowd: Sequence[Semaphore | PermitExpirableSemaphore], redis: Redis
) -> list[asyncio.Task[Any]]:
    """Have each wait, in this order."""
    tasks = []
    for number, each in enumerate(crowd, 1):
        tasks.append(asyncio.create_task(each.acquire()))
        await until_in_queue(redis, number)
    return tasks


async def come(tasks: list[asyncio.Task[Any]], count: int) -> list[Any]:
    """Return what so many are given, once they have come, and no other."""
    await until(lambda: sum(each.done() for each in tasks) >= count)
    # Usually the first, but a busy machine may keep these silent for too long.
    came = [each for each in tasks if each.done()]
    assert len(came) == count
    for each in came:
        tasks.remove(each)
    return [each.result() for each in came]


@each_kind
async def test_as_many_clients_are_in_as_there_are_permits(
    clients: ClientFactory, redis: Redis, kind: str
) -> None:
    inside = most = 0
    granted = Counter[int]()

    async def work(number: int) -> None:
        nonlocal inside, most
        semaphore = of(clients(), kind, 3)
        while min(granted[each] for each in range(9)) < 5:
            async with semaphore:
                inside += 1
                most = max(most, inside)
                granted[number] += 1
                await asyncio.sleep(0.002)
                inside -= 1

    async with asyncio.timeout(SOON):
        await asyncio.gather(*[work(number) for number in range(9)])
    assert most == 3
    await until_nobody_is_left(redis)


@each_kind
@pytest.mark.parametrize("how", ["add", "set", "release"])
async def test_as_many_are_called_as_units_come_back(
    clients: ClientFactory, client: Redisson, redis: Redis, kind: str, how: str
) -> None:
    held = await all_taken(client, kind, 2)
    tasks = await waiting([of(clients(), kind) for _ in range(4)], redis)
    semaphore = of(client, kind)
    if how == "add":
        await semaphore.add_permits(2)
    elif how == "set":
        await semaphore.set_permits(4)
    else:
        for permit in held:
            await permit.release()
    for permit in await come(tasks, 2):
        await permit.release()
    for permit in (*await come(tasks, 2), *(held if how != "release" else ())):
        await permit.release()
    await until_nobody_is_left(redis)


@each_kind
async def test_those_who_wait_for_a_semaphore_that_is_not_there_are_called_when_it_is(
    clients: ClientFactory, client: Redisson, redis: Redis, kind: str
) -> None:
    tasks = await waiting([of(clients(), kind) for _ in range(3)], redis)
    await of(client, kind).try_set_permits(2)
    for permit in await come(tasks, 2):
        await permit.release()
    await (await tasks[0]).release()
    await until_nobody_is_left(redis)


@each_kind
async def test_a_client_waits_under_the_name_that_says_what_it_wants(
    clients: ClientFactory, client: Redisson, redis: Redis, kind: str
) -> None:
    held = await all_taken(client, kind, 3)
    waiter = clients()
    semaphore = of(waiter, kind)
    many = {"semaphore": "acquire", "permits": "acquire_many"}[kind]
    tasks = [asyncio.create_task(getattr(semaphore, many)(2))]
    await until_in_queue(redis, 1)
    name = waiter.id + ("" if kind == "semaphore" else ":permit")
    assert await members(redis) == [f"{name}:2"]
    tasks.append(asyncio.create_task(semaphore.acquire()))
    await until_waiting(waiter, 2)
    # The next task wants another number: it is another place in the queue.
    tasks[0].cancel()
    await asyncio.wait(tasks[:1])

    async def renamed() -> bool:
        return await members(redis) == [name]

    await until_async(renamed)
    await held[0].release()
    await (await tasks[1]).release()
    await until_nobody_is_left(redis)
    for permit in held[1:]:
        await permit.release()


@pytest.mark.parametrize("rounds", range(6))
@each_kind
async def test_who_left_under_another_name_asks_again_to_come_back(
    clients: ClientFactory,
    client: Redisson,
    redis: Redis,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    rounds: int,
) -> None:
    """A task for one unit leaves between two for two: what the first heard is not for the last."""
    set_safety_poll(monkeypatch, SOON)
    held = await all_taken(client, kind, 2)
    ahead = await waiting([of(clients(), kind) for _ in range(2)], redis)
    waiter = clients()
    semaphore = of(waiter, kind)
    many = getattr(semaphore, {"semaphore": "acquire", "permits": "acquire_many"}[kind])
    wants = [many(2), semaphore.acquire(), many(2)]
    first, between, last = [asyncio.create_task(each) for each in wants]
    await until_waiting(waiter, 3)
    await until_in_queue(redis, 3)
    await until_listening(waiter)
    first.cancel()
    # In one of these turns its request is on its way.
    for _ in range(rounds):
        await asyncio.sleep(0)
    between.cancel()
    await asyncio.wait([first, between])
    for each in ahead:
        each.cancel()
    await asyncio.wait(ahead)
    for permit in held:
        await permit.release()
    async with asyncio.timeout(10):
        got = await last
    for permit in got if kind == "permits" else [got]:
        await permit.release()
    await until_nobody_is_left(redis)


@each_kind
async def test_who_wants_all_comes_beside_many_who_want_one(
    clients: ClientFactory, redis: Redis, kind: str
) -> None:
    enough = asyncio.Event()
    small = 0

    async def wants_one() -> None:
        nonlocal small
        semaphore = of(clients(), kind, 3)
        while not enough.is_set():
            async with semaphore:
                small += 1
                await asyncio.sleep(0.001)

    async def wants_all() -> None:
        semaphore = of(clients(), kind, 3)
        for _ in range(3):
            if kind == "semaphore":
                await (await semaphore.acquire(3)).release()
            else:
                await semaphore.release_many(await semaphore.acquire_many(3))
        enough.set()

    async with asyncio.timeout(SOON), asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(wants_one())
        group.create_task(wants_all())
    assert small
    await until_nobody_is_left(redis)


@each_kind
async def test_a_release_that_calls_nobody_reaches_the_first(
    clients: ClientFactory, client: Redisson, redis: Redis, kind: str
) -> None:
    """As one of Redisson's, or of an older version of this library."""
    held = await all_taken(client, kind, 1)
    tasks = await waiting([of(clients(), kind) for _ in range(3)], redis)
    await redis.incr("k")
    await redis.publish("redisson_sc:{k}", "1")
    await until(lambda: any(each.done() for each in tasks[:2]))
    for permit in held:
        await permit.release()
    async with asyncio.timeout(SOON):
        for each in asyncio.as_completed(tasks):
            await (await each).release()
    assert not await redis.exists(QUEUE)
