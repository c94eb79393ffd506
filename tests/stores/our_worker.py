"""A process whose tasks acquire locks as lines on the input say: `id thread verb words...`.

A lock is a name, or a kind and a name: `read:/path`, `write:/path`, in ZooKeeper `semaphore:/path`,
`election:/path`, with "ours" as the value. Run as
`python -m tests.stores.our_worker etcd URL LEASE_TIME`. Each thread is a task of its own, all have
one client. The answer is a line `id result`; a result that begins with `!` is an error. It ends
with its input.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from redisson_py import Lease, RedissonError
from redisson_py._engine import waiting
from tests.stores.backends import BACKENDS
from tests.support.any_client import Client

Orders = asyncio.Queue[list[str]]


def lock_of(client: Any, name: str) -> Any:
    """Return the lock of a name that may begin with a kind."""
    kind, colon, path = name.partition(":")
    if not colon:
        return client.get_lock(name)
    if kind == "election":
        return client.get_election(path)._candidate(b"ours")
    if kind == "semaphore":
        return client.get_semaphore_mutex(path)
    lock = client.get_read_write_lock(path)
    return lock.read_lock() if kind == "read" else lock.write_lock()


async def increment(store: Client, name: str, file: Path, row: str) -> None:
    """Add a line to a file that only the lock protects."""
    async with lock_of(store, name):
        rows = await asyncio.to_thread(file.read_text)
        await asyncio.sleep(0.001)
        own = file.with_name(f"{file.name}{row}")
        await asyncio.to_thread(own.write_text, f"{rows}{row}\n")
        await asyncio.to_thread(own.replace, file)


async def thread(store: Client, orders: Orders) -> None:
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
    waiting.SAFETY_POLL_SECONDS = 100_000.0
    store_name, url, lease_time = sys.argv[1:]
    # Without its server: only the class is wanted, to make a client.
    backend: Any = BACKENDS[store_name]
    threads: dict[str, Orders] = {}
    async with (
        backend.client(None, url, lease_time=float(lease_time)) as store,
        asyncio.TaskGroup() as group,
    ):
        while row := await asyncio.to_thread(sys.stdin.readline):
            order = row.split()
            if order[1] not in threads:
                threads[order[1]] = asyncio.Queue()
                group.create_task(thread(store, threads[order[1]]))
            threads[order[1]].put_nowait(order)
        sys.exit()


if __name__ == "__main__":
    asyncio.run(main())
