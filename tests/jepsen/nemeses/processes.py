"""Trouble with processes: of workers and servers that are killed, stopped, frozen or blocked."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable

from redisson_py.testing import EmbeddedServer
from tests.jepsen.field import Field, WorkerProcess
from tests.jepsen.nemeses.nemesis import Nemesis, finish


async def _kill(field: Field, chance: random.Random) -> None:
    worker = chance.choice(field.workers)
    with field.struck("kill", worker.name):
        await finish(_start_anew(worker))


async def _start_anew(worker: WorkerProcess) -> None:
    await worker.kill()
    await worker.start()


async def _pause(field: Field, chance: random.Random) -> None:
    worker = chance.choice(field.workers)
    with field.struck("pause", worker.name):
        worker.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(chance.uniform(0.1, 3) * field.lease_time)
        finally:
            worker.signal(signal.SIGCONT)


async def _block(field: Field, chance: random.Random) -> None:
    worker = chance.choice(field.workers)
    seconds = chance.uniform(0.5, 2) * field.lease_time
    with field.struck("block", worker.name):
        worker.tell(f"block {seconds:.3f}")
        await asyncio.sleep(seconds)


async def _cancel(field: Field, chance: random.Random) -> None:
    worker = chance.choice(field.workers)
    with field.struck("cancel", worker.name):
        worker.tell(f"cancel {chance.randint(1, 3)}")


KILL = Nemesis("kill", "SIGKILL of a worker, which starts anew", _kill)
PAUSE = Nemesis("pause", "SIGSTOP of a worker for 0.1 to 3 leases", _pause)
BLOCK = Nemesis("block", "a worker's event loop stands still for 0.5 to 2 leases", _block)
CANCEL = Nemesis("cancel", "tasks of a worker are cancelled", _cancel, pause=(0.02, 0.2))


Strike = Callable[[Field, random.Random], Awaitable[None]]


async def _crash(field: Field, chance: random.Random) -> None:
    server = chance.choice(field.servers)
    async with field.lock_of(server):
        with field.struck("crash", server.address):
            await finish(_start_empty(server, chance, kill=True))


async def _restart(field: Field, chance: random.Random) -> None:
    server = chance.choice(field.servers)
    async with field.lock_of(server):
        with field.struck("restart", server.address):
            await finish(_start_empty(server, chance, kill=False))


async def _start_empty(server: EmbeddedServer, chance: random.Random, *, kill: bool) -> None:
    await (server.kill() if kill else server.stop())
    await asyncio.sleep(chance.uniform(0, 0.5))
    await server.restart(keep_data=False)


def _crash_with_log(name: str, policy: str) -> Strike:
    """Return a strike that kills a server which writes its log to the disk by this policy."""

    async def strike(field: Field, chance: random.Random) -> None:
        server = chance.choice(field.servers)
        async with field.lock_of(server):
            await field.insist(server, "CONFIG", "SET", "appendfsync", policy)
            await asyncio.sleep(chance.uniform(0.2, 1))
            with field.struck(name, server.address):
                await finish(_start_again(server, chance))

    return strike


async def _start_again(server: EmbeddedServer, chance: random.Random) -> None:
    await server.kill()
    await asyncio.sleep(chance.uniform(0, 0.5))
    await server.start()


async def _freeze(field: Field, chance: random.Random) -> None:
    server = chance.choice(field.servers)
    async with field.lock_of(server):
        with field.struck("freeze", server.address):
            await server.pause()
            try:
                await asyncio.sleep(chance.uniform(0.1, 3) * field.lease_time)
            finally:
                await server.resume()


CRASH = Nemesis(
    "crash",
    "SIGKILL of a server, which starts empty",
    _crash,
    breaks=frozenset({"data"}),
    needs=frozenset({"alone"}),
)
RESTART = Nemesis(
    "restart",
    "a server is stopped in good order and starts empty",
    _restart,
    breaks=frozenset({"data"}),
    needs=frozenset({"alone"}),
)
CRASH_EVERYSEC = Nemesis(
    "crash-everysec",
    "SIGKILL of a server that syncs its log every second; it starts with what it wrote",
    _crash_with_log("crash-everysec", "everysec"),
    breaks=frozenset({"data"}),
    needs=frozenset({"alone", "appendonly"}),
)
CRASH_ALWAYS = Nemesis(
    "crash-always",
    "SIGKILL of a server that syncs its log before it answers; it starts with all data",
    _crash_with_log("crash-always", "always"),
    needs=frozenset({"alone", "appendonly"}),
)
FREEZE = Nemesis(
    "freeze",
    "SIGSTOP of a server for 0.1 to 3 leases",
    _freeze,
    needs=frozenset({"alone"}),
)
