"""Trouble that somebody with a connection to the server makes."""

from __future__ import annotations

import asyncio
import random

from redisson_py.testing import EmbeddedServer
from tests.jepsen.field import Field
from tests.jepsen.nemeses.nemesis import Nemesis, finish

#: Milliseconds after which a server that executes a script answers BUSY.
_BUSY_AFTER, _BUSY_AS_A_RULE = 20, 5000


async def _flush_scripts(field: Field, chance: random.Random) -> None:
    del chance
    for server in await field.masters():
        with field.struck("script-flush", server.address):
            await field.tell(server, "SCRIPT", "FLUSH")


async def _kill_pubsub(field: Field, chance: random.Random) -> None:
    await _kill_clients("kill-pubsub", "pubsub", field, chance)


async def _kill_normal(field: Field, chance: random.Random) -> None:
    await _kill_clients("kill-connections", "normal", field, chance)


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
    async with field.turn(server):
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
    "kill-pubsub", "CLIENT KILL TYPE pubsub every 50 to 500 ms", _kill_pubsub, pause=(0.05, 0.5)
)
KILL_CONNECTIONS = Nemesis("kill-connections", "CLIENT KILL TYPE normal", _kill_normal)
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
