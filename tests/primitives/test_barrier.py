"""The barrier while all goes well, and what it leaves in Redis; what breaks it is elsewhere."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import ClientClosedError, Redisson, ScriptError
from redisson_py._engine import bus
from redisson_py._redis.commands import barrier as commands
from redisson_py.barriers.barrier import LISTED_PARTIES, BarrierSnapshot, CyclicBarrier
from redisson_py.errors import AcquireTimeoutError
from tests.fixtures.client import ClientFactory, assert_idle
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
from tests.support.streams import stream_of
from tests.support.waiting import until_async, until_listening, until_waiting


@pytest_asyncio.fixture
async def barrier(client: Redisson) -> AsyncIterator[CyclicBarrier]:
    """A barrier of three, reset in the end."""
    barrier = get_barrier(client)
    yield barrier
    await barrier.reset()


class TestRounds:
    async def test_the_last_to_come_lets_all_go(
        self, barrier: CyclicBarrier, client: Redisson, clients: ClientFactory
    ) -> None:
        first = asyncio.create_task(barrier.wait())
        await until_listening(client)
        others = [get_barrier(clients()) for _ in range(2)]
        second = asyncio.create_task(others[0].wait())
        await until_waiting_at(barrier, 2)
        assert not any(task.done() for task in (first, second))
        assert await others[1].wait() == 2
        assert await first == 0
        assert await second == 1

    async def test_nobody_goes_on_before_all_have_come(self, clients: ClientFactory) -> None:
        barriers = [get_barrier(clients(), parties=4) for _ in range(2)]
        steps = [0] * 4

        async def party(number: int) -> None:
            for step in range(1, 31):
                steps[number] = step
                await barriers[number % 2].wait()
                assert min(steps) >= step
                # Who comes back at once is of the next round.
                assert max(steps) <= step + 1

        await asyncio.gather(*map(party, range(4)))

    async def test_a_block_waits_where_it_is_entered(self, client: Redisson) -> None:
        barrier = get_barrier(client, parties=2)

        async def party() -> int:
            async with barrier as position:
                return position

        assert sorted(await asyncio.gather(party(), party())) == [0, 1]

    async def test_when_all_have_gone_on_nothing_lasts(
        self, client: Redisson, redis: Redis
    ) -> None:
        barrier = get_barrier(client, parties=2)
        await asyncio.gather(barrier.wait(), barrier.wait())
        assert_idle(client)
        assert not await redis.exists(barrier.key, barrier._commands.arrivals)
        assert all([await redis.pttl(key) > 0 for key in await redis.keys("*")])

    @pytest.mark.more
    async def test_waiting_longer_than_a_lease_keeps_the_arrival_alive(
        self, clients: ClientFactory
    ) -> None:
        barrier = get_barrier(clients(lease_time=3), parties=2)
        waiting = asyncio.create_task(barrier.wait())
        await asyncio.sleep(3.1)
        assert await barrier.wait() == 1
        assert await waiting == 0


class TestLooking:
    async def test_how_many_wait(self, barrier: CyclicBarrier, client: Redisson) -> None:
        assert barrier.parties == 3
        assert await barrier.n_waiting() == 0
        waiting = [asyncio.create_task(barrier.wait()) for _ in range(2)]
        await until_waiting_at(barrier, 2)
        assert (barrier.statistics().waiters, barrier.statistics().held_leases) == (2, 0)
        assert client.statistics().waiters == 2
        assert get_barrier(client, "another").statistics().waiters == 0
        await barrier.wait()
        await asyncio.gather(*waiting)
        assert await barrier.n_waiting() == 0

    async def test_a_snapshot_of_nobody(self, barrier: CyclicBarrier) -> None:
        keys = tuple(f"{{r}}:redisson_py:{each}" for each in ("barrier", "arrivals", "released"))
        assert await barrier.inspect() == BarrierSnapshot(None, None, False, (), keys)
        await barrier.abort()
        assert await barrier.inspect() == BarrierSnapshot(None, None, True, (), keys)

    async def test_a_snapshot_lists_the_waiting_parties(self, clients: ClientFactory) -> None:
        one, other = clients(client_name="one"), clients(lease_time=20)
        barriers = [get_barrier(one), get_barrier(other)]
        waiting = [
            asyncio.create_task(barriers[0].wait(), name="me"),
            asyncio.create_task(barriers[1].wait(), name="them"),
        ]
        await until_waiting_at(barriers[0], 2)
        seen = await barriers[0].inspect()
        assert (seen.parties, seen.broken, seen.total) == (3, False, 2)
        assert seen.generation is not None
        theirs, mine = seen.waiting
        assert mine.owner.startswith(one.id)
        assert theirs.owner.startswith(other.id)
        assert (mine.client_name, theirs.client_name) == ("one", None)
        assert (mine.task, theirs.task) == ("me", None)
        for party in seen.waiting:
            assert (party.host, party.pid) == (socket.gethostname(), os.getpid())
        assert 20 < mine.remaining <= 30
        assert 10 < theirs.remaining <= 20
        await barriers[0].wait()
        await asyncio.gather(*waiting)


class TestArguments:
    def test_numbers_of_parties_out_of_range(self) -> None:
        client = Redisson.from_url("redis://localhost")
        for bad in (0, -1, 2**53):
            with pytest.raises(ValueError, match="parties must be at least 1"):
                get_barrier(client, parties=bad)
        others: tuple[Any, ...] = (2.0, "2", True, None)
        for other in others:
            with pytest.raises(TypeError, match="parties must be int"):
                get_barrier(client, parties=other)

    async def test_another_number_of_parties_is_refused_and_harms_nobody(
        self, barrier: CyclicBarrier, client: Redisson
    ) -> None:
        waiting = asyncio.create_task(barrier.wait())
        await until_listening(client)
        with pytest.raises(ValueError, match="in use for 3 parties, not for 2"):
            await get_barrier(client, parties=2).wait()
        assert await barrier.n_waiting() == 1
        others = await asyncio.gather(barrier.wait(), barrier.wait())
        assert sorted([await waiting, *others]) == [0, 1, 2]

    async def test_a_closed_client(self, clients: ClientFactory) -> None:
        client = clients()
        barrier = get_barrier(client)
        await client.aclose()
        for call in (*_calls(barrier), barrier.__aenter__()):
            with pytest.raises(ClientClosedError):
                await call

    async def test_what_is_no_barrier(self, client: Redisson, redis: Redis) -> None:
        key = get_barrier(client).key
        await redis.set(key, "mine", px=60_000)
        for call in _calls(get_barrier(client)):
            with pytest.raises(ScriptError, match="WRONGTYPE"):
                await call
        assert await redis.getdel(key) == b"mine"
        await ask(redis, "HSET", key, "mine", "1")
        await redis.pexpire(key, 60_000)
        for call in _calls(get_barrier(client)):
            with pytest.raises(ScriptError, match="is not a barrier"):
                await call
        assert_idle(client)
        assert await ask(redis, "HGETALL", key) == {b"mine": b"1"}


def _calls(barrier: CyclicBarrier) -> tuple[Awaitable[object], ...]:
    looks = (barrier.n_waiting(), barrier.broken(), barrier.inspect())
    return (barrier.wait(), barrier.abort(), barrier.reset(), *looks)


class TestCosts:
    async def test_each_call_but_that_of_who_waits_is_one_script_and_one_write(
        self, client: Redisson, redis: Redis
    ) -> None:
        alone, barrier = get_barrier(client, parties=1), get_barrier(client, "b2")
        calls: list[Callable[[], Awaitable[object]]] = [alone.wait, barrier.abort, barrier.reset]
        calls += [barrier.n_waiting, barrier.broken, barrier.inspect]
        for call in calls:
            await call()
        for call in calls:
            traffic = stream_of(client, "r").traffic
            writes, commands = traffic.writes, traffic.commands
            async with Counted(redis) as counted:
                await call()
            assert (traffic.writes - writes, traffic.commands - commands) == (1, 1)
            assert counted.calls["evalsha"] == 1
            assert "subscribe" not in counted.calls

    async def test_a_waiting_party_asks_twice_and_looks_once_at_the_end(
        self,
        barrier: CyclicBarrier,
        clients: ClientFactory,
        redis: Redis,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(bus, "LINGER_SECONDS", 60)
        waiter = clients()
        far = get_barrier(waiter, parties=2)
        last = get_barrier(clients(), parties=2)
        before = asyncio.create_task(far.wait())
        await until_listening(waiter)
        await asyncio.gather(before, last.wait())
        # Scripts are loaded and the channel is kept: what remains is the waiting.
        traffic = stream_of(waiter, "r").traffic
        commands, writes = traffic.commands, traffic.writes
        waiting = asyncio.create_task(far.wait())
        await until_listening(waiter)
        assert (traffic.commands - commands, traffic.writes - writes) == (2, 2)
        await asyncio.sleep(0.1)
        assert traffic.commands - commands == 2
        async with Counted(redis) as counted:
            await last.wait()
            await waiting
        assert (traffic.commands - commands, traffic.writes - writes) == (3, 3)
        assert counted.calls["evalsha"] == 2
        assert "subscribe" not in counted.calls


@pytest_asyncio.fixture
async def pair(client: Redisson) -> AsyncIterator[CyclicBarrier]:
    """A barrier of two, reset in the end."""
    pair = get_barrier(client, parties=2)
    yield pair
    await pair.reset()


class TestOtherThingsOfTheSameName:
    @pytest.mark.parametrize("kind", [each for each in SINGLE if not KINDS[each].composite])
    async def test_neither_a_held_lock_nor_the_barrier_affects_the_other(
        self, kind: str, pair: CyclicBarrier, client: Redisson, redis: Redis
    ) -> None:
        await pair.abort()
        async with KINDS[kind].one(client, "r").hold(timeout=30):
            assert await pair.broken()
            held = await redis.dump("r")
            await pair.reset()
            await assert_works(pair)
            with pytest.raises(AcquireTimeoutError):
                await pair.wait(0)
            await pair.abort()
            assert await redis.dump("r") == held
        assert await pair.broken()


class TestShortLeases:
    @pytest.mark.parametrize("lease_time", [0.01, 0.05])
    async def test_a_party_lives_until_it_looks_again_however_short_its_lease(
        self, clients: ClientFactory, redis: Redis, lease_time: float
    ) -> None:
        """A waiter looks again after 50 ms at the earliest. A busy machine may break a round."""
        client = clients(lease_time=lease_time)
        pair = get_barrier(client, parties=2)
        for _ in range(20):
            await pair.reset()
            first = asyncio.create_task(pair.wait())
            await until_listening(client)
            await until_async(lambda: _looked_again(redis, pair), 30)
            outcomes = await asyncio.gather(first, pair.wait(0), return_exceptions=True)
            if sorted(map(str, outcomes)) == ["0", "1"]:
                return
        pytest.fail(f"no round was passed: {outcomes}")


async def _looked_again(redis: Redis, pair: CyclicBarrier) -> bool:
    """Return whether the first party has looked again after longer than its lease, or is broken."""
    ends: Any = await redis.zrange(pair._commands.arrivals, 0, -1, withscores=True)
    came = int((await redis.hget(pair.key, "generation")) or 0) / 1000
    return not ends or float(ends[0][1]) - came > 500


class TestReleasedParties:
    @pytest.mark.parametrize("verb", ["abort", "reset"])
    async def test_they_are_not_reached_and_those_of_the_next_round_are(
        self, verb: str, pair: CyclicBarrier, clients: ClientFactory, proxy: ProxyFactory
    ) -> None:
        link = await proxy("r")
        far = clients(link.url)
        first = asyncio.create_task(get_barrier(far, parties=2).wait())
        await until_listening(far)
        # It will not hear of its release for a while.
        link.hold()
        assert await pair.wait() == 1
        early = asyncio.create_task(pair.wait())
        await until_waiting_at(pair, 1)
        await getattr(pair, verb)()
        await assert_broken(early)
        assert not first.done()
        link.release_held()
        assert await first == 0


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
