"""A process that holds a lock of each of the kinds it is told, until it is killed.

Its arguments: the lease in seconds, the URL of a server, that of three more, and kinds. It
prints `held` when it holds one of each kind, called `a <kind>`.
"""

from __future__ import annotations

import asyncio
import sys

from redisson_py import Redisson
from tests.interop.kinds import KINDS


async def main(lease_time: str, *words: str) -> None:
    clients = [Redisson.from_url(url, lease_time=float(lease_time)) for url in words[:4]]
    leases = [
        await KINDS[kind]
        .ours(clients[1:] if KINDS[kind].servers > 1 else clients, f"a {kind}")
        .acquire()
        for kind in words[4:]
    ]
    sys.stdout.write("held\n")
    sys.stdout.flush()
    await asyncio.sleep(600)
    assert not any(lease.lost for lease in leases)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
