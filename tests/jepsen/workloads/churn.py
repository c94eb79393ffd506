"""W13: things of any kind come and go: made, cancelled anywhere, timed out, used, let go.

Nothing is protected here. At the end nothing may be left: keys, channels, holds, waiters, tasks.
"""

from __future__ import annotations

import asyncio
from typing import Any

from redisson_py import Lease
from tests.jepsen.checkers.verdict import Facts
from tests.jepsen.working import Use, Worker
from tests.jepsen.workloads.workload import Workload
from tests.support.cancellation_sweep import KINDS as WAYS
from tests.support.cancellation_sweep import Probe
from tests.support.kinds import CENTRAL, KINDS

#: The greatest number of the suspension at which an operation is cancelled.
_LATEST = 8
_NAMES = 3
_LIMITS = {
    f"{name}-{n}": 1 for name in CENTRAL if not KINDS[name].shared for n in range(_NAMES)
} | {f"{name}-{n}": 2 for name in CENTRAL if KINDS[name].semaphore for n in range(_NAMES)}


async def _section(worker: Worker) -> None:
    chance = worker.chance
    name = chance.choice(CENTRAL)
    thing = KINDS[name].make([worker.client], f"{name}-{chance.randrange(_NAMES)}", 2)
    with worker.use(thing.name) as use:
        probe = Probe(
            chance.choice(WAYS),
            chance.randint(1, _LATEST),
            answered=chance.random() < 0.5,
            twice=chance.random() < 0.2,
        )
        await probe(_acquire_and_release(worker, use, thing))
        if probe.cancelled:
            raise asyncio.CancelledError


async def _acquire_and_release(worker: Worker, use: Use, thing: Any) -> None:
    chance = worker.chance
    if chance.random() < 0.5:
        async with thing.hold(timeout=chance.choice((0.02, 0.1, 1))) as lease, use.held(lease):
            await _work(worker, use, lease)
        return
    lease = await thing.try_acquire(timeout=chance.choice((0, 0.02, 0.1, 1)))
    if lease is None:
        use.refused()
        return
    async with lease, use.held(lease):
        await _work(worker, use, lease)


async def _work(worker: Worker, use: Use, lease: Lease) -> None:
    use.check(lease)
    await worker.sleep(worker.chance.choice((0, 0, 0.001)))


CHURN = Workload(
    "churn",
    "W13: things of every kind, cancelled at any suspension or timed out; nothing may be left",
    _section,
    checkers=("leaks", "no deadlock", "no unexpected error"),
    objects=tuple(_LIMITS),
    tasks=6,
    facts=Facts(
        limits=_LIMITS,
        lasting=("redisson_lock_token:*", "semaphore-*", "expirable_semaphore-*"),
    ),
    threads=False,
)
