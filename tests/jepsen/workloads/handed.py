"""W20: many tasks of two processes share one lock, which goes from task to task in a process."""

from __future__ import annotations

from tests.jepsen.working import Worker
from tests.jepsen.workloads.locks import lock_of
from tests.jepsen.workloads.workload import OF_LOCKS, Workload


async def _section(worker: Worker) -> None:
    (obj,) = worker.spec.objects
    with worker.use(obj) as use:
        async with lock_of(worker, obj) as lease, use.held(lease):
            use.check(lease)
            # It waits for nothing, so that the lock is nearly always being handed over.
            await worker.sleep(0)
            use.check(lease)


HANDED = Workload(
    "handed",
    "W20: one lock that goes from task to task: eight tasks each of two processes",
    _section,
    checkers=(*OF_LOCKS, "mutual exclusion", "loss detection", "linearizability"),
    objects=("plain-1",),
    processes=2,
    tasks=8,
)
