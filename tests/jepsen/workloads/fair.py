"""W10: a number under a fair lock; tickets say in which order the requests reached Redis."""

from __future__ import annotations

from typing import Any

from redisson_py import Lease
from tests.jepsen.working import Use, Worker
from tests.jepsen.workloads.locks import add_one_under, last_of_lock, lock_of
from tests.jepsen.workloads.workload import OF_LOCKS, Workload


class _Visit(Use):
    """A use of a fair lock.

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


async def _section(worker: Worker) -> None:
    obj = worker.chance.choice(worker.spec.objects)
    await add_one_under(worker, _Visit(worker, (obj,), {}), lock_of(worker, obj))


FAIR = Workload(
    "fair",
    "W10: a number under a fair lock, granted in the order in which requests reached Redis",
    _section,
    checkers=(*OF_LOCKS, "mutual exclusion", "referee", "fifo", "loss detection"),
    objects=("fair-1", "fair-2"),
    tasks=4,
    last=last_of_lock,
)
