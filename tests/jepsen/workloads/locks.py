"""Numbers and sets under a lock, whose kind is the part of its name before the hyphen."""

from __future__ import annotations

import math
from typing import Any

from redisson_py import Lease
from redisson_py.locks.lock_like import LockLike
from tests.jepsen.checkers.verdict import Facts
from tests.jepsen.working import Use, Worker, deadline
from tests.jepsen.workloads.workload import OF_LOCKS, OPTIONS, Workload


def lock_of(worker: Worker, obj: str) -> LockLike:
    """Return the lock of a name: the kind is the part before the hyphen."""
    match obj.split("-")[0]:
        case "fenced":
            return worker.client.get_fenced_lock(obj)
        case "fair":
            return worker.client.get_fair_lock(obj)
        case "exclusive":
            return worker.client.get_lock(obj, reentrant=False)
        case _:
            return worker.client.get_lock(obj)


async def add_one_under(worker: Worker, use: Use, lock: LockLike) -> None:
    """Add one to the number under a lock, acquired in one of the ways that users have."""
    with use:
        await use.ask()
        match worker.chance.randrange(6):
            case 0 | 1:
                async with lock.hold(timeout=worker.timeout()) as lease, use.held(lease):
                    await use.add_one(lease)
            case 2 | 3:
                # The client's `acquire_timeout` bounds it.
                async with lock as lease, use.held(lease):
                    await use.add_one(lease)
            case 4:
                taken = await lock.try_acquire(timeout=worker.chance.choice((0, 0.02, 0.2)))
                if taken is None:
                    use.refused()
                    return
                async with taken, use.held(taken):
                    await use.add_one(taken)
            case _:
                await _by_hand(worker, use, lock)


async def visit(use: Use, lock: LockLike) -> None:
    """Acquire and release a lock, however long that takes."""
    with use:
        async with lock.hold(timeout=math.inf) as lease, use.held(lease):
            use.check(lease)


async def last_of_lock(worker: Worker, obj: str) -> None:
    """Visit a lock for the last time."""
    await visit(worker.use(obj), lock_of(worker, obj))


async def _by_hand(worker: Worker, use: Use, lock: LockLike) -> None:
    """Acquire and release without a block, for a time of its own."""
    times: tuple[dict[str, Any], ...] = (
        {},
        {"lease_time": worker.lease_time},
        {"max_hold": 2 * worker.lease_time},
    )
    lease: Lease = await lock.acquire(timeout=worker.timeout(), **worker.chance.choice(times))
    use.granted(lease)
    try:
        await use.add_one(lease)
        if worker.chance.random() < 0.1:
            with use.recorded("extend") as result:
                await lease.extend(worker.lease_time * 2)
                result["deadline"] = deadline(lease)
            use.check(lease)
    finally:
        use.releasing()
        await lease.release()


async def _add_one(worker: Worker) -> None:
    """Add one to the number of one of the objects."""
    obj = worker.chance.choice(worker.spec.objects)
    await add_one_under(worker, worker.use(obj), lock_of(worker, obj))


MUTEX = Workload(
    "mutex",
    "W1: a number under a lock; the resource accepts every write (publishes the honest window)",
    _add_one,
    checkers=(*OF_LOCKS, "mutual exclusion", "referee", "loss detection", "linearizability"),
    objects=("plain-1", "plain-2", "exclusive-1"),
    last=last_of_lock,
)
FENCED = Workload(
    "fenced",
    "W2: a number under a fenced lock; the resource checks tokens (perfect under everything)",
    _add_one,
    checkers=(*MUTEX.checkers, "fencing"),
    objects=("fenced-1", "fenced-2"),
    last=last_of_lock,
)
SYNCED = Workload(
    "synced",
    "W18: a number under locks whose grants a replica must confirm",
    _add_one,
    checkers=(*OF_LOCKS[1:3], "mutual exclusion", "fencing"),
    objects=("plain-1", "exclusive-1", "fenced-1"),
    options={**OPTIONS, "sync_replicas": 1, "sync_timeout": 0.3},
    topology="replicas",
    facts=Facts(settings={"confirmed": True}),
    last=last_of_lock,
)


async def _add_element(worker: Worker) -> None:
    obj = worker.chance.choice(worker.spec.objects)
    with worker.use(obj) as use:
        await use.ask()
        async with lock_of(worker, obj).hold(timeout=worker.timeout()) as lease, use.held(lease):
            version, _, content = (await use.begin(lease)).partition(" ")
            if worker.chance.random() < 0.2:
                await worker.sleep(worker.chance.uniform(0, 2) * worker.lease_time)
            # The resource decides, not this look: it refuses what a smaller token writes.
            use.check(lease)
            elements = [*content.split(","), use.rid] if content else [use.rid]
            with use.recorded("add", value=use.rid, fence=lease.token) as result:
                accepted = await use.write(lease, f"{int(version) + 1} {','.join(elements)}")
                result["out"] = "ok" if accepted else "fail"


SET_ADD = Workload(
    "set-add",
    "W4: a set read, and written with one element more, under a fenced lock; sleeps of 0-2 leases",
    _add_element,
    checkers=(*OF_LOCKS, "mutual exclusion", "referee", "fencing", "set add", "loss detection"),
    objects=("fenced-set-1", "fenced-set-2", "fenced-set-3", "fenced-set-4"),
    renewed=True,
    last=last_of_lock,
)


class Arrival(Use):
    """A use of what is granted in the order of arrival.

    Its request reached Redis after its acquire began, and before the library said that it waits;
    or before it was granted, if it did not have to wait.
    """

    _has_ticket = False

    def waits(self, kind: str) -> None:
        self._ticket()
        super().waits(kind)

    def granted(self, lease: Lease, **facts: Any) -> None:
        if not self._has_ticket:
            self._ticket()
        super().granted(lease, **facts)

    def _ticket(self) -> None:
        self._has_ticket = True
        self._note("ticket", "ok", self.since)


async def _visit_fair(worker: Worker) -> None:
    obj = worker.chance.choice(worker.spec.objects)
    await add_one_under(worker, Arrival(worker, (obj,), {}), lock_of(worker, obj))


FAIR = Workload(
    "fair",
    "W10: a number under a fair lock, granted in the order in which requests reached Redis",
    _visit_fair,
    checkers=(*OF_LOCKS, "mutual exclusion", "referee", "fifo", "loss detection"),
    objects=("fair-1", "fair-2"),
    tasks=4,
    last=last_of_lock,
)


MIXED = Workload(
    "mixed",
    "W14: a number under locks of all kinds, whose holders run two versions of the package",
    _add_one,
    checkers=FENCED.checkers,
    objects=("plain-1", "exclusive-1", "fenced-1", "fair-1"),
    # The older version knows no other.
    topology="single",
    # Nor can it connect from an address of its own.
    without=frozenset({"own network"}),
    facts=Facts(settings={"older": True}),
    threads=False,
    last=last_of_lock,
)
