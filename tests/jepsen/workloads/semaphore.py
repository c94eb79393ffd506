"""W6 and W7: units of semaphores, and permits with an id that end while their holder works."""

from __future__ import annotations

import math

from redisson_py import Permit, PermitExpirableSemaphore, Semaphore
from tests.jepsen.checkers.verdict import Facts
from tests.jepsen.working import Use, Worker, deadline
from tests.jepsen.workloads.workload import OF_LOCKS, Workload

LIMITS = {"semaphore-1": 1, "semaphore-2": 2, "semaphore-5": 5}
ID_LIMITS = {"permits-1": 1, "permits-2": 2, "permits-5": 5}
_MOST_AT_ONCE = 3


async def _section(worker: Worker) -> None:
    obj = worker.chance.choice(worker.spec.objects)
    semaphore = worker.client.get_semaphore(obj, LIMITS[obj])
    units = worker.chance.randint(1, min(LIMITS[obj], _MOST_AT_ONCE))
    with worker.use(obj, n=units) as use:
        match worker.chance.randrange(4):
            case 0 | 1:
                hold = semaphore.hold(units, timeout=worker.timeout())
                async with hold as permit, use.held(permit, n=units):
                    await _work(worker, use, permit)
            case 2:
                taken = await semaphore.try_acquire(units)
                if taken is None:
                    use.refused()
                    return
                async with taken, use.held(taken, n=units):
                    await _work(worker, use, taken)
            case _:
                await _by_hand(worker, use, semaphore, units)


async def _work(worker: Worker, use: Use, permit: Permit) -> None:
    use.check(permit)
    await worker.sleep(worker.chance.choice((0, 0, 0.001)))
    use.check(permit)


async def _by_hand(worker: Worker, use: Use, semaphore: Semaphore, units: int) -> None:
    permit = await semaphore.acquire(units, timeout=worker.timeout())
    use.granted(permit, n=units)
    try:
        await _work(worker, use, permit)
    finally:
        use.releasing()
        await permit.release()


async def _expirable_section(worker: Worker) -> None:
    obj = worker.chance.choice(worker.spec.objects)
    semaphore = worker.client.get_permit_expirable_semaphore(obj, ID_LIMITS[obj])
    with worker.use(obj, n=1) as use:
        # Sometimes the watchdog renews it; mostly it ends by itself, perhaps during the work.
        lease_time = worker.chance.choice((None, 0.1, 0.3))
        permit = await semaphore.acquire(lease_time=lease_time, timeout=worker.timeout())
        use.granted(permit, value=permit.id)
        try:
            use.check(permit)
            if worker.chance.random() < 0.05:
                await worker.sleep(worker.chance.uniform(0, 2) * (lease_time or 0.1))
                use.check(permit)
            if worker.chance.random() < 0.1:
                await _longer(worker, use, semaphore, permit)
        finally:
            use.releasing()
            await _give_back(worker, semaphore, permit)


async def _longer(
    worker: Worker, use: Use, semaphore: PermitExpirableSemaphore, permit: Permit
) -> None:
    """Give a permit a new lease, as its holder or by its id."""
    with use.recorded("extend") as result:
        if worker.chance.random() < 0.5:
            await permit.extend(0.5)
        elif not await semaphore.update_lease_time(permit.id, 0.5):
            result["out"] = "fail"
            return
        result["deadline"] = deadline(permit)
    use.check(permit)


async def _give_back(worker: Worker, semaphore: PermitExpirableSemaphore, permit: Permit) -> None:
    """Release a permit: by the semaphore, by itself, or by its id."""
    match worker.chance.randrange(3):
        case 0:
            await semaphore.release(permit)
        case 1:
            await permit.release()
        case _:
            await semaphore.release(permit.id)


async def _last(worker: Worker, obj: str) -> None:
    """Take all units, however long that takes."""
    units = LIMITS[obj]
    semaphore = worker.client.get_semaphore(obj, units)
    with worker.use(obj, n=units) as use:
        async with semaphore.hold(units, timeout=math.inf) as permit, use.held(permit, n=units):
            use.check(permit)


async def _last_of_expirable(worker: Worker, obj: str) -> None:
    semaphore = worker.client.get_permit_expirable_semaphore(obj, ID_LIMITS[obj])
    with worker.use(obj, n=1) as use:
        async with semaphore.hold(timeout=math.inf) as permit, use.held(permit, value=permit.id):
            use.check(permit)


SEMAPHORE = Workload(
    "semaphore",
    "W6: semaphores of 1, 2 and 5 units, of which 1 to 3 are taken at once",
    _section,
    checkers=(*OF_LOCKS, "semaphore capacity", "linearizability"),
    objects=tuple(LIMITS),
    tasks=3,
    facts=Facts(limits=LIMITS, lasting=tuple(LIMITS)),
    renewed=True,
    last=_last,
)
EXPIRABLE = Workload(
    "expirable",
    "W7: permits with ids whose leases end before the work does",
    _expirable_section,
    checkers=(*OF_LOCKS, "semaphore capacity"),
    objects=tuple(ID_LIMITS),
    tasks=3,
    facts=Facts(limits=ID_LIMITS, lasting=tuple(ID_LIMITS)),
    last=_last_of_expirable,
)
