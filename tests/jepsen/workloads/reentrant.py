"""W3: tasks that enter a lock again, up to three deep, in each of the ways there are."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from redisson_py import Lease, RedissonError
from redisson_py.locks.lock_like import LockLike
from tests.jepsen.working import Use, Worker
from tests.jepsen.workloads.locks import last_of_lock, lock_of
from tests.jepsen.workloads.workload import OF_LOCKS, Workload

_DEEPEST = 3


class _Entry(Use):
    """One more entry of a use: `n` is the hold count after it, and after it was left."""

    _words = ("reenter", "leave")

    def __init__(self, worker: Worker, outer: Use, depth: int) -> None:
        super().__init__(worker, (outer.obj,), {"n": depth})
        self.rid, self._depth = outer.rid, depth

    def granted(self, lease: Lease, **facts: Any) -> None:
        super().granted(lease, n=self._depth, **facts)

    def releasing(self) -> None:
        self._begin("leave", n=self._depth - 1)

    def left(self, count: dict[str, int]) -> None:
        """Record that it was left, and the hold count that the server has then."""
        self._end("ok", **count)


async def _section(worker: Worker) -> None:
    obj = worker.chance.choice(worker.spec.objects)
    lock, depth = lock_of(worker, obj), worker.chance.randint(1, _DEEPEST)
    with worker.use(obj) as use:
        await use.ask()
        async with lock.hold(timeout=worker.timeout()) as lease, use.held(lease):
            await use.add_one(lease)
            await _deeper(worker, use, lock, 2, depth)
            use.check(lease)


async def _deeper(worker: Worker, use: Use, lock: LockLike, depth: int, deepest: int) -> None:
    """Enter again until it is deep enough."""
    if depth > deepest:
        return

    async def inside(lease: Lease) -> None:
        use.check(lease)
        await _deeper(worker, use, lock, depth + 1, deepest)

    with _Entry(worker, use, depth) as entry:
        match worker.chance.randrange(3):
            case 0:
                async with lock as lease:
                    async with entry.held(lease, **await _count(worker, lock)):
                        await inside(lease)
            case 1:
                lease = await lock.acquire()
                entry.granted(lease, **await _count(worker, lock))
                try:
                    await inside(lease)
                finally:
                    entry.releasing()
                    # The newest hold of the task is this one.
                    await lock.release()
                entry.left(await _count(worker, lock))
            case _:
                taken = await lock.try_acquire(timeout=1)
                if taken is None:
                    entry.refused()
                    return
                async with taken, entry.held(taken):
                    await inside(taken)


async def _count(worker: Worker, lock: LockLike) -> dict[str, int]:
    """Ask the server for the hold count, sometimes; no answer says nothing."""
    if worker.chance.random() < 0.3:
        with suppress(RedissonError):
            return {"value": await lock.hold_count()}
    return {}


REENTRANT = Workload(
    "reentrant",
    "W3: a lock entered again, up to three deep; each exit gives back one hold",
    _section,
    checkers=(
        *(*OF_LOCKS, "mutual exclusion", "referee", "hold count", "fencing"),
        *("loss detection", "linearizability"),
    ),
    objects=("plain-deep", "fair-deep", "fenced-deep"),
    renewed=True,
    last=last_of_lock,
)
