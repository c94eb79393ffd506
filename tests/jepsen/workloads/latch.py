"""W8: latches, each with a name of its own: counters, waiters, and some that come late."""

from __future__ import annotations

from redisson_py import AcquireTimeoutError
from tests.jepsen.checkers.verdict import Facts
from tests.jepsen.working import Worker
from tests.jepsen.workloads.workload import OF_LOCKS, Workload

_ROLES = "roles"
_LONGEST = 2.0


async def _section(worker: Worker) -> None:
    """Do what somebody else's latch needs, or make one."""
    role = await worker.resource.tell("take", _ROLES)
    if not role:
        await _make(worker)
        return
    word, obj, count = role.split("/")
    if word == "count":
        await _count_down(worker, obj, 1)
    else:
        await _await(worker, obj, int(count))


async def _make(worker: Worker) -> None:
    """Make a latch, leave its roles to others, and wait until it is open."""
    chance = worker.chance
    count, waiters = chance.randint(1, 6), chance.randint(1, 6)
    obj = f"latch-{worker.section().replace('/', '-')}"
    latch = worker.client.get_latch(obj)
    with worker.recorded("set_count", obj, obj, value=count):
        await latch.try_set_count(count)
    roles = [f"count/{obj}/{count}"] * count + [f"wait/{obj}/{count}"] * waiters
    chance.shuffle(roles)
    await worker.resource.tell("post", _ROLES, *roles)
    try:
        await _await(worker, obj, count)
    except AcquireTimeoutError:
        # A counter was killed: nobody knows whether it counted.
        if left := await latch.count():
            await _count_down(worker, obj, left)
        return
    # They come when it is open.
    late = [f"wait/{obj}/{count}"] * chance.randint(0, 2)
    if late:
        await worker.resource.tell("post", _ROLES, *late)


async def _count_down(worker: Worker, obj: str, units: int) -> None:
    with worker.recorded("count_down", obj, worker.section(), n=units):
        await worker.client.get_latch(obj).count_down(units)


async def _await(worker: Worker, obj: str, count: int) -> None:
    """Wait for a latch; `value` is the count that must be down before."""
    with worker.recorded("await", obj, worker.section(), value=count):
        await worker.client.get_latch(obj).wait(timeout=_LONGEST)


LATCH = Workload(
    "latch",
    "W8: latches with 1 to 6 counters, as many waiters, and late ones; each has a name of its own",
    _section,
    checkers=("latch", *OF_LOCKS[1:]),
    objects=("latch",),
    tasks=6,
    facts=Facts(lasting=("latch-*",)),
)
