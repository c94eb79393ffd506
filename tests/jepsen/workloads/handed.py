"""Locks that go from task to task, and some for which a few come at once and nobody comes later."""

from __future__ import annotations

from tests.jepsen.checkers.verdict import Facts
from tests.jepsen.working import Worker
from tests.jepsen.workloads.locks import lock_of
from tests.jepsen.workloads.workload import OF_LOCKS, Workload


async def _pass_on(worker: Worker) -> None:
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
    _pass_on,
    checkers=(*OF_LOCKS, "mutual exclusion", "loss detection", "linearizability"),
    objects=("plain-1",),
    processes=2,
    tasks=8,
)


_ROLES = "visits"
_KINDS = ("plain", "exclusive", "fair")
_MOST = 6


async def _visit_brief(worker: Worker) -> None:
    """Visit a lock that somebody else has named, or name one.

    Under a name that is always asked for, somebody else soon takes, or gives back, what a waiter
    was not told of. Here whoever still waits can be served by the releases of the others only: the
    lease is long, the safety poll far away, and nobody gives up.
    """
    obj = await worker.resource.tell("take", _ROLES)
    if not obj:
        chance = worker.chance
        obj = f"{chance.choice(_KINDS)}-{worker.section().replace('/', '-')}"
        await worker.resource.tell("post", _ROLES, *[obj] * chance.randint(1, _MOST - 1))
    with worker.use(obj) as use:
        async with lock_of(worker, obj) as lease, use.held(lease):
            use.check(lease)
            await worker.sleep(worker.chance.choice((0, 0, 0.001)))
            use.check(lease)


BRIEF = Workload(
    "brief",
    "W15: locks with names of their own: a few come at once, then nobody; no timeouts, long leases",
    _visit_brief,
    checkers=(
        *("no lost wake-up", "no deadlock", "no unexpected error", "leaks"),
        "mutual exclusion",
    ),
    objects=("brief",),
    options={"lease_time": 4.0},
    tasks=4,
    renewed=True,
    # Waiters that died are removed by whoever comes next, and here nobody does.
    facts=Facts(lasting=("redisson_lock_queue:{fair-*", "redisson_lock_timeout:{fair-*")),
)
