"""Trouble inside a server: commands of somebody else, its memory, its disk, its permissions."""

from __future__ import annotations

import asyncio
import errno
import random
from functools import partial
from pathlib import Path

from redisson_py.testing import EmbeddedServer
from tests.jepsen.field import USER, Field
from tests.jepsen.nemeses.nemesis import Nemesis, finish

#: Milliseconds after which a server that executes a script answers BUSY.
_BUSY_AFTER, _BUSY_AS_A_RULE = 20, 5000


async def _flush_scripts(field: Field, chance: random.Random) -> None:
    del chance
    for server in await field.masters():
        with field.struck("script-flush", server.address):
            await field.tell(server, "SCRIPT", "FLUSH")


async def _kill_clients(name: str, kind: str, field: Field, chance: random.Random) -> None:
    if servers := await field.masters():
        server = chance.choice(servers)
        with field.struck(name, server.address):
            await field.tell(server, "CLIENT", "KILL", "TYPE", kind)


async def _flush_all(field: Field, chance: random.Random) -> None:
    if servers := await field.masters():
        server = chance.choice(servers)
        with field.struck("flushall", server.address):
            await field.tell(server, "FLUSHALL")


async def _pause_clients(field: Field, chance: random.Random) -> None:
    if servers := await field.masters():
        server = chance.choice(servers)
        seconds = chance.uniform(0.1, 2) * field.lease_time
        kind = chance.choice(["ALL", "WRITE"])
        with field.struck("client-pause", server.address, value=kind):
            await field.tell(server, "CLIENT", "PAUSE", round(seconds * 1000), kind)
            # It ends by itself: under ALL, the server takes no command that could end it.
            await asyncio.sleep(seconds)


async def _busy(field: Field, chance: random.Random) -> None:
    server = chance.choice(field.servers)
    async with field.lock_of(server):
        with field.struck("busy", server.address):
            looping = asyncio.create_task(_loop_for_ever(server))
            try:
                await asyncio.sleep(chance.uniform(0.1, 2) * field.lease_time)
            finally:
                await finish(_end_script(field, server, looping))


async def _loop_for_ever(server: EmbeddedServer) -> None:
    try:
        # The name of Redis 6.2, which all later servers know too.
        await server.execute("CONFIG", "SET", "lua-time-limit", _BUSY_AFTER)
        await server.execute("EVAL", "while true do end", 0, timeout=60)
    except Exception:
        # Killed with the script, or never begun.
        return


async def _end_script(field: Field, server: EmbeddedServer, looping: asyncio.Task[None]) -> None:
    while not looping.done():
        await field.tell(server, "SCRIPT", "KILL")
        await asyncio.wait([looping], timeout=0.01)
    await field.insist(server, "CONFIG", "SET", "lua-time-limit", _BUSY_AS_A_RULE)


SCRIPT_FLUSH = Nemesis(
    "script-flush", "SCRIPT FLUSH every 100 ms", _flush_scripts, pause=(0.1, 0.1)
)
KILL_PUBSUB = Nemesis(
    "kill-pubsub",
    "CLIENT KILL TYPE pubsub every 50 to 500 ms",
    partial(_kill_clients, "kill-pubsub", "pubsub"),
    pause=(0.05, 0.5),
)
KILL_CONNECTIONS = Nemesis(
    "kill-connections",
    "CLIENT KILL TYPE normal",
    partial(_kill_clients, "kill-connections", "normal"),
)
FLUSHALL = Nemesis(
    "flushall", "FLUSHALL", _flush_all, breaks=frozenset({"data", "keys"}), pause=(0.5, 2)
)
CLIENT_PAUSE = Nemesis(
    "client-pause", "CLIENT PAUSE of all commands or of writes for 0.1 to 2 leases", _pause_clients
)
BUSY = Nemesis(
    "busy",
    "a script of somebody else runs for 0.1 to 2 leases",
    _busy,
    needs=frozenset({"alone"}),
)


#: Keys of the writer that fills, which is no part of the library.
_KEY = "jepsen-filler"
#: Bytes and milliseconds of each, and bytes that the server has to spare.
_SIZE = 1 << 16
_LIFE = 3000
_SPARE = 1 << 20


async def _fill_memory(name: str, policy: str, field: Field, chance: random.Random) -> None:
    """Write until the server refuses, or evicts whatever was not used for longest; then free it."""
    servers = await field.masters()
    if not servers:
        return
    server = chance.choice(servers)
    seconds = chance.uniform(0.2, 2) * field.lease_time
    async with field.lock_of((server, "memory")):
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
    rows = dict(row.split(":", 1) for row in text.splitlines() if ":" in row)
    return int(rows.get("used_memory", 0))


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
    partial(_fill_memory, "memory-full", "noeviction"),
)
EVICTION = Nemesis(
    "eviction",
    "somebody writes to a cache, and the server evicts keys (allkeys-lru)",
    partial(_fill_memory, "eviction", "allkeys-lru"),
    breaks=frozenset({"data", "keys"}),
)


#: What is revoked, and what gives it back; what is not named stays as it was.
_REVOKED = {
    "all commands": ("-@all",),
    "scripts": ("-evalsha",),
    "expiry": ("-pexpire",),
    "messages": ("resetchannels",),
    "keys": ("resetkeys",),
    "log in": ("off",),
}


async def _revoke(field: Field, chance: random.Random) -> None:
    server = chance.choice(field.servers)
    what = chance.choice(sorted(_REVOKED))
    async with field.lock_of((server, "user")):
        rules = await _rules(field, server)
        if rules is None:
            return
        with field.struck("acl", server.address, value=what):
            try:
                await field.tell(server, "ACL", "SETUSER", USER, *_REVOKED[what])
                if what == "log in":
                    await field.tell(server, "CLIENT", "KILL", "USER", USER)
                await asyncio.sleep(chance.uniform(0.1, 2) * field.lease_time)
            finally:
                await finish(field.insist(server, "ACL", "SETUSER", USER, "reset", *rules))


async def _rules(field: Field, server: EmbeddedServer) -> list[str] | None:
    """Return the rules of the workers' user, as ACL LIST has them."""
    for row in await field.tell(server, "ACL", "LIST") or []:
        _, name, *rules = str(row).split()
        if name == USER:
            return rules
    return None


ACL = Nemesis(
    "acl",
    "permissions of the workers' user are revoked for 0.1 to 2 leases, then restored",
    _revoke,
    needs=frozenset({"user"}),
)


_BLOCK = b"\0" * (1 << 20)


async def _fill_disk(field: Field, chance: random.Random) -> None:
    server = chance.choice(field.servers)
    filler = server.directory / "filler"
    async with field.lock_of(server):
        # One that syncs before it answers would end itself.
        await field.insist(server, "CONFIG", "SET", "appendfsync", "everysec")
        with field.struck("disk-full", server.address):
            try:
                await finish(asyncio.to_thread(_write_all, filler))
                await asyncio.sleep(chance.uniform(0.2, 2) * field.lease_time)
            finally:
                filler.unlink(missing_ok=True)
            # It tries again every second, and refuses PING until then.
            await field.insist(server, "PING")


def _write_all(filler: Path) -> None:
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
    _fill_disk,
    needs=frozenset({"alone", "disk"}),
)
