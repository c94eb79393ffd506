"""A process that holds things, with the watchdog, until it is killed.

`python -m tests.interop.holder LEASE_TIME URL,URL,URL,URL THINGS` prints `held` when it holds them:
of each of the kinds of locks one called `a <kind>`, the red lock on all but the first server; or
what `OTHERS` has.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from redisson_py import Redisson
from tests.interop.kinds import KINDS
from tests.interop.permits import NAME

OTHERS: dict[str, Callable[[Redisson], Awaitable[object]]] = {
    "a reader of k": lambda client: client.get_read_write_lock("k").read_lock().acquire(),
    "two units": lambda client: client.get_semaphore(NAME).acquire(2),
    "two permits": lambda client: client.get_permit_expirable_semaphore(NAME).acquire_many(2),
}


@asynccontextmanager
async def holding(lease_time: float, things: list[str], *urls: str) -> AsyncIterator[Process]:
    """Have a process hold these; it is killed in the end, if not before."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__, str(lease_time), ",".join(urls), *things), stdout=PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(30):
            assert await process.stdout.readline() == b"held\n"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def main(lease_time: str, urls: str, *things: str) -> None:
    clients = [Redisson.from_url(url, lease_time=float(lease_time)) for url in urls.split(",")]
    leases = []
    for thing in things:
        if thing in OTHERS:
            leases.append(await OTHERS[thing](clients[0]))
        else:
            kind = KINDS[thing]
            some = clients[1:] if kind.servers > 1 else clients
            leases.append(await kind.ours(some, f"a {thing}").acquire())
    sys.stdout.write("held\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
