"""The read-write lock in etcd and ZooKeeper when connections break, and servers stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from redisson_py import Lease, LeaseLostError
from redisson_py.testing import FaultProxy
from redisson_py.zookeeper import StoreReadWriteLock
from tests.fixtures.backends import Running
from tests.stores.backends import LEASE, Backend
from tests.stores.conftest import NewClient
from tests.stores.faults_scene import proxied
from tests.stores.read_write_support import STORES, Client, waits
from tests.support.waiting import until, until_async

#: Seconds that no call here should need.
LONG = 20.0


@pytest.fixture(params=STORES)
def backend(request: pytest.FixtureRequest, running_backend: Running) -> Backend:
    return running_backend(request.param)


@pytest_asyncio.fixture
async def proxy(backend: Backend) -> AsyncIterator[FaultProxy]:
    async with proxied(backend) as started:
        yield started


@pytest_asyncio.fixture
async def behind(backend: Backend, proxy: FaultProxy) -> AsyncIterator[Any]:
    """A client whose connections break."""
    client: Any = backend.client(proxy.url)
    async with client:
        yield client


@pytest.fixture
def theirs(other: Client) -> StoreReadWriteLock:
    """The lock, of a client without faults."""
    return other.get_read_write_lock("k")


async def test_holds_and_waiters_outlive_a_connection(
    behind: Client, theirs: StoreReadWriteLock, proxy: FaultProxy
) -> None:
    lock = behind.get_read_write_lock("k")
    their = await theirs.read_lock().acquire()
    reading = await lock.read_lock().acquire()
    writer: Any = asyncio.create_task(lock.write_lock().acquire())
    await waits(theirs, 1)
    proxy.cut()
    await behind.ping()
    await their.release()
    await reading.release()
    async with asyncio.timeout(LONG):
        writing = await writer
    assert not reading.lost
    await writing.release()


async def test_the_end_of_a_session_ends_both_sides(
    behind: Client, theirs: StoreReadWriteLock, proxy: FaultProxy
) -> None:
    lock = behind.get_read_write_lock("k")
    reached = False
    losses: list[LeaseLostError] = []

    async def work() -> None:
        nonlocal reached
        try:
            async with lock.write_lock(), lock.read_lock():
                proxy.black_hole()
                await asyncio.sleep(2 * LONG)
                reached = True
        except LeaseLostError as error:
            losses.append(error)

    async with asyncio.timeout(2 * LONG):
        await work()
        # The server frees both.
        async with theirs.write_lock():
            pass
    # What lost bytes is cut, as TCP would.
    proxy.cut()
    proxy.pass_through()
    assert not reached
    assert len(losses) == 1
    assert behind.statistics().held_leases == 0
    async with asyncio.timeout(LONG), lock.write_lock(), lock.read_lock():
        pass


async def test_no_read_under_a_write_that_was_passed_on(
    backend: Backend, new_client: NewClient, theirs: StoreReadWriteLock
) -> None:
    # However long the server is stopped, what it was asked for is passed on here.
    client: Any = new_client(lease_time=10 * LEASE, turn=LONG)
    lock = client.get_read_write_lock("k")
    begin, leave = asyncio.Event(), asyncio.Event()
    entered: list[str] = []
    writing: asyncio.Future[Lease] = asyncio.get_running_loop().create_future()

    async def first() -> None:
        writing.set_result(await lock.write_lock().acquire())
        await begin.wait()
        async with lock.read_lock():
            entered.append("first reads")

    async def second() -> None:
        async with lock.write_lock():
            entered.append("second writes")
            await leave.wait()
            entered.append("second wrote")

    async with asyncio.timeout(LONG):
        tasks = [asyncio.create_task(first())]
        lease = await writing
        tasks.append(asyncio.create_task(second()))
        await until(lambda: client.statistics().waiters == 1)
        await backend.pause()
        try:
            asked = client.statistics().commands_sent
            begin.set()
            await until(lambda: client.statistics().commands_sent > asked)
            # The read is under way, and another task of this client gets to write.
            await lease.release()
            await until(lambda: entered)
        finally:
            await backend.resume()

        async def is_waiting() -> bool:
            seen = await theirs.inspect()
            return not seen.readers and len(seen.waiters or ()) == 1

        await until_async(is_waiting)
        leave.set()
        await asyncio.gather(*tasks)
    assert entered == ["second writes", "second wrote", "first reads"]
