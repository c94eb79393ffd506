"""W4: elements added to a set under a lock: read it all, sleep, write it all."""

from __future__ import annotations

from tests.jepsen.working import Worker
from tests.jepsen.workloads.locks import last_of_lock, lock_of
from tests.jepsen.workloads.workload import OF_LOCKS, Workload


async def _section(worker: Worker) -> None:
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
    _section,
    checkers=(*OF_LOCKS, "mutual exclusion", "referee", "fencing", "set add", "loss detection"),
    objects=("fenced-set-1", "fenced-set-2", "fenced-set-3", "fenced-set-4"),
    renewed=True,
    last=last_of_lock,
)
