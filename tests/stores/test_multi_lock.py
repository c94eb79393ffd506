"""A MultiLock whose members are on different stores, with Redis among them and without."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from redisson_py import (
    AcquireTimeoutError,
    ConnectionLostError,
    LeaseLostError,
    MultiLock,
    NotHeldError,
    Redisson,
    RedLock,
)
from redisson_py._engine.context import check_client
from tests.fixtures.backends import Running
from tests.stores.backends import CLIENT_LEASE, Backend, Client
from tests.stores.conftest import assert_idle
from tests.support.cancellation_sweep import Probe, Swept, sweep
from tests.support.waiting import until, until_async

#: Seconds for what must happen soon, however busy the machine is.
SOON = 10.0

MIXES = [("redis", "postgres", "etcd"), ("mysql", "zookeeper"), ("postgres", "etcd", "zookeeper")]


_numbers = itertools.count()


class Mix:
    """Clients of several stores, two of each."""

    def __init__(self, backends: list[Backend]) -> None:
        self.backends = backends
        self.base = f"k{next(_numbers)}"
        # Nothing waits for ever for what a failed test has left.
        self.clients: list[Client] = [each.client(acquire_timeout=60) for each in backends]
        self.others: list[Client] = [each.client(acquire_timeout=60) for each in backends]

    def locks(self, clients: list[Client]) -> list[Any]:
        """Return a lock on each store: the names sort in the order of the stores."""
        return [client.get_lock(f"{self.base}-{n}") for n, client in enumerate(clients)]

    @property
    def mine(self) -> MultiLock:
        """The lock made of all, by the first client of each store."""
        return MultiLock(*self.locks(self.clients))

    @property
    def theirs(self) -> MultiLock:
        """The same lock, by the other clients."""
        return MultiLock(*self.locks(self.others))

    async def connect(self) -> None:
        """Connect all clients: what ends soon need not wait for that."""
        await asyncio.gather(*[client.ping() for client in self.clients + self.others])

    async def held(self) -> list[bool]:
        """Return which members are held, as each store says."""
        return [await lock.locked() for lock in self.locks(self.others)]

    async def assert_free(self) -> None:
        """Fail unless nobody holds a member and nobody waits for one."""
        for lock in self.locks(self.others):
            snapshot = await lock.inspect()
            assert snapshot.holders == ()
            assert not snapshot.waiters

    async def settled(self) -> None:
        """Return when what a cancelled call has left was carried out."""
        for client in self.clients:
            if isinstance(client, Redisson):
                await client.ping()
            await assert_idle(client)
            check_client(client)


@pytest.fixture(params=MIXES, ids="-".join)
def backends(request: pytest.FixtureRequest, running_backend: Running) -> list[Backend]:
    """Some stores."""
    return [running_backend(name) for name in request.param]


@pytest_asyncio.fixture
async def mix(backends: list[Backend]) -> AsyncIterator[Mix]:
    """Clients of some stores, which the test must leave idle."""
    mix = Mix(backends)
    yield mix
    try:
        for client in mix.clients + mix.others:
            if not client._life.closed:
                await assert_idle(client)
                check_client(client)
    finally:
        for client in mix.clients + mix.others:
            await client.aclose()


async def test_it_holds_all_or_nothing(mix: Mix) -> None:
    async with mix.mine as lease:
        assert await mix.held() == [True] * len(mix.clients)
        assert 0 < lease.remaining <= CLIENT_LEASE
        assert await mix.theirs.try_acquire() is None
        for lock in mix.locks(mix.clients):
            assert await lock.owned()
    await mix.assert_free()
    with pytest.raises(NotHeldError):
        await lease.release()


@pytest.mark.usefixtures("old_busy_counts")
@pytest.mark.parametrize("which", [0, -1])
async def test_a_busy_member_is_waited_for(mix: Mix, which: int) -> None:
    busy = await mix.locks(mix.others)[which].acquire()
    assert await mix.mine.try_acquire() is None
    with pytest.raises(AcquireTimeoutError):
        await mix.mine.acquire(timeout=3)
    await mix.settled()
    assert (await mix.held()).count(True) == 1
    waiter = asyncio.create_task(mix.mine.acquire())
    await until(lambda: sum(each.statistics().waiters for each in mix.clients))
    await busy.release()
    async with asyncio.timeout(SOON):
        await (await waiter).release()
    await mix.assert_free()


@pytest.mark.parametrize("which", [0, 1, -1])
async def test_a_lost_member_loses_it_all(mix: Mix, which: int) -> None:
    with pytest.raises(LeaseLostError) as caught:
        async with mix.mine as lease:
            assert await mix.locks(mix.others)[which].force_release()
            await asyncio.sleep(2 * SOON)
    assert caught.value.reason == "taken"
    assert lease.lost
    await mix.settled()
    await mix.assert_free()


async def test_one_member_twice_is_refused(mix: Mix) -> None:
    for client, other in zip(mix.clients, mix.others, strict=True):
        store = "Redis" if isinstance(client, Redisson) else client._store.title
        others = [each.get_lock("rest") for each in mix.clients]
        with pytest.raises(ValueError, match=f"are the same lock in {store} "):
            MultiLock(*others, client.get_lock("k"), other.get_lock("k"))
        with pytest.raises(ValueError, match=f"are the same lock in {store} "):
            MultiLock(*others, client.get_lock("k"), client.get_fenced_lock("k"))


async def test_a_red_lock_refuses_other_stores(mix: Mix) -> None:
    locks = mix.locks(mix.clients)
    with pytest.raises(TypeError, match="a red lock is made of locks of Redis servers, not of"):
        RedLock(*reversed(locks))


async def test_different_orders_are_no_deadlock(mix: Mix) -> None:
    """The same name on each store, so that their order is all there is."""
    inside = 0

    async def together(clients: list[Any], *, backwards: bool) -> None:
        nonlocal inside
        locks = [client.get_lock(mix.base) for client in clients]
        for _ in range(2):
            async with MultiLock(*(reversed(locks) if backwards else locks)):
                inside += 1
                assert inside == 1
                await asyncio.sleep(0)
                inside -= 1

    async with asyncio.timeout(120):
        await asyncio.gather(
            together(mix.clients, backwards=False),
            together(mix.clients, backwards=True),
            together(mix.others, backwards=True),
        )


@pytest.mark.parametrize("which", [0, -1])
async def test_a_paused_server_fails_it_and_holds_nothing(mix: Mix, which: int) -> None:
    async with mix.mine:
        pass
    await mix.backends[which].pause()
    try:
        with pytest.raises(ConnectionLostError):
            await mix.mine.acquire(timeout=2)
        reached = mix.locks(mix.others)
        del reached[which]
        await until_async(lambda: _is_free(MultiLock(*reached)))
    finally:
        await mix.backends[which].resume()
    await until_async(lambda: _is_free(mix.theirs))
    async with asyncio.timeout(30):
        async with mix.mine:
            pass


async def _is_free(lock: Any) -> bool:
    return not await lock.locked()


@pytest.mark.parametrize("busy", ["nothing", "the first", "the last"])
async def test_cancelled_at_any_point_it_leaves_nothing(mix: Mix, busy: str) -> None:
    async def trial(cut: Probe) -> None:
        held = None
        if busy != "nothing":
            held = await mix.locks(mix.others)[0 if busy == "the first" else -1].acquire()

        def free() -> None:
            if held is not None and (cut.answered or cut.point is None):
                releasing.append(asyncio.create_task(held.release()))

        releasing: list[asyncio.Task[None]] = []
        started = asyncio.get_running_loop().call_later(0.02, free)
        lease = await cut(mix.mine.acquire())
        started.cancel()
        if lease is not None:
            await lease.release()
        if held is not None and not releasing:
            await held.release()
        await asyncio.gather(*releasing)
        await mix.settled()
        await mix.assert_free()

    async def trial_of_release(cut: Probe) -> None:
        lease = await mix.mine.acquire()
        await cut(lease.release())
        await mix.settled()
        await mix.assert_free()

    for each in (trial, trial_of_release) if busy == "nothing" else (trial,):
        swept: Swept = await sweep(each)
        assert swept.cancellations >= 6
