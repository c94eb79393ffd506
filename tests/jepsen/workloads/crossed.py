"""W19: several names at once, beside tasks that take the same ones by hand in the other order.

Nobody has a timeout, so whatever waits for each other in a circle waits for ever. A multi lock
takes its names in their order, and must not insist on the next one while others wait for what it
has. One task has all the multi locks, and few are beside it: several would take what each other
gives back, and only the limit of their waits would let the others go on.
"""

from __future__ import annotations

from tests.jepsen.working import Worker
from tests.jepsen.workloads.locks import lock_of
from tests.jepsen.workloads.workload import OF_LOCKS, Workload

#: The task that takes several names at once.
_AT_ONCE = "w0.0"


async def _section(worker: Worker) -> None:
    names = sorted(worker.chance.sample(worker.spec.objects, 2))
    if worker.handle == _AT_ONCE:
        await _at_once(worker, *names)
    else:
        await _by_hand(worker, *names)


async def _at_once(worker: Worker, *names: str) -> None:
    lock = worker.client.get_multi_lock(*[lock_of(worker, name) for name in names])
    with worker.use(*names) as use:
        async with lock as lease, use.held(lease):
            use.check(lease)
            await worker.sleep(worker.chance.choice((0, 0, 0.001)))
            use.check(lease)


async def _by_hand(worker: Worker, first: str, last: str) -> None:
    """Take the last name, then the first: such tasks never wait for each other in a circle."""
    with worker.use(last) as outer:
        async with lock_of(worker, last) as outer_lease, outer.held(outer_lease):
            await worker.sleep(worker.chance.choice((0, 0.001)))
            with worker.use(first) as inner:
                async with lock_of(worker, first) as lease, inner.held(lease):
                    inner.check(lease)
            outer.check(outer_lease)


CROSSED = Workload(
    "crossed",
    "W19: two of three names at once, and by hand in the other order; no timeouts, no deadlock",
    _section,
    checkers=(*OF_LOCKS, "mutual exclusion"),
    objects=("plain-a", "plain-b", "plain-c"),
    options={"lease_time": 4.0},
    processes=2,
)
