"""Locks that consist of others: several names at once, and a quorum of servers."""

from __future__ import annotations

from redisson_py import RedLock
from tests.jepsen.working import Worker
from tests.jepsen.workloads.locks import add_one_under, lock_of, visit
from tests.jepsen.workloads.workload import OF_LOCKS, Workload


async def _several(worker: Worker) -> None:
    chance = worker.chance
    if chance.random() < 0.2:
        # Members are also locked alone.
        obj = chance.choice(worker.spec.objects)
        await add_one_under(worker, worker.use(obj), lock_of(worker, obj))
        return
    names = chance.sample(worker.spec.objects, chance.randint(2, 5))
    locks = {name: lock_of(worker, name) for name in names}
    # The number is that of the first, and that of the fenced one if it is there.
    names.sort(key=lambda name: not name.startswith("fenced"))
    with worker.use(*names) as use:
        await use.ask()
        hold = worker.client.get_multi_lock(*locks.values()).hold(timeout=5)
        async with hold as lease, use.held(lease):
            if names[0].startswith("fenced"):
                # Entered again it has the token, which the lease of them all has not.
                async with locks[names[0]] as inner:
                    await use.add_one(inner)
            else:
                await use.add_one(lease)
            use.check(lease)


async def _last_of_several(worker: Worker, obj: str) -> None:
    """Lock all names at once, in an order of one's own that begins with this one."""
    others = [name for name in worker.spec.objects if name != obj]
    names = [obj, *worker.chance.sample(others, len(others))]
    locks = [lock_of(worker, name) for name in names]
    await visit(worker.use(*names), worker.client.get_multi_lock(*locks))


async def _of_quorum(worker: Worker) -> None:
    obj = worker.chance.choice(worker.spec.objects)
    await add_one_under(worker, worker.use(obj), _red_lock(worker, obj))


async def _last_of_quorum(worker: Worker, obj: str) -> None:
    await visit(worker.use(obj), _red_lock(worker, obj))


def _red_lock(worker: Worker, obj: str) -> RedLock:
    return worker.client.get_red_lock(*[each.get_lock(obj) for each in worker.clients])


MULTI = Workload(
    "multi",
    "W11: 2 to 5 of 6 names in random order, all or none; and each alone: no deadlock",
    _several,
    checkers=(*OF_LOCKS, "mutual exclusion", "referee"),
    objects=("plain-a", "plain-b", "exclusive-c", "plain-d", "fair-e", "fenced-f"),
    last=_last_of_several,
)
RED = Workload(
    "red",
    "W12: a number under a RedLock on five servers",
    _of_quorum,
    checkers=(*OF_LOCKS, "mutual exclusion", "referee"),
    objects=("red-1", "red-2"),
    servers=5,
    last=_last_of_quorum,
)


#: The task that takes several names at once.
_AT_ONCE = "w0.0"


async def _crossed(worker: Worker) -> None:
    """Take several names at once, beside tasks that take the same ones in the other order.

    Nobody has a timeout, so whatever waits for each other in a circle waits for ever. A multi lock
    takes its names in their order, and must not insist on the next one while others wait for what
    it has. One task has all the multi locks, and few are beside it: several would take what each
    other gives back, and only the limit of their waits would let the others go on.
    """
    names = sorted(worker.chance.sample(worker.spec.objects, 2))
    if worker.handle == _AT_ONCE:
        await _at_once(worker, *names)
    else:
        await _in_the_other_order(worker, *names)


async def _at_once(worker: Worker, *names: str) -> None:
    lock = worker.client.get_multi_lock(*[lock_of(worker, name) for name in names])
    with worker.use(*names) as use:
        async with lock as lease, use.held(lease):
            use.check(lease)
            await worker.sleep(worker.chance.choice((0, 0, 0.001)))
            use.check(lease)


async def _in_the_other_order(worker: Worker, first: str, last: str) -> None:
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
    _crossed,
    checkers=(*OF_LOCKS, "mutual exclusion"),
    objects=("plain-a", "plain-b", "plain-c"),
    options={"lease_time": 4.0},
    processes=2,
)
