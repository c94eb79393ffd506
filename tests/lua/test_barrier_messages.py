"""When the parties at a barrier are told to look again."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from tests.lua.test_golden_vectors import listening
from tests.support.scripts.barrier import BarrierScripts
from tests.support.scripts.calls import LEASE, Scripts


@pytest.fixture
def barrier(scripts: Scripts) -> BarrierScripts:
    """A barrier of three."""
    return BarrierScripts(scripts)


async def test_a_party_with_a_shorter_lease_publishes_a_message(
    barrier: BarrierScripts, redis: Redis
) -> None:
    async with listening(redis, barrier.channel) as listener:
        await barrier.wait("a")
        await barrier.wait("b", lease_ms=LEASE - 1000)
        assert await listener.heard() == [b"0"]
        await barrier.wait("b", lease_ms=LEASE - 2000)
        await barrier.wait("a")
        assert await listener.heard() == []
        await barrier.reset()


async def test_every_message_is_for_all_and_says_nothing(
    barrier: BarrierScripts, redis: Redis
) -> None:
    async with listening(redis, b"redisson_py_barrier:{b}") as listener:
        seen, *_ = await barrier.fill("a", "b", "a")
        assert await listener.heard() == []
        await barrier.fill("c", "c")
        assert await listener.heard() == [b"0"]
        await barrier.wait("a", str(seen.generation))
        await barrier.leave("a")
        assert await listener.heard() == []
        await barrier.wait("d")
        await barrier.leave("d")
        await barrier.leave("d")
        assert await listener.heard() == [b"0"]
        await barrier.abort()
        await barrier.wait("e")
        assert await listener.heard() == []
        await barrier.reset(calls=50)
        await barrier.reset(calls=50)
        await barrier.reset(calls=51)
        assert await listener.heard() == [b"0"]
        await barrier.abort(calls=52)
        await barrier.abort(calls=52)
        await barrier.reset()
        assert await listener.heard() == [b"0", b"0"]
