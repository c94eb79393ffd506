"""A RedLock whose servers are dead, silent, slow or forgetful, and callers who give up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack

import pytest

from redisson_py import ConnectionLostError, LeaseLostError, QuorumError, Redisson
from redisson_py._engine.hold import Lease
from redisson_py._redis.identity import is_unresponsive
from redisson_py._redis.stream.stream import Stream
from redisson_py.composite.red_lock import RedLock
from redisson_py.testing import FaultProxy
from tests.fixtures.fleet import Fleet, until_executed
from tests.fixtures.measured import Measured
from tests.support.cancellation_sweep import Probe, Swept, sweep
from tests.support.streams import stream_of_member
from tests.support.waiting import until, until_async

SHORT = 1.6


def is_missing(lock: RedLock, number: int) -> bool:
    """Whether a server is known to be silent."""
    return is_unresponsive(stream_of_member(lock._ownership.owners[number]))


def under_way(lock: RedLock, number: int) -> int:
    """Return how many calls to a server are not answered."""
    stream = stream_of_member(lock._ownership.owners[number])
    return len([call for call in stream._under_way() if call.wanted])


async def warm(lock: RedLock) -> RedLock:
    """Have all its clients connected."""
    async with lock.hold(timeout=20, lease_time=30):
        await until_executed(lock)
    await until_executed(lock)
    return lock


# One server of three.


@pytest.mark.parametrize("how", ["kill", "pause"])
async def test_one_dead_or_silent_server_costs_nothing(fleet: Fleet, how: str) -> None:
    lock, rival = await warm(fleet.red_lock(3)), await warm(fleet.red_lock(3))
    server = fleet.servers[1]
    await (server.kill() if how == "kill" else server.pause())
    async with lock as lease, asyncio.timeout(30):
        # The servers are asked at once, and one that is silent costs a small part of the lease.
        assert lease.remaining > 15
        assert await rival.try_acquire() is None
    await until_async(lambda: acquired(lock, until_missing=1))
    waiting_there = under_way(lock, 1)
    for _ in range(50):
        async with lock:
            pass
    # Nothing piles up for a server of which nothing is heard. Each new connection is tried once,
    # and on a busy machine there are some.
    assert under_way(lock, 1) <= waiting_there + 5
    await (server.start() if how == "kill" else server.resume())
    await until(lambda: not is_missing(lock, 1))
    async with lock:
        await until_executed(lock)
        assert await fleet.held() == 3


async def acquired(lock: RedLock, until_missing: int) -> bool:
    """Acquire and release once; return whether a server is known to be silent by now."""
    async with lock:
        pass
    return is_missing(lock, until_missing)


async def test_first_use_with_a_server_that_was_never_there(fleet: Fleet) -> None:
    await fleet.servers[2].kill()
    lock = fleet.red_lock(3, command_timeout=30)
    async with lock, asyncio.timeout(20):
        assert await lock.owned()
    # Or it would be asked for as long.
    await fleet.servers[2].start()


def behind(fleet: Fleet, *proxies: FaultProxy, lease_time: float) -> RedLock:
    """Return a lock whose first servers are reached by proxies."""
    clients = fleet.clients(3, lease_time=lease_time)
    for number, proxy in enumerate(proxies):
        clients[number] = Redisson.from_url(proxy.url, lease_time=lease_time)
        fleet.made.append(clients[number])
    return RedLock(*(client.get_lock("k") for client in clients))


async def close(fleet: Fleet) -> None:
    """Close the clients before their proxies."""
    await asyncio.gather(*(client.aclose() for client in fleet.made))


# Too many of them.


async def is_free(fleet: Fleet, number: int) -> bool:
    return not await fleet.redis[number].exists("k")


@pytest.mark.parametrize("down", [2, 3])
async def test_without_a_timeout_patience_ends_when_too_few_answer(fleet: Fleet, down: int) -> None:
    lock = await warm(fleet.red_lock(3, command_timeout=1.2))
    for server in fleet.servers[:down]:
        await server.kill()
    with pytest.raises(ConnectionLostError, match="fewer than 2 servers answered"):
        await lock.acquire()
    if down == 2:
        await until_async(lambda: is_free(fleet, 2))


@pytest.mark.parametrize("how", ["kill", "pause"])
async def test_servers_that_come_back_are_asked_again(fleet: Fleet, how: str) -> None:
    lock = await warm(fleet.red_lock(3))
    for server in fleet.servers[:2]:
        await (server.kill() if how == "kill" else server.pause())
    waiting = asyncio.create_task(lock.acquire(timeout=20))
    await until(lambda: is_missing(lock, 0) and is_missing(lock, 1))
    for server in fleet.servers[:2]:
        await (server.start() if how == "kill" else server.resume())
    lease = await waiting
    await lease.release()
    await until_executed(lock)


async def test_majority_that_stays_silent_ends_the_lease_by_the_clock(fleet: Fleet) -> None:
    lock = await warm(fleet.red_lock(3, lease_time=SHORT))
    with pytest.raises(LeaseLostError):
        async with lock:
            await until_executed(lock)
            for server in fleet.servers[:2]:
                await server.pause()
            await asyncio.sleep(30)
    for server in fleet.servers[:2]:
        await server.resume()
    await until_async(fleet.everything_free)


# Replies that are lost.


@pytest.mark.parametrize("lost", [1, 2, 3])
async def test_lost_replies_leave_nothing(fleet: Fleet, lost: int) -> None:
    """The scripts ran, their replies never came: of the acquire, then of the release."""
    async with AsyncExitStack() as stack:
        proxies = [
            await stack.enter_async_context(FaultProxy.in_front_of(server.url))
            for server in fleet.servers[:lost]
        ]
        lock = await warm(behind(fleet, *proxies, lease_time=30))
        for proxy in proxies:
            proxy.cut_after_execution(b"EVALSHA")
        async with lock.hold(timeout=20) as lease:
            assert not lease.lost
            for proxy in proxies:
                await proxy.wait_until(lambda each: each.triggered == 1)
                proxy.cut_after_execution(b"EVALSHA")
        for proxy in proxies:
            await proxy.wait_until(lambda each: each.triggered == 2)
        await until_async(fleet.everything_free)
        async with lock.hold(timeout=20):
            assert await fleet.held() >= 2
        await until_async(fleet.everything_free)
        await close(fleet)


async def test_late_duplicate_of_what_was_released_unanswered_is_refused(fleet: Fleet) -> None:
    """Asked, released, asked again because the connection broke: the server granted it twice."""
    async with FaultProxy.in_front_of(fleet.servers[0].url) as proxy:
        lock = await warm(behind(fleet, proxy, lease_time=60))
        proxy.hold()
        async with lock:
            pass
        proxy.cut_after_execution(b"EVALSHA")
        proxy.release_held()
        await proxy.wait_until(lambda each: each.triggered == 1)
        await until_async(lambda: fleet.redis[0].keys("*tombstone*"))
        await until_async(fleet.everything_free)
        await close(fleet)


async def test_server_with_too_much_unanswered_is_not_asked(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = await warm(fleet.red_lock(3))
    full = [stream_of_member(each) for each in lock._ownership.owners[:2]]
    monkeypatch.setattr(Stream, "full", property(lambda stream: stream in full))
    # What is full takes nothing at once.
    monkeypatch.setattr(Stream, "can_begin", property(lambda stream: stream not in full))
    with pytest.raises(QuorumError, match="too many requests are unanswered"):
        await lock.acquire(timeout=0)
    full.pop()
    async with lock:
        await until_executed(lock)
        assert await fleet.held() == 2


# Callers who give up.

Trial = Callable[[Fleet, RedLock, RedLock, Probe], Coroutine[object, object, None]]
TRIALS: list[Trial] = []


def trial(function: Trial) -> Trial:
    """Have the sweep run this."""
    TRIALS.append(function)
    return function


@trial
async def acquire_free(fleet: Fleet, lock: RedLock, rival: RedLock, cut: Probe) -> None:
    await finish(await cut(lock.acquire()))


@trial
async def acquire_after_another(fleet: Fleet, lock: RedLock, rival: RedLock, cut: Probe) -> None:
    held = await rival.acquire()
    await finish(await cut(lock.acquire(timeout=10), when_asleep(lock, held)))
    await finish(None if held._spent else held)


@trial
async def time_out(fleet: Fleet, lock: RedLock, rival: RedLock, cut: Probe) -> None:
    held = await rival.acquire()
    assert await cut(lock.try_acquire(timeout=0.5)) is None
    await held.release()


@trial
async def acquire_after_another_task(
    fleet: Fleet, lock: RedLock, rival: RedLock, cut: Probe
) -> None:
    held = await asyncio.create_task(lock.acquire())
    await until_executed(lock)
    await finish(await cut(lock.acquire(timeout=10), when_asleep(lock, held)))
    await finish(None if held._spent else held)


@trial
async def acquire_without_a_quorum(fleet: Fleet, lock: RedLock, rival: RedLock, cut: Probe) -> None:
    in_the_way = [await member.acquire() for member in rival._members[:2]]
    assert await cut(lock.try_acquire(timeout=0.5)) is None
    for lease in in_the_way:
        await lease.release()


@trial
async def reenter(fleet: Fleet, lock: RedLock, rival: RedLock, cut: Probe) -> None:
    async with lock as outer:
        await until_executed(lock)
        await finish(await cut(lock.acquire()))
        await until_executed(lock)
        assert [list(each.values()) for each in await fleet.holds()] == [[1]] * 3
        assert not outer.lost


@trial
async def release(fleet: Fleet, lock: RedLock, rival: RedLock, cut: Probe) -> None:
    lease = await lock.acquire()
    await cut(lease.release())
    assert lease._spent


@trial
async def extend(fleet: Fleet, lock: RedLock, rival: RedLock, cut: Probe) -> None:
    async with lock as lease:
        await cut(lease.extend(20))
        assert not lease.lost


@trial
async def a_block(fleet: Fleet, lock: RedLock, rival: RedLock, cut: Probe) -> None:
    async def work() -> None:
        async with lock:
            await asyncio.sleep(0)

    await cut(work())


def when_asleep(lock: RedLock, held: Lease) -> Callable[[], object]:
    """Release what is in the way at the suspensions where nobody waits for an answer."""
    tasks: list[asyncio.Task[None]] = []

    def act() -> None:
        if not tasks and not any(member.context.pending for member in lock._ownership.owners):
            tasks.append(asyncio.ensure_future(held.release()))

    return act


async def finish(lease: Lease | None) -> None:
    """Release what an operation got that was not cancelled."""
    if lease is not None:
        await lease.release()


@pytest.fixture
async def pair(fleet: Fleet) -> tuple[RedLock, RedLock]:
    """A lock, and the same for another process, so to say."""
    return await warm(fleet.red_lock(3, turn=30)), await warm(fleet.red_lock(3, turn=30))


@pytest.mark.parametrize("trial", TRIALS, ids=lambda each: each.__name__)
async def test_cancelled_at_any_point_nothing_is_left_on_any_server(
    fleet: Fleet, pair: tuple[RedLock, RedLock], trial: Trial, measured: Measured
) -> None:
    lock, rival = pair

    async def run(cut: Probe) -> None:
        await trial(fleet, lock, rival, cut)
        for each in pair:
            await until_executed(each)
            for member in each._ownership.owners:
                assert not member.context.watchdog.holds
                assert not member.context.pending
                assert not member.context.bus.table.seats
        assert await fleet.everything_free()
        for each in pair:
            async with each.hold(timeout=10):
                pass
            await until_executed(each)

    swept: Swept = await sweep(run)
    assert swept.cancellations
    measured("red lock", swept)
