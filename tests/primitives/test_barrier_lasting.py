"""What a barrier leaves in Redis and for how long, and what it costs to look at a crowd."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py._commands import barrier as commands
from redisson_py.barriers.barrier import LISTED_PARTIES, CyclicBarrier
from redisson_py.errors import AcquireTimeoutError
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.counting import Counted
from tests.support.kinds import KINDS, SINGLE
from tests.support.latch_and_barrier import (
    assert_broken,
    assert_works,
    get_barrier,
    until_waiting_at,
)
from tests.support.scripts.calls import ask
from tests.support.streams import answered
from tests.support.waiting import until_async, until_listening, until_waiting


@pytest_asyncio.fixture
async def barrier(client: Redisson) -> AsyncIterator[CyclicBarrier]:
    """A barrier of two, reset in the end."""
    barrier = get_barrier(client, parties=2)
    yield barrier
    await barrier.reset()


async def _records(redis: Redis) -> list[bytes]:
    """Return the keys of what owners were given."""
    found: list[bytes] = await ask(redis, "KEYS", "*:arrival:*")
    return found


class TestOtherThingsOfTheSameName:
    @pytest.mark.parametrize("kind", [each for each in SINGLE if not KINDS[each].composite])
    async def test_neither_a_held_lock_nor_the_barrier_minds_the_other(
        self, kind: str, barrier: CyclicBarrier, client: Redisson, redis: Redis
    ) -> None:
        await barrier.abort()
        async with KINDS[kind].one(client, "r").hold(timeout=30):
            assert await barrier.broken()
            held = await redis.dump("r")
            await barrier.reset()
            await assert_works(barrier)
            with pytest.raises(AcquireTimeoutError):
                await barrier.wait(0)
            await barrier.abort()
            assert await redis.dump("r") == held
        assert await barrier.broken()

    async def test_a_lock_taken_during_a_round_does_not_disturb_it(
        self, barrier: CyclicBarrier, client: Redisson
    ) -> None:
        waiting = asyncio.create_task(barrier.wait(10))
        await until_waiting_at(barrier, 1)
        async with client.get_lock("r"):
            assert await barrier.wait(10) == 1
        assert await waiting == 0

    async def test_counts_of_the_same_name_are_kept(
        self, barrier: CyclicBarrier, client: Redisson
    ) -> None:
        latch = client.get_latch("r", 2)
        assert await latch.count() == 2
        await assert_works(barrier)
        await barrier.reset()
        assert await latch.count_down() == 1
        await latch.delete()


class TestShortLeases:
    @pytest.mark.parametrize("lease_time", [0.01, 0.05])
    async def test_a_party_lives_until_it_looks_again_however_short_its_lease(
        self, clients: ClientFactory, redis: Redis, lease_time: float
    ) -> None:
        """A waiter looks again after 50 ms at the earliest. A busy machine may break a round."""
        client = clients(lease_time=lease_time)
        barrier = get_barrier(client, parties=2)
        for _ in range(20):
            await barrier.reset()
            first = asyncio.create_task(barrier.wait())
            await until_listening(client)
            await until_async(lambda: _looked_again(redis, barrier), 30)
            outcomes = await asyncio.gather(first, barrier.wait(0), return_exceptions=True)
            if sorted(map(str, outcomes)) == ["0", "1"]:
                return
        pytest.fail(f"no round was passed: {outcomes}")


async def _looked_again(redis: Redis, barrier: CyclicBarrier) -> bool:
    """Return whether the first party has looked again after longer than its lease, or is broken."""
    ends: Any = await redis.zrange(barrier._commands.arrivals, 0, -1, withscores=True)
    came = int((await redis.hget(barrier.key, "generation")) or 0) / 1000
    return not ends or float(ends[0][1]) - came > 500


class TestReleasedParties:
    @pytest.mark.parametrize("verb", ["abort", "reset"])
    async def test_they_are_not_reached_and_those_of_the_next_round_are(
        self, verb: str, barrier: CyclicBarrier, clients: ClientFactory, proxy: ProxyFactory
    ) -> None:
        link = await proxy("r")
        far = clients(link.url)
        first = asyncio.create_task(get_barrier(far, parties=2).wait())
        await until_listening(far)
        # It will not hear of its release for a while.
        link.hold()
        assert await barrier.wait() == 1
        early = asyncio.create_task(barrier.wait())
        await until_waiting_at(barrier, 1)
        await getattr(barrier, verb)()
        await assert_broken(early)
        assert not first.done()
        link.release_held()
        assert await first == 0


class TestRecords:
    async def test_a_record_outlives_a_long_lease(
        self, clients: ClientFactory, redis: Redis
    ) -> None:
        barrier = get_barrier(clients(lease_time=200), parties=2)
        waiting = asyncio.create_task(barrier.wait())
        await until_waiting_at(barrier, 1)
        (record,) = await _records(redis)
        assert await redis.pttl(record) > 300_000
        assert await barrier.wait() == 1
        assert await waiting == 0

    async def test_it_outlives_a_request_that_may_still_be_repeated(
        self, clients: ClientFactory, proxy: ProxyFactory, barrier: CyclicBarrier, redis: Redis
    ) -> None:
        """Forgotten after an outage, the arrival would count a second time."""
        link = await proxy("r")
        far = clients(link.url)
        await answered(far)
        link.refuse()
        link.cut_after_execution(b"EVALSHA")
        waiting = asyncio.create_task(get_barrier(far, parties=2).wait(600))
        await link.wait_until(lambda link: link.triggered == 1)
        (record,) = await _records(redis)
        assert await redis.pttl(record) > 600_000
        assert await barrier.wait() == 1
        link.pass_through()
        assert await waiting == 0
        assert await barrier.n_waiting() == 0

    async def test_an_enormous_timeout_is_taken(self, client: Redisson) -> None:
        assert await get_barrier(client, parties=1).wait(1e300) == 0

    async def test_a_party_knows_its_position_itself(
        self, barrier: CyclicBarrier, client: Redisson, redis: Redis
    ) -> None:
        waiting = asyncio.create_task(barrier.wait())
        await until_listening(client)
        await until_waiting_at(barrier, 1)
        await redis.delete(*await _records(redis))
        assert await barrier.wait() == 1
        assert await waiting == 0


class TestCrowds:
    async def test_looking_at_a_crowd_fetches_a_hundred_parties_at_most(
        self,
        client: Redisson,
        clients: ClientFactory,
        redis: Redis,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        sizes: list[int] = []
        decode: Callable[[list[Any]], commands.InspectReply] = commands.inspect_reply

        def counted(reply: list[Any]) -> commands.InspectReply:
            sizes.append(len(reply))
            return decode(reply)

        count = LISTED_PARTIES + 50
        barrier = get_barrier(client, parties=count + 1)
        waiting = [asyncio.create_task(barrier.wait()) for _ in range(count)]
        await until_waiting(client, count)
        await until_waiting_at(barrier, count)
        monkeypatch.setattr(commands, "inspect_reply", counted)
        near = get_barrier(clients(), parties=count + 1)
        looks: tuple[Awaitable[object], ...] = (near.n_waiting(), near.broken())
        assert [await look for look in looks] == [count, False]
        assert sizes == [5, 5]
        async with Counted(redis) as counted_commands:
            seen = await near.inspect()
        assert sizes[2:] == [5 + 2 * LISTED_PARTIES]
        assert (len(seen.waiting), seen.total) == (LISTED_PARTIES, count)
        # All are of one client, which is asked for once.
        assert counted_commands.calls["evalsha"] == 1
        assert counted_commands.calls["get"] == 1
        await barrier.wait()
        await asyncio.gather(*waiting)
