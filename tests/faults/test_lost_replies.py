"""A reply is lost after the script ran: the effect is exactly once, the answer right."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from redis.asyncio import Redis

from redisson_py import LeaseLostError, Redisson
from redisson_py.testing import EmbeddedServer, FaultProxy
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support import until, until_async


@pytest.fixture
async def link(proxy: ProxyFactory) -> FaultProxy:
    """A proxy before the session's server."""
    return await proxy()


@pytest.fixture
async def far(clients: ClientFactory, link: FaultProxy) -> Redisson:
    """A client behind the proxy, with its scripts loaded."""
    client = clients(link.url)
    lock = client.get_lock("warm")
    async with lock, lock:
        pass
    async with client.get_fenced_lock("warm"):
        pass
    return client


async def test_acquire(far: Redisson, link: FaultProxy, redis: Redis) -> None:
    lock = far.get_lock("k")
    link.cut_after_execution(b"EVALSHA")
    async with lock as lease:
        assert link.triggered == 1
        assert await redis.hgetall("k") == {lease.owner.encode(): b"1"}
        assert lease._hold.doubtful
    assert not await lock.locked()
    # A late duplicate of that acquire would be refused.
    assert len(await redis.keys("{k}:redisson_py:tombstone:*")) == 1


async def test_fenced_acquire_keeps_its_token(
    far: Redisson, link: FaultProxy, redis: Redis
) -> None:
    link.cut_after_execution(b"EVALSHA")
    async with far.get_fenced_lock("k") as lease:
        assert link.triggered == 1
        counter = int(await redis.get("redisson_lock_token:{k}") or 0)
        assert lease.token is not None
        # One range was taken, not two.
        assert counter - lease.token < 100
        assert lease.token <= counter


async def test_reentry(far: Redisson, link: FaultProxy, redis: Redis) -> None:
    lock = far.get_lock("k")
    async with lock as outer:
        link.cut_after_execution(b"EVALSHA")
        async with lock:
            assert link.triggered == 1
            assert await redis.hgetall("k") == {outer.owner.encode(): b"2"}
        assert await redis.hgetall("k") == {outer.owner.encode(): b"1"}
    assert not await lock.locked()


async def test_partial_release(far: Redisson, link: FaultProxy, redis: Redis) -> None:
    lock = far.get_lock("k")
    async with lock as outer:
        inner = await lock.acquire()
        link.cut_after_execution(b"EVALSHA")
        await inner.release()
        assert link.triggered == 1
        assert await redis.hgetall("k") == {outer.owner.encode(): b"1"}


async def test_final_release_is_success(far: Redisson, link: FaultProxy, redis: Redis) -> None:
    lock = far.get_lock("k")
    lease = await lock.acquire()
    link.cut_after_execution(b"EVALSHA")
    await lease.release()
    assert link.triggered == 1
    assert not lease.lost
    assert not await redis.exists("k")


async def test_final_release_lets_the_next_owner_be(
    far: Redisson, link: FaultProxy, client: Redisson
) -> None:
    lease = await far.get_lock("k").acquire()
    waiting = asyncio.create_task(client.get_lock("k").acquire(timeout=5))
    link.cut_after_execution(b"EVALSHA")
    await lease.release()
    gained = await waiting
    assert await client.get_lock("k").locked()
    gained.check()
    await gained.release()


async def test_extend_is_not_added_up(far: Redisson, link: FaultProxy, redis: Redis) -> None:
    async with far.get_lock("k").hold(lease_time=20) as lease:
        link.cut_after_execution(b"EVALSHA")
        await lease.extend(10)
        assert link.triggered == 1
        assert 9_000 < await redis.pttl("k") <= 10_000


async def test_force_release_answers_as_the_first_time(
    far: Redisson, link: FaultProxy, client: Redisson
) -> None:
    lease = await client.get_lock("k").acquire()
    link.cut_after_execution(b"EVALSHA")
    assert await far.get_lock("k").force_release()
    assert link.triggered == 1
    with pytest.raises(LeaseLostError):
        await lease.release()


async def test_renewal(clients: ClientFactory, link: FaultProxy, client: Redisson) -> None:
    far = clients(link.url, lease_time=1.5)
    async with far.get_lock("k") as lease:
        for _ in range(3):
            used = link.triggered
            link.cut_after_execution(b"EVALSHA")
            await until(partial(_used_up, link, used))
        renewals = far.statistics().renewals
        await until(lambda: far.statistics().renewals > renewals)
        assert not lease.lost
    assert far.statistics().losses == 0


async def test_swallowed_replies_are_noticed_and_asked_again(
    clients: ClientFactory, link: FaultProxy, redis: Redis
) -> None:
    far = clients(link.url, lease_time=1)
    await far.ping()
    link.swallow_reply(b"EVALSHA")
    async with far.get_lock("k") as lease:
        assert link.triggered == 1
        assert await redis.hgetall("k") == {lease.owner.encode(): b"1"}
    assert far.statistics().connections >= 2


async def test_every_call_of_a_long_run(far: Redisson, link: FaultProxy) -> None:
    lock = far.get_lock("k")
    for number in range(60):
        link.cut_after_execution(b"EVALSHA", times=1 + number % 3)
        async with lock:
            async with lock:
                assert await lock.hold_count() == 2
            assert await lock.hold_count() == 1
        assert not await lock.locked()
    assert link.triggered >= 100


async def test_late_acquire_after_the_caller_gave_up_makes_no_ghost(
    clients: ClientFactory, own_server: EmbeddedServer
) -> None:
    client = clients(own_server.url, lease_time=1.2)
    watcher = clients(own_server.url)
    lock = client.get_lock("k")
    async with lock:
        pass
    await own_server.pause()
    asking = asyncio.create_task(lock.acquire())
    # Long enough for the connection to be given up: the bytes stay in the stopped server's buffer.
    await until(lambda: not client._stream.ready and client._stream.traffic.commands > 0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await own_server.resume()
    await until_async(lambda: _undone(client))
    assert not await watcher.get_lock("k").locked()
    async with watcher.get_lock("k").hold(timeout=1):
        pass


async def test_late_duplicates_do_not_touch_a_newer_hold(
    clients: ClientFactory, own_server: EmbeddedServer
) -> None:
    client = clients(own_server.url, lease_time=1.2)
    lock = client.get_lock("k")
    lease = await lock.acquire()
    await own_server.pause()
    releasing = asyncio.create_task(lease.release())
    await until(lambda: not client._stream.ready)
    await own_server.resume()
    await asyncio.gather(releasing, return_exceptions=True)
    async with lock.hold(timeout=10) as newer:
        assert newer.owner != lease.owner
        renewals = client.statistics().renewals
        await until(lambda: client.statistics().renewals > renewals)
        assert await lock.owned()


def _used_up(link: FaultProxy, used: int) -> bool:
    return link.triggered > used


async def _undone(client: Redisson) -> bool:
    await client.ping()
    return client._stream.ready and not client._context.asking
