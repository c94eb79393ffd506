"""What a client counts, with and without a listener: the same, and exactly."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import ConnectionLostError, Redisson
from redisson_py._statistics import Counts
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.counting import Counted
from tests.support.recorder import Recorder
from tests.support.streams import stream_of
from tests.support.waiting import until_listening, until_waiting

with_and_without = pytest.mark.parametrize("listener", [None, Recorder()])


def counted(client: Redisson) -> tuple[int, int, int]:
    statistics = client.statistics()
    return statistics.acquires, statistics.waits, statistics.timeouts


@with_and_without
async def test_a_listener_costs_no_command(
    clients: ClientFactory, redis: Redis, listener: Recorder | None
) -> None:
    client = clients(listener=listener)
    async with client.get_lock("k"):
        pass
    traffic = stream_of(client).traffic
    writes, commands = traffic.writes, traffic.commands
    async with Counted(redis) as counted_calls:
        for _ in range(50):
            async with client.get_lock("k"):
                pass
    assert (traffic.writes - writes, traffic.commands - commands) == (100, 100)
    assert counted_calls.calls["evalsha"] == 100
    assert counted(client) == (51, 0, 0)


@with_and_without
async def test_a_crowd_in_one_process(clients: ClientFactory, listener: Recorder | None) -> None:
    client = clients(listener=listener, turn=60)
    held = 0.5

    async def work() -> None:
        async with client.get_lock("k"):
            await asyncio.sleep(0)

    async with client.get_lock("k"):
        tasks = [asyncio.create_task(work()) for _ in range(20)]
        await until_waiting(client, 20)
        # One of them goes away, and one gets no more than its time.
        tasks[7].cancel()
        assert await asyncio.create_task(client.get_lock("k").try_acquire(timeout=held)) is None
    await asyncio.gather(*tasks, return_exceptions=True)
    statistics = client.statistics()
    assert counted(client) == (20, 21, 1)
    assert statistics.waited > 19 * held * 0.9
    assert held * 0.9 < statistics.longest_wait < statistics.waited
    assert (statistics.held_leases, statistics.waiters, statistics.losses) == (0, 0, 0)


@with_and_without
async def test_waits_for_another_process(clients: ClientFactory, listener: Recorder | None) -> None:
    holder, client = clients(), clients(listener=listener)
    lease = await holder.get_lock("k").acquire()
    waiting = [asyncio.create_task(client.get_lock("k").acquire()) for _ in range(2)]
    await until_waiting(client, 2)
    await until_listening(client)
    assert counted(client) == (0, 0, 0)
    waiting[1].cancel()
    await asyncio.wait([waiting[1]])
    await lease.release()
    await (await waiting[0]).release()
    assert counted(client) == (1, 2, 0)


@with_and_without
async def test_no_answer_is_no_timeout(
    clients: ClientFactory, proxy: ProxyFactory, listener: Recorder | None
) -> None:
    link = await proxy()
    client = clients(link.url, listener=listener, command_timeout=1)
    await client.ping()
    link.black_hole()
    for timeout in (0, 0.2):
        with pytest.raises(ConnectionLostError):
            await client.get_lock("k").try_acquire(timeout=timeout)
    assert counted(client) == (0, 0, 0)
    link.pass_through()
    link.cut()
    await client.ping(timeout=30)


async def test_calls_that_could_not_be_sent_are_evicted(
    clients: ClientFactory, proxy: ProxyFactory
) -> None:
    link = await proxy()
    client = clients(link.url)
    await client.ping()
    link.refuse()
    link.cut()
    for _ in range(5):
        with pytest.raises(ConnectionLostError):
            await client.get_lock("k").acquire(timeout=0.1)
    # The first may have been written before the loss was noticed.
    assert client.statistics().evictions >= 4
    link.pass_through()
    await client.ping()


def test_there_is_a_count_for_every_reason(clients: ClientFactory) -> None:
    losses: Any = Redisson.from_url("redis://127.0.0.1:1").statistics().losses_by_reason
    assert losses == dict.fromkeys(("expired", "ended", "taken", "forced", "abandoned"), 0)
    with pytest.raises(TypeError):
        losses["expired"] = 1
    with pytest.raises(TypeError):
        losses.update(expired=1)
    assert losses == Counts().losses
