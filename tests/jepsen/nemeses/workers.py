"""Trouble with processes of workers: SIGKILL, SIGSTOP."""

from __future__ import annotations

import asyncio
import random
import signal

from tests.jepsen.field import Field
from tests.jepsen.nemeses.nemesis import Nemesis


async def _kill(field: Field, chance: random.Random) -> None:
    worker = chance.choice(field.workers)
    with field.struck("kill worker", worker.name):
        await worker.kill()
        await worker.start()


async def _pause(field: Field, chance: random.Random) -> None:
    worker = chance.choice(field.workers)
    with field.struck("pause worker", worker.name):
        worker.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(chance.uniform(0.1, 3) * field.lease_time)
        finally:
            worker.signal(signal.SIGCONT)


KILL = Nemesis("kill", "SIGKILL of a worker, which starts anew", _kill)
PAUSE = Nemesis("pause", "SIGSTOP of a worker for 0.1 to 3 leases", _pause)
