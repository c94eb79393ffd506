"""Trouble with processes of workers: SIGKILL, SIGSTOP, a blocked event loop, cancelled tasks."""

from __future__ import annotations

import asyncio
import random
import signal

from tests.jepsen.field import Field, WorkerProcess
from tests.jepsen.nemeses.nemesis import Nemesis, finish


async def _kill(field: Field, chance: random.Random) -> None:
    worker = chance.choice(field.workers)
    with field.struck("kill", worker.name):
        await finish(_restart(worker))


async def _restart(worker: WorkerProcess) -> None:
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
