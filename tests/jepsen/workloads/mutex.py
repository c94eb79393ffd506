"""W1 and W2: one number under a lock; the resource checks tokens, or not."""

from __future__ import annotations

from redisson_py import Lease
from tests.jepsen.worker import Worker
from tests.jepsen.workloads.workload import Workload


async def _section(worker: Worker) -> None:
    obj, rid = worker.chance.choice(worker.spec.objects), worker.section()
    fenced = obj.startswith("fenced")
    lock = worker.client.get_fenced_lock(obj) if fenced else worker.client.get_lock(obj)
    await worker.resource.tell("ask", obj, rid)
    async with worker.recorded("acquire", obj, rid) as result:
        lease = await lock.acquire(timeout=5)
        result.update(worker.granted(lease))
    try:
        async with lease:
            await _add_one(worker, obj, rid, lease)
            number = worker.record.invoke("release", obj, rid=rid)
    except BaseException as error:
        worker.record.note("release", obj, out="info", rid=rid, err=type(error).__name__)
        raise
    worker.record.complete(number)


async def _add_one(worker: Worker, obj: str, rid: str, lease: Lease) -> None:
    """Read the number and write it back with one added, between two looks at the lease."""
    worker.check(obj, rid, lease)
    # A plain lock has no token: the resource accepts every write there.
    token = lease.token or 0
    value = int(await worker.resource.tell("begin", obj, rid, lease.owner, token))
    worker.check(obj, rid, lease)
    await worker.resource.tell("write", obj, rid, token, value + 1)


MUTEX = Workload(
    "mutex",
    "W1: a number under a lock; the resource accepts every write (publishes the honest window)",
    _section,
    checkers=("mutual exclusion",),
    objects=("plain-1", "plain-2"),
)
FENCED = Workload(
    "fenced",
    "W2: a number under a fenced lock; the resource checks tokens (perfect under everything)",
    _section,
    checkers=("mutual exclusion",),
    objects=("fenced-1", "fenced-2"),
)
