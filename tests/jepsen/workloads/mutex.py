"""W1 and W2: one number under a lock; the resource checks tokens, or not."""

from __future__ import annotations

from tests.jepsen.checkers.verdict import Facts
from tests.jepsen.working import Worker
from tests.jepsen.workloads.locks import add_one_under, last_of_lock, lock_of
from tests.jepsen.workloads.workload import OF_LOCKS, OPTIONS, Workload


async def section(worker: Worker) -> None:
    """Add one to the number of one of the objects."""
    obj = worker.chance.choice(worker.spec.objects)
    await add_one_under(worker, worker.use(obj), lock_of(worker, obj))


MUTEX = Workload(
    "mutex",
    "W1: a number under a lock; the resource accepts every write (publishes the honest window)",
    section,
    checkers=(*OF_LOCKS, "mutual exclusion", "referee", "loss detection", "linearizability"),
    objects=("plain-1", "plain-2", "exclusive-1"),
    last=last_of_lock,
)
FENCED = Workload(
    "fenced",
    "W2: a number under a fenced lock; the resource checks tokens (perfect under everything)",
    section,
    checkers=(*MUTEX.checkers, "fencing"),
    objects=("fenced-1", "fenced-2"),
    last=last_of_lock,
)
SYNCED = Workload(
    "synced",
    "W18: a number under locks whose grants a replica must confirm",
    section,
    checkers=(*OF_LOCKS[1:3], "mutual exclusion", "fencing"),
    objects=("plain-1", "exclusive-1", "fenced-1"),
    options={**OPTIONS, "sync_replicas": 1, "sync_timeout": 0.3},
    topology="replicas",
    facts=Facts(settings={"confirmed": True}),
    last=last_of_lock,
)
