"""Faults that a review of the fast path of acquire and release found (issue 13)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import ClientClosedError, LeaseLostError, Redisson
from redisson_py._time import now
from tests.fixtures.client import ClientFactory
from tests.support.cluster_look import plain_client
from tests.support.streams import answered
from tests.support.waiting import until

forks = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def said_in_a_child(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, object]) -> str:
    """Fork, go on with the same event loop in the child; return what the work said there."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        answer = ""
        try:
            loop.run_until_complete(asyncio.wait_for(work, 5))
            answer = "done"
        except BaseException as error:  # whatever it is, the parent shall see it
            answer = repr(error)
        finally:
            os.write(writing, answer.encode())
            os._exit(0)
    work.close()
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        text = answers.read()
    os.waitpid(child, 0)
    return text.decode()


async def test_block_is_the_use_that_creates_a_semaphore(client: Redisson, redis: Redis) -> None:
    """Afterwards the object does not create it again: somebody has deleted it on purpose."""
    semaphore = client.get_semaphore("s", 3)
    async with semaphore:
        pass
    await redis.delete("s")
    try:
        assert await semaphore.available() == 0
        await semaphore.add_permits(2)
        assert await semaphore.available() == 2
    finally:
        await redis.delete("s")


@pytest.mark.more
async def test_end_of_a_lease_is_not_put_off_while_a_crowd_is_renewed(
    clients: ClientFactory,
) -> None:
    """It fell into the pause between two batches of renewals (also before issue 13)."""
    client = clients(lease_time=6)
    watchdog = client._watchdog
    async with AsyncExitStack() as crowd:
        # Renewed two seconds from now, a hundred first, the others a third of a second later.
        for number in range(150):
            await crowd.enter_async_context(client.get_lock(f"{{k}}{number}"))
        # A third of the lease after the first was sent.
        renewed_at = min(hold.lease_until for hold in watchdog.holds) - 4
        short = await client.get_lock("short").acquire(lease_time=renewed_at - now() + 0.1)
        await until(lambda: watchdog.renewals)
        assert short.lost or watchdog._armed_for <= short._ends_at + 0.005
        await short.wait_lost()
        with pytest.raises(LeaseLostError):
            await short.release()


@pytest.mark.parametrize("kind", ["lock", "fenced", "fair", "read_write", "semaphore"])
async def test_name_of_a_wrong_type_is_refused_though_an_equal_one_was_used(
    client: Redisson, kind: str
) -> None:
    makers: dict[str, Any] = {
        "lock": client.get_lock,
        "fenced": client.get_fenced_lock,
        "fair": client.get_fair_lock,
        "read_write": client.get_read_write_lock,
        "semaphore": lambda name: client.get_semaphore(name, 2),
    }
    makers[kind](b"k")
    with pytest.raises(TypeError, match="name must be str or bytes, not memoryview"):
        makers[kind](memoryview(b"k"))


@forks
def test_acquire_after_a_fork_that_goes_on_with_the_loop_is_refused(server_url: str) -> None:
    """Parent and child would have the same owner, and one connection: both would get the lock."""
    loop = asyncio.new_event_loop()
    client = Redisson.from_url(server_url)

    async def use(name: str) -> None:
        async with client.get_lock(name):
            pass

    async def owners() -> list[Any]:
        async with plain_client(server_url) as redis:
            return list(await redis.hkeys("taken in the child"))

    async def keep() -> None:
        await client.get_lock("taken in the child").acquire()

    try:
        loop.run_until_complete(use("k"))
        said = said_in_a_child(loop, keep())
        assert loop.run_until_complete(owners()) == []
        assert ClientClosedError.__name__ in said
        assert "fork" in said
    finally:
        # The parent's own acquisition must be one of its own, and its release must free it.
        loop.run_until_complete(use("taken in the child"))
        loop.run_until_complete(client.aclose())
        loop.close()


@forks
def test_leaving_a_block_after_a_fork_does_not_release_the_parents_hold(server_url: str) -> None:
    loop = asyncio.new_event_loop()
    client = Redisson.from_url(server_url)
    leave = asyncio.Event()

    async def hold() -> None:
        async with client.get_lock("k"):
            await leave.wait()

    async def held() -> int:
        async with plain_client(server_url) as redis:
            return int(await redis.exists("k"))

    async def begin() -> asyncio.Task[None]:
        task = asyncio.create_task(hold())
        while not await held():
            await asyncio.sleep(0.001)
        # Our client has seen the answer too.
        await answered(client)
        return task

    async def end(task: asyncio.Task[None]) -> None:
        leave.set()
        await task

    task = loop.run_until_complete(begin())
    try:
        said = said_in_a_child(loop, end(task))
        assert loop.run_until_complete(held()) == 1
        assert ClientClosedError.__name__ in said
    finally:
        leave.set()
        loop.run_until_complete(asyncio.wait([task]))
        loop.run_until_complete(client.aclose())
        loop.close()
