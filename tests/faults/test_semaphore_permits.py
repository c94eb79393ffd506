"""Permits of both kinds of semaphores."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import AcquireTimeoutError, Redisson
from tests.fixtures.client import ClientFactory
from tests.support.streams import answered
from tests.support.waiting import set_safety_poll, until_listening

NAME = "semaphore"
#: Sooner than the safety poll, which would find it too.
PROMPTLY, POLL = 20.0, 60.0

Make = Callable[[Redisson], Any]
KINDS: dict[str, Make] = {
    "plain": lambda client: client.get_semaphore(NAME),
    "with ids": lambda client: client.get_permit_expirable_semaphore(NAME),
}


@pytest.fixture(autouse=True)
def rare_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    set_safety_poll(monkeypatch, POLL)


both_kinds = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


async def take(semaphore: Any, n: int, timeout: float | None = None) -> list[Any]:
    """Take so many permits, whichever kind it is."""
    if hasattr(semaphore, "acquire_many"):
        return list(await semaphore.acquire_many(n, timeout=timeout))
    return [await semaphore.acquire(n, timeout=timeout)]


async def give_back(permits: list[Any]) -> None:
    for permit in permits:
        await permit.release()


@both_kinds
async def test_waiters_for_several_permits_are_woken_as_long_as_one_can_go_on(
    make: Make, client: Redisson, clients: ClientFactory
) -> None:
    waiter = clients()
    semaphore, far = make(client), make(waiter)
    await semaphore.try_set_permits(5)
    held = [(await take(semaphore, 1)) for _ in range(5)]
    waiting = []
    for _ in range(2):
        waiting.append(asyncio.create_task(take(far, 2)))
        await until_listening(waiter)
    await give_back(held.pop())
    await until_listening(waiter)
    assert not any(task.done() for task in waiting)
    await give_back(held.pop())
    async with asyncio.timeout(PROMPTLY):
        done, rest = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert len(done) == 1
    await give_back(held.pop())
    await give_back(held.pop())
    async with asyncio.timeout(PROMPTLY):
        await asyncio.wait(rest)
    for task in waiting:
        await give_back(await task)
    await give_back(held.pop())
    assert await semaphore.available() == 5


@both_kinds
async def test_several_permits_that_come_at_once_let_several_in(
    make: Make, client: Redisson, clients: ClientFactory
) -> None:
    waiter = clients()
    semaphore, far = make(client), make(waiter)
    await semaphore.try_set_permits(6)
    held = await take(semaphore, 6)
    waiting = [asyncio.create_task(take(far, n)) for n in (2, 1, 3)]
    await until_listening(waiter)
    if len(held) > 1:
        await semaphore.release_many([permit.id for permit in held])
    else:
        await held[0].release()
    async with asyncio.timeout(PROMPTLY):
        taken = await asyncio.gather(*waiting)
    assert await semaphore.available() == 0
    for permits in taken:
        await give_back(permits)
    assert await semaphore.available() == 6


@both_kinds
@pytest.mark.parametrize("n", [-1, 2**63])
async def test_numbers_of_permits_out_of_range(make: Make, n: int, client: Redisson) -> None:
    semaphore = make(client)
    with pytest.raises(ValueError, match="must be"):
        await take(semaphore, n)
    with pytest.raises(ValueError, match="must be"):
        await semaphore.add_permits(2**63)
    with pytest.raises(ValueError, match="must be"):
        await semaphore.try_set_permits(-1)
    assert client.statistics().commands_sent == 0


@both_kinds
@pytest.mark.parametrize("n", [True, 1.0, "1"])
async def test_numbers_of_permits_of_another_type(make: Make, n: object, client: Redisson) -> None:
    semaphore: Any = make(client)
    with pytest.raises(TypeError):
        await take(semaphore, n)  # type: ignore[arg-type]  # what is tested
    for call in (semaphore.try_set_permits, semaphore.add_permits):
        with pytest.raises(TypeError):
            await call(n)
    assert client.statistics().commands_sent == 0


@both_kinds
async def test_more_permits_than_there_are_can_come(
    make: Make, client: Redisson, clients: ClientFactory
) -> None:
    waiter = clients()
    semaphore, far = make(client), make(waiter)
    await semaphore.try_set_permits(2)
    # Connected first, so that only the wait can time out.
    await answered(waiter)
    with pytest.raises(AcquireTimeoutError):
        await take(far, 3, timeout=1)
    assert await semaphore.available() == 2
    waiting = asyncio.create_task(take(far, 3))
    await until_listening(waiter)
    await semaphore.add_permits(1)
    async with asyncio.timeout(PROMPTLY):
        await give_back(await waiting)


@both_kinds
async def test_fewer_permits_than_are_taken_are_a_debt(
    make: Make, client: Redisson, clients: ClientFactory, redis: Redis
) -> None:
    semaphore, far = make(client), make(clients())
    await semaphore.try_set_permits(3)
    held = [await take(semaphore, 1) for _ in range(3)]
    await semaphore.add_permits(-2)
    for left in (b"-2", b"-1", b"0"):
        assert await redis.get(NAME) == left
        assert await far.try_acquire() is None
        await give_back(held.pop())
    permit = await far.try_acquire()
    assert permit is not None
    assert await far.try_acquire() is None
    await permit.release()
    assert await semaphore.available() == 1


@both_kinds
@pytest.mark.parametrize("how", ["add", "set"])
async def test_added_permits_wake_waiters(
    make: Make, how: str, client: Redisson, clients: ClientFactory
) -> None:
    waiter = clients()
    semaphore, far = make(client), make(waiter)
    waiting = [asyncio.create_task(take(far, 1)) for _ in range(3)]
    await until_listening(waiter)
    if how == "add":
        await semaphore.add_permits(3)
    else:
        assert await semaphore.try_set_permits(3)
    async with asyncio.timeout(PROMPTLY):
        for task in waiting:
            await give_back(await task)
    assert await semaphore.available() == 3
