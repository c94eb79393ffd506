"""What tests of the read-write lock in etcd and ZooKeeper share: holders in tasks of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from redisson_py import Lease
from redisson_py.etcd import Etcd
from redisson_py.zookeeper import StoreReadLock, StoreReadWriteLock, StoreWriteLock, ZooKeeper
from tests.stores.faults_scene import SOON
from tests.support.waiting import until_async

#: The stores that have it, and their clients.
STORES = ["etcd", "zookeeper"]
Client = Etcd | ZooKeeper
Side = StoreReadLock | StoreWriteLock


@asynccontextmanager
async def held(side: Side) -> AsyncGenerator[Lease]:
    """Hold a side in another task."""
    entered: asyncio.Future[Lease] = asyncio.get_running_loop().create_future()
    leave = asyncio.Event()

    async def hold() -> None:
        async with side as lease:
            entered.set_result(lease)
            await leave.wait()

    task = asyncio.create_task(hold())
    async with asyncio.timeout(3 * SOON):
        yield await entered
        leave.set()
        await task


async def waits(lock: StoreReadWriteLock, count: int) -> None:
    """Return when so many wait in the store."""

    async def enough() -> bool:
        return len((await lock.inspect()).waiters or ()) == count

    await until_async(enough)


def enter(side: Side, entered: list[str], name: str) -> asyncio.Task[None]:
    """Enter a side in a task, note that, and leave it."""

    async def work() -> None:
        async with side:
            entered.append(name)

    return asyncio.create_task(work())
