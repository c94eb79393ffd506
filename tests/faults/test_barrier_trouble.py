"""The server restarts, forgets its scripts or the connection breaks while parties wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py._primitives.barrier import CyclicBarrier
from redisson_py.testing import EmbeddedServer
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory, ServerFactory
from tests.latch_and_barrier import assert_broken, assert_works, get_barrier
from tests.support import until_async, until_listening


@pytest_asyncio.fixture
async def barrier(client: Redisson) -> AsyncIterator[CyclicBarrier]:
    """A barrier of three, reset in the end."""
    barrier = get_barrier(client)
    yield barrier
    await barrier.reset()


async def _waiting_at(barrier: CyclicBarrier, count: int) -> bool:
    return await barrier.n_waiting() == count


async def test_a_cut_connection_and_forgotten_scripts_are_nothing_to_it(
    barrier: CyclicBarrier, clients: ClientFactory, proxy: ProxyFactory, redis: Redis
) -> None:
    link = await proxy()
    far = clients(link.url)
    waiting = [asyncio.create_task(get_barrier(far).wait()) for _ in range(2)]
    await until_async(lambda: _waiting_at(barrier, 2))
    await until_listening(far)
    await redis.script_flush()
    link.cut()
    await until_listening(far)
    assert await barrier.wait() == 2
    assert sorted(await asyncio.gather(*waiting)) == [0, 1]


async def test_a_release_while_it_was_cut_off_is_not_missed(
    client: Redisson, clients: ClientFactory, proxy: ProxyFactory
) -> None:
    link = await proxy()
    far = clients(link.url)
    waiting = asyncio.create_task(get_barrier(far, parties=2).wait())
    await until_listening(far)
    link.refuse()
    link.cut()
    assert await get_barrier(client, parties=2).wait() == 1
    link.pass_through()
    async with asyncio.timeout(3):  # before the safety poll
        assert await waiting == 0


async def test_a_restart_that_keeps_data_keeps_who_waits(
    clients: ClientFactory, server_factory: ServerFactory
) -> None:
    server = await server_factory(appendonly=True)
    one, other = clients(server.url), clients(server.url)
    waiting = asyncio.create_task(get_barrier(one, parties=2).wait())
    await until_listening(one)
    await server.restart(keep_data=True)
    assert await get_barrier(other, parties=2).wait(10) == 1
    assert await waiting == 0


async def test_a_restart_that_loses_data_breaks_it_for_who_waits(
    clients: ClientFactory, own_server: EmbeddedServer
) -> None:
    one, other = clients(own_server.url), clients(own_server.url)
    waiting = asyncio.create_task(get_barrier(one).wait())
    await until_listening(one)
    await own_server.restart(keep_data=False)
    await assert_broken(waiting)
    await assert_works(get_barrier(other))
