"""What the workloads with locks have in common: which lock it is, and a number under it."""

from __future__ import annotations

import math
from typing import Any

from redisson_py import Lease
from redisson_py.locks.lock_like import LockLike
from tests.jepsen.working import Use, Worker, deadline


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
