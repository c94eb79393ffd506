"""Trouble with the disk: it is full, and a server that keeps its data refuses writes."""

from __future__ import annotations

import asyncio
import errno
import random
from pathlib import Path

from tests.jepsen.field import Field
from tests.jepsen.nemeses.nemesis import Nemesis, finish

_BLOCK = b"\0" * (1 << 20)


async def _fill(field: Field, chance: random.Random) -> None:
    server = chance.choice(field.servers)
    filler = server.directory / "filler"
    async with field.turn(server):
        # One that syncs before it answers would end itself.
        await field.insist(server, "CONFIG", "SET", "appendfsync", "everysec")
        with field.struck("disk-full", server.address):
            try:
                await finish(asyncio.to_thread(_write, filler))
                await asyncio.sleep(chance.uniform(0.2, 2) * field.lease_time)
            finally:
                filler.unlink(missing_ok=True)
            # It tries again every second, and refuses PING until then.
            await field.insist(server, "PING")


def _write(filler: Path) -> None:
    """Write until there is no space left."""
    try:
        with filler.open("wb", buffering=0) as file:
            while True:
                file.write(_BLOCK)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


DISK_FULL = Nemesis(
    "disk-full",
    "the disk of a server's log is full for 0.2 to 2 leases",
    _fill,
    needs=frozenset({"alone", "disk"}),
)
