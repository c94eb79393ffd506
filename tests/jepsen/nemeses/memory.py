"""Trouble with memory: a server that has no more of it, or evicts keys to have more."""

from __future__ import annotations

import asyncio
import random

from redisson_py.testing import EmbeddedServer
from tests.jepsen.field import Field
from tests.jepsen.nemeses.nemesis import Nemesis, finish

#: Keys of the writer that fills, which is no part of the library.
_KEY = "jepsen-filler"
#: Bytes and milliseconds of each, and bytes that the server has to spare.
_SIZE = 1 << 16
_LIFE = 3000
_SPARE = 1 << 20


async def _no_memory(field: Field, chance: random.Random) -> None:
    """Fill the memory until the server refuses; hold that for a while, then free it."""
    await _fill("memory-full", "noeviction", field, chance)


async def _evict(field: Field, chance: random.Random) -> None:
    """Write to a cache in the same server, which evicts whatever was not used for longest."""
    await _fill("eviction", "allkeys-lru", field, chance)


async def _fill(name: str, policy: str, field: Field, chance: random.Random) -> None:
    servers = await field.masters()
    if not servers:
        return
    server = chance.choice(servers)
    seconds = chance.uniform(0.2, 2) * field.lease_time
    async with field.turn((server, "memory")):
        used = await _used(field, server)
        if not used:
            return
        with field.struck(name, server.address):
            try:
                await field.tell(server, "CONFIG", "SET", "maxmemory-policy", policy)
                await field.tell(server, "CONFIG", "SET", "maxmemory", used + _SPARE)
                async with asyncio.timeout(seconds):
                    await _keep_writing(field, server)
            except TimeoutError:
                pass
            finally:
                await finish(_free(field, server))


async def _used(field: Field, server: EmbeddedServer) -> int:
    text = str(await field.tell(server, "INFO", "memory") or "")
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return int(lines.get("used_memory", 0))


async def _keep_writing(field: Field, server: EmbeddedServer) -> None:
    """Write one key after the other; a cluster's node takes those of its own slots."""
    number = 0
    while True:
        number += 1
        # The server makes the value, so that little goes over the network.
        await field.tell(server, "EVAL", _WRITE, 1, f"{_KEY}-{number}", _SIZE, _LIFE)
        await asyncio.sleep(0)


async def _free(field: Field, server: EmbeddedServer) -> None:
    await field.insist(server, "CONFIG", "SET", "maxmemory", 0)
    await field.insist(server, "CONFIG", "SET", "maxmemory-policy", "noeviction")
    # It may be a replica by now, which takes no write: what is left goes by itself.
    await field.tell(server, "EVAL", _DELETE, 0, f"{_KEY}-*")


_WRITE = "redis.call('set', KEYS[1], string.rep('x', ARGV[1]), 'px', ARGV[2])"
_DELETE = "for _, key in ipairs(redis.call('keys', ARGV[1])) do redis.call('del', key) end"

MEMORY_FULL = Nemesis(
    "memory-full",
    "somebody fills the memory, and the server refuses writes (noeviction)",
    _no_memory,
)
EVICTION = Nemesis(
    "eviction",
    "somebody writes to a cache, and the server evicts keys (allkeys-lru)",
    _evict,
    breaks=frozenset({"data", "keys"}),
)
