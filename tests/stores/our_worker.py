"""A process whose tasks acquire locks as lines on the input say: `id thread verb words...`.

A lock is a name, or a kind and a name: `read:/path`, `write:/path`, in ZooKeeper `semaphore:/path`,
in etcd `election:/path`, with "ours" as the value. Run as
`python -m tests.stores.our_worker etcd URL LEASE_TIME`. Each thread is a task of its own, all have
one client. The answer is a line `id result`; a result that begins with `!` is an error. It ends
with its input.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from redisson_py import Lease, LockLike, RedissonError
from redisson_py._engine import waiting
from redisson_py._stores.client import StoreClient
from redisson_py._stores.read_write_lock import StoreReadWriteLock

Orders = asyncio.Queue[list[str]]


def client(store: str, url: str, lease_time: float) -> StoreClient:
    """Make a client of a store."""
    if store == "etcd":
        from redisson_py.etcd import Etcd

        return Etcd.from_url(url, lease_time=lease_time)
    if store == "postgres":
        from redisson_py.postgres import Postgres

        return Postgres.from_url(url, lease_time=lease_time)
    if store == "mysql":
        from redisson_py.mysql import MySQL

        return MySQL.from_url(url, lease_time=lease_time)
    from redisson_py.zookeeper import ZooKeeper

    return ZooKeeper.from_url(url, lease_time=lease_time)


def lock_of(store: StoreClient, name: str) -> LockLike:
    """Return the lock of a name that may begin with a kind."""
    kind, colon, path = name.partition(":")
    if not colon:
        return store.get_lock(name)
    client: Any = store
    if kind == "election":
        candidate: LockLike = client.get_election(path)._candidate(b"ours")
        return candidate
    if kind == "semaphore":
        mutex: LockLike = client.get_semaphore_mutex(path)
        return mutex
    lock: StoreReadWriteLock = client.get_read_write_lock(path)
    return lock.read_lock() if kind == "read" else lock.write_lock()


async def increment(store: StoreClient, name: str, file: Path, line: str) -> None:
    """Add a line to a file that only the lock protects."""
    async with lock_of(store, name):
        lines = await asyncio.to_thread(file.read_text)
        await asyncio.sleep(0.001)
        own = file.with_name(f"{file.name}{line}")
        await asyncio.to_thread(own.write_text, f"{lines}{line}\n")
        await asyncio.to_thread(own.replace, file)


async def thread(store: StoreClient, orders: Orders) -> None:
    """Do what is ordered, one after the other."""
    leases: dict[str, Lease] = {}
    while True:
        number, _, verb, name, *words = await orders.get()
        result = "true"
        try:
            match verb:
                case "acquire":
                    leases[name] = await lock_of(store, name).acquire(timeout=int(words[0]) / 1000)
                case "release":
                    await leases.pop(name).release()
                case "crowd":
                    for _ in range(int(words[1])):
                        await increment(store, name, Path(words[0]), words[2])
        except RedissonError as error:
            result = f"!{type(error).__name__}"
        sys.stdout.write(f"{number} {result}\n")
        sys.stdout.flush()


async def main() -> None:
    """Carry out orders until the input ends."""
    # Waiters are asked again by nothing but what the store tells.
    waiting.SAFETY_POLL = 100_000.0
    kind, url, lease_time = sys.argv[1:]
    threads: dict[str, Orders] = {}
    async with client(kind, url, float(lease_time)) as store, asyncio.TaskGroup() as group:
        while line := await asyncio.to_thread(sys.stdin.readline):
            order = line.split()
            if order[1] not in threads:
                threads[order[1]] = asyncio.Queue()
                group.create_task(thread(store, threads[order[1]]))
            threads[order[1]].put_nowait(order)
        sys.exit()


if __name__ == "__main__":
    asyncio.run(main())
