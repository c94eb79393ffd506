"""Exact costs of operations: scripts, writes, subscriptions, connections, tasks."""

from __future__ import annotations

import asyncio
import cProfile
import pstats
from operator import gt

import pytest
from redis.asyncio import Redis

from redisson_py import Lease, ReadLock, Redisson, RLock, Semaphore, WriteLock
from redisson_py._engine import bus, client_queue
from redisson_py.locks.lock_like import LockLike
from redisson_py.testing import EmbeddedSentinel
from tests.contract.conftest import (
    central_of_redis,
    for_kinds,
    in_redis,
    of_redis,
    passing,
    single,
    single_of_redis,
)
from tests.contract.servers import Servers
from tests.fixtures.client import ClientFactory
from tests.support.counting import Counted
from tests.support.kinds import Kind, MakeLock
from tests.support.leases import all_due_now
from tests.support.streams import answered, is_single, stream_of
from tests.support.waiting import until, until_async, until_listening, until_waiting

pytestmark = pytest.mark.also("cluster")


@pytest.mark.usefixtures("unsynced")
@for_kinds(lambda kind: in_redis(kind) and not kind.composite)
async def test_uncontended_pair_is_two_scripts_and_two_writes(
    lock: LockLike, client: Redisson, redis: Redis
) -> None:
    async with lock:
        pass
    # The client's description may be on another node of a cluster, to which it connects meanwhile.
    await answered(client)
    traffic = stream_of(client).traffic
    writes, commands, tasks = traffic.writes, traffic.commands, asyncio.all_tasks()
    keys = await redis.dbsize()
    async with Counted(redis) as counted:
        for _ in range(50):
            async with lock:
                assert asyncio.all_tasks() == tasks
    assert traffic.writes - writes == 100
    assert traffic.commands - commands == 100
    assert counted.calls["evalsha"] == 100
    assert "subscribe" not in counted.calls
    assert await redis.pubsub_channels() == []
    assert await redis.dbsize() == keys, "what is left is the client's description, and a receipt"


@pytest.mark.usefixtures("unsynced")
@pytest.mark.parametrize("primitive", ["lock", "semaphore", "read side", "write side"])
async def test_uncontended_pair_makes_few_function_calls(client: Redisson, primitive: str) -> None:
    """All calls of the thread by cProfile, built-in ones and resumed coroutines included.

    64 tasks run, so that many pairs share a turn of the event loop, which is Python code.
    """
    tasks, pairs = 64, 25

    async def work(number: int) -> None:
        for _ in range(pairs):
            async with made(number):
                pass

    def made(number: int) -> RLock | Semaphore | ReadLock | WriteLock:
        name = f"k{number}"
        if primitive == "lock":
            return client.get_lock(name)
        if primitive == "semaphore":
            return client.get_semaphore(name, 1)
        sides = client.get_read_write_lock(name)
        return sides.read_lock() if primitive == "read side" else sides.write_lock()

    async def work_of_all() -> None:
        await asyncio.gather(*[work(number) for number in range(tasks)])

    async def counted() -> float:
        profile = cProfile.Profile()
        profile.enable()
        await work_of_all()
        profile.disable()
        calls: int = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
        return calls / (tasks * pairs)

    await work_of_all()
    # A cluster: the slot of each key, and streams of several nodes.
    most = 90 if is_single(client) else 110
    if primitive != "lock":
        # A new semaphore each time, and a request that can be passed a hold; a look for the side.
        most += 3
    # The lowest of up to fifty runs: a busy server answers in more pieces, each a turn of the loop.
    pair = await counted()
    for _ in range(49):
        if pair > most:
            pair = min(pair, await counted())
    if primitive == "semaphore":
        for number in range(tasks):
            await client.get_semaphore(f"k{number}").delete()
    assert pair <= most, f"{pair:.1f} function calls a pair"


@pytest.mark.usefixtures("unsynced")
@single_of_redis
@pytest.mark.parametrize(("calls", "writes"), [(2, 1), (32, 1), (50, 2), (500, 3)])
async def test_calls_of_one_iteration_leave_together(
    make_lock: MakeLock, clients: ClientFactory, calls: int, writes: int
) -> None:
    """In one write, but an idle server gets the first few dozen at once, twice."""
    # No probe of a short lease, which a busy machine may need in the middle.
    client = clients(lease_time=600)
    locks = [make_lock(client, f"{{k}}{n}") for n in range(calls)]
    async with locks[0]:
        pass
    # The client's description, which may be on the same node of a cluster.
    await answered(client)
    traffic = stream_of(client).traffic
    before = traffic.writes
    leases = await asyncio.gather(*[lock.acquire() for lock in locks])
    assert traffic.writes == before + writes
    await asyncio.gather(*[lease.release() for lease in leases])
    assert traffic.writes == before + 2 * writes


@passing
async def test_contended_hand_off_in_one_process_sends_nothing(
    make_lock: MakeLock, clients: ClientFactory, servers: Servers, redis: Redis
) -> None:
    client = clients(turn=60)
    lock = make_lock(client)
    served: list[int] = []

    async def work(number: int) -> None:
        async with lock:
            served.append(number)
            await asyncio.sleep(0)

    first = await lock.acquire()
    async with asyncio.TaskGroup() as group:
        for number in range(50):
            group.create_task(work(number))
        await until_waiting(client, 50)
        await servers.answered(client)
        before = client.statistics().commands_sent
        async with Counted(redis) as counted:
            await first.release()
            while len(served) < 40:
                await asyncio.sleep(0)
            assert client.statistics().commands_sent == before
    assert "evalsha" not in counted.calls
    assert served == list(range(50))
    # Fifty hand-offs, and in the end one release: the script, loaded at its first use.
    assert client.statistics().commands_sent <= before + 2


@single
async def test_without_passing_every_hand_off_goes_through_the_server(
    make_lock: MakeLock, clients: ClientFactory
) -> None:
    client = clients(turn=0)
    lock = make_lock(client)
    owners: list[str] = []

    async def work() -> None:
        async with lock as lease:
            owners.append(lease.owner)

    await asyncio.gather(*[work() for _ in range(20)])
    assert len(set(owners)) == 20


@pytest.mark.more
async def test_a_thousand_waiters_cost_one_connection_and_no_polling(
    clients: ClientFactory, redis: Redis
) -> None:
    holder, waiter = clients(), clients(client_name="waiter")
    lock = waiter.get_lock("k")
    lease = await holder.get_lock("k").acquire()
    tasks = [asyncio.create_task(lock.acquire()) for _ in range(1000)]
    await until_waiting(waiter, 1000)
    await until_listening(waiter)
    names = [each["name"] for each in await redis.client_list()]
    # One for grants and messages, and one for releases, where replicas confirm grants.
    connections = len(stream_of(waiter).pair)
    assert names.count("waiter") == connections
    assert waiter.statistics().connections == connections
    # One waiter asks for all, at the latest at the safety poll, every five seconds or more.
    # Below a thousand commands a minute means at most a hundred in these six seconds.
    before = stream_of(waiter).whole_traffic.commands
    async with Counted(redis) as counted:
        await asyncio.sleep(6)
    assert stream_of(waiter).whole_traffic.commands - before < 10
    assert sum(n for name, n in counted.calls.items() if name != "client|list") < 60
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await lease.release()


@pytest.mark.usefixtures("one_server")
@pytest.mark.more
async def test_ten_thousand_locks_are_renewed_by_a_hundred_scripts(
    clients: ClientFactory, redis: Redis, session_sentinel: EmbeddedSentinel | None
) -> None:
    # A period of 20 s, over the first quarter of which the batches are spread: however slow the
    # machine is, none is due for the second time before all were renewed once.
    client = clients(lease_time=60, command_timeout=30)
    before = asyncio.all_tasks()
    leases: list[Lease] = []
    for first in range(0, 10_000, 1000):
        locks = [client.get_lock(f"k{n}") for n in range(first, first + 1000)]
        leases += await asyncio.gather(*(lock.acquire() for lock in locks))
    tasks = asyncio.all_tasks() - before
    beside = 0 if session_sentinel is None else len(session_sentinel.sentinels)
    assert len(tasks) <= 1 + beside, "one background task for each server, none for a lock"
    async with Counted(redis) as counted:
        renewals = client.statistics().renewals
        all_due_now(client)
        granted = [lease._ends_at for lease in leases]
        # A period is over when each has been renewed once.
        await until(lambda: all(map(gt, (lease._ends_at for lease in leases), granted)), 120)
    assert client.statistics().renewals - renewals == 100
    assert counted.calls["evalsha"] == 100
    assert client.statistics().losses == 0
    await asyncio.gather(*[lease.release() for lease in leases])


async def wait_once(held: LockLike, waited_for: LockLike, waiter: Redisson) -> None:
    async with held:
        task = asyncio.create_task(waited_for.acquire())
        await until_listening(waiter)
    await (await task).release()


@central_of_redis
async def test_waiting_subscribes_once(
    kind: Kind,
    make_lock: MakeLock,
    make_rival: MakeLock,
    clients: ClientFactory,
    redis: Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # However busy the machine is: a second without a waiter ends it, and may pass here.
    monkeypatch.setattr(bus, "LINGER_SECONDS", 1000.0)
    # The first in the queue listens to all releases too when it has heard nothing for a moment.
    monkeypatch.setattr(client_queue, "WATCH_DELAY_SECONDS", 1000.0)
    holder, waiter = clients(), clients()
    async with Counted(redis) as counted:
        for _ in range(3):
            await wait_once(make_lock(holder), make_rival(waiter), waiter)
    # Once a client, kept for a moment after the last waiter left: a hot lock does not subscribe
    # at each hand-off. (The holder listens too, to give the other its turn.) Except where each
    # waiter has a channel of its own, because it alone is told.
    assert counted.calls["subscribe"] <= (2 if kind.shared or kind.passes else 3)


@of_redis
async def test_the_channel_is_let_go_of_after_a_wait(
    make_lock: MakeLock, make_rival: MakeLock, clients: ClientFactory, redis: Redis
) -> None:
    waiter = clients()
    await wait_once(make_lock(clients()), make_rival(waiter), waiter)

    async def nobody_listens() -> bool:
        return not await redis.pubsub_channels()

    await until_async(nobody_listens)
    assert not waiter._context.bus.table.channels
