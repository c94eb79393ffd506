"""A full server counts down, deletes, lets parties go and breaks barriers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from redisson_py.testing import EmbeddedServer
from tests.lua.test_out_of_memory import fill
from tests.support.scripts.barrier import BROKEN, RELEASED, WAITING, BarrierScripts
from tests.support.scripts.calls import Scripts, everything
from tests.support.scripts.latch import LatchScripts


@pytest_asyncio.fixture
async def redis(own_server: EmbeddedServer) -> AsyncIterator[Redis]:
    """A client of a server that evicts nothing."""
    async with Redis.from_url(own_server.url) as redis:
        await redis.config_set("maxmemory-policy", "noeviction")
        yield redis


@pytest.fixture
def latch(scripts: Scripts) -> LatchScripts:
    """One latch."""
    return LatchScripts(scripts)


@pytest.fixture
def barrier(scripts: Scripts) -> BarrierScripts:
    """A barrier of three."""
    return BarrierScripts(scripts)


async def test_the_count_down_that_opens_a_latch_is_carried_out_once(
    latch: LatchScripts, redis: Redis
) -> None:
    await latch.set(1)
    await fill(redis)
    assert await latch.down(calls=7) == 0
    assert await latch.down(calls=7) == 0
    assert await latch.value() is None
    assert await redis.exists(latch.receipt()) == 1


async def test_a_latch_is_read_and_deleted(latch: LatchScripts, redis: Redis) -> None:
    await latch.set(3)
    await fill(redis)
    assert await latch.count() == 3
    assert await latch.delete() == 1
    assert await latch.value() is None


async def test_a_count_down_in_part_is_carried_out_or_refused_as_a_whole(
    latch: LatchScripts, redis: Redis
) -> None:
    await latch.set(3)
    await fill(redis)
    before = await everything(redis)
    if latch.scripts.modern:
        assert await latch.down() == 2
        return
    with pytest.raises(ResponseError, match=r"OOM|maxmemory"):
        await latch.down()
    assert await everything(redis) == before


async def test_parties_come_and_are_let_go(barrier: BarrierScripts, redis: Redis) -> None:
    first = await barrier.wait("a")
    await fill(redis)
    assert (await barrier.wait("a", str(first.generation))).state == WAITING
    assert (await barrier.wait("b")).state == WAITING
    assert (await barrier.wait("c")).state == RELEASED
    assert (await barrier.wait("a", str(first.generation))).state == RELEASED
    assert await redis.exists(barrier.key, barrier.arrivals) == 0


async def test_leaving_breaks_the_barrier_and_reset_mends_it(
    barrier: BarrierScripts, redis: Redis
) -> None:
    first, _ = await barrier.fill("a", "b")
    await fill(redis)
    assert await barrier.leave("b") == -1
    assert (await barrier.wait("a", str(first.generation))).state == BROKEN
    assert await barrier.reset() == 1
    assert not (await barrier.look()).broken
