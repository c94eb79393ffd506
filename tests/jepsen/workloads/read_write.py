"""W5: a number under a read-write lock: writers add one, readers see it stand still."""

from __future__ import annotations

from typing import Literal

from redisson_py import Lease, ReadWriteLock
from tests.jepsen.working import Use, Worker
from tests.jepsen.workloads.locks import visit
from tests.jepsen.workloads.workload import OF_LOCKS, Workload


async def _section(worker: Worker) -> None:
    obj = worker.chance.choice(worker.spec.objects)
    both = _lock_of(worker, obj)
    if worker.chance.random() < 0.7:
        await _read(worker, obj, both)
    else:
        await _write(worker, obj, both)


def _lock_of(worker: Worker, obj: str) -> ReadWriteLock:
    prefer: Literal["readers", "writers"] = "writers" if obj.startswith("writers") else "readers"
    return worker.client.get_read_write_lock(obj, prefer=prefer)


async def _read(worker: Worker, obj: str, both: ReadWriteLock) -> None:
    with worker.use(obj, value="read") as use:
        hold = both.read_lock().hold(timeout=worker.timeout())
        async with hold as lease, use.held(lease, value="read"):
            await _see(worker, use, lease)


async def _see(worker: Worker, use: Use, lease: Lease) -> None:
    """Look at the number twice."""
    use.check(lease)
    await worker.resource.tell("look", use.obj, use.rid)
    use.check(lease)
    await worker.resource.tell("look", use.obj, use.rid)
    use.check(lease)


async def _write(worker: Worker, obj: str, both: ReadWriteLock) -> None:
    with worker.use(obj, value="write") as use:
        await use.ask()
        hold = both.write_lock().hold(timeout=worker.timeout())
        async with hold as lease, use.held(lease, value="write"):
            await use.add_one(lease)
            if worker.chance.random() < 0.3:
                await _read(worker, obj, both)


async def _last(worker: Worker, obj: str) -> None:
    both = _lock_of(worker, obj)
    await visit(worker.use(obj, value="write"), both.write_lock())
    await visit(worker.use(obj, value="read"), both.read_lock())


READ_WRITE = Workload(
    "read-write",
    "W5: a number under a read-write lock; writers also read inside",
    _section,
    checkers=(*OF_LOCKS, "read-write", "referee", "linearizability"),
    objects=("readers-1", "writers-1"),
    tasks=3,
    renewed=True,
    last=_last,
)
