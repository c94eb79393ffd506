"""W16 and W17: leases that their holders set anew, and locks that somebody forces."""

from __future__ import annotations

from redisson_py import Lease
from tests.jepsen.checkers.verdict import Facts
from tests.jepsen.working import Use, Worker, deadline
from tests.jepsen.workloads.locks import last_of_lock, lock_of
from tests.jepsen.workloads.workload import OF_LOCKS, Workload

_LEASE = 1.0
#: The longest lease that anybody asks for.
_LONGEST = 1.0
_LOOKS = 4


async def _extended(worker: Worker) -> None:
    """Hold a lock for several leases, each set by hand, shorter or longer than the one before."""
    obj, chance = worker.chance.choice(worker.spec.objects), worker.chance
    with worker.use(obj) as use:
        lock = lock_of(worker, obj)
        async with lock.hold(lease_time=0.5, timeout=worker.timeout()) as lease, use.held(lease):
            for _ in range(chance.randint(1, _LOOKS)):
                await worker.sleep(chance.uniform(0, 0.1))
                use.check(lease)
                with use.recorded("extend") as result:
                    await lease.extend(chance.choice((0.3, 0.6, _LONGEST)))
                    result["deadline"] = deadline(lease)
                use.check(lease)


async def _forced(worker: Worker) -> None:
    """Hold a lock for a while, or free it, whoever holds it."""
    obj = worker.chance.choice(worker.spec.objects)
    if worker.chance.random() < 0.3:
        await worker.sleep(worker.chance.uniform(0, 0.5))
        with worker.recorded("force", obj, worker.section()):
            await lock_of(worker, obj).force_release()
        return
    with worker.use(obj) as use:
        async with lock_of(worker, obj).hold(timeout=5) as lease, use.held(lease):
            # Until it learns of it, by its next renewal.
            await _stay(worker, use, lease)


async def _stay(worker: Worker, use: Use, lease: Lease) -> None:
    for _ in range(worker.chance.choice((1, 1, 10))):
        use.check(lease)
        await worker.sleep(worker.chance.uniform(0, 0.5) * worker.lease_time)
    use.check(lease)


EXTEND = Workload(
    "extend",
    "W16: leases that their holders set anew, again and again",
    _extended,
    checkers=(*OF_LOCKS, "mutual exclusion", "loss detection"),
    objects=("plain-1", "exclusive-1", "fenced-1", "fair-1"),
    options={"lease_time": _LEASE, "acquire_timeout": 5.0},
    facts=Facts(longest_lease=_LONGEST),
    last=last_of_lock,
)
FORCED = Workload(
    "forced",
    "W17: locks that somebody forces while others hold them",
    _forced,
    checkers=(*OF_LOCKS[1:], "mutual exclusion", "loss detection"),
    objects=("plain-1", "exclusive-1", "fenced-1", "fair-1"),
    options={"lease_time": _LEASE / 2, "acquire_timeout": 5.0},
    facts=Facts(longest_lease=_LEASE / 2),
    last=last_of_lock,
)
