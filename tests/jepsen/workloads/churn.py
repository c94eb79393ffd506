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

#: The greatest number of the suspension at which an operation is cancelled.
_LATEST = 8
_NAMES = 3
_PERMITS = 2
_KINDS = (
    *("lock", "non_reentrant_lock", "fair_lock", "fenced_lock", "read_lock", "write_lock"),
    *("multi_lock_of_three", "semaphore", "expirable_semaphore"),
)


async def _section(worker: Worker) -> None:
    chance = worker.chance
    # Not known to the older version of the package, which runs other workloads.
    from tests.support.kinds import KINDS

    name = chance.choice(worker.spec.objects)
    thing = KINDS[name].make([worker.client], f"{name}-{chance.randrange(_NAMES)}", _PERMITS)
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
    objects=_KINDS,
    tasks=6,
    facts=Facts(
        # At the end they are visited, which gives back the permits whose lease is over.
        limits={
            f"{kind}-{number}": _PERMITS
            for kind in ("semaphore", "expirable_semaphore")
            for number in range(_NAMES)
        },
        lasting=("redisson_lock_token:*", "semaphore-*", "expirable_semaphore-*"),
    ),
    threads=False,
)
