"""What the workers do: one module a workload."""

from __future__ import annotations

from tests.jepsen import older
from tests.jepsen.workloads.barrier import BARRIER
from tests.jepsen.workloads.brief import BRIEF
from tests.jepsen.workloads.churn import CHURN
from tests.jepsen.workloads.composite import MULTI, RED
from tests.jepsen.workloads.crossed import CROSSED
from tests.jepsen.workloads.fair import FAIR
from tests.jepsen.workloads.handed import HANDED
from tests.jepsen.workloads.latch import LATCH
from tests.jepsen.workloads.leases import EXTEND, FORCED
from tests.jepsen.workloads.mixed import MIXED
from tests.jepsen.workloads.mutex import FENCED, MUTEX, SYNCED
from tests.jepsen.workloads.read_write import READ_WRITE
from tests.jepsen.workloads.reentrant import REENTRANT
from tests.jepsen.workloads.semaphore import EXPIRABLE, SEMAPHORE
from tests.jepsen.workloads.set_add import SET_ADD
from tests.jepsen.workloads.workload import Workload

#: Every workload that this clone can run, by its name.
WORKLOADS: dict[str, Workload] = {
    each.name: each
    for each in (
        MUTEX,
        FENCED,
        REENTRANT,
        SET_ADD,
        READ_WRITE,
        SEMAPHORE,
        EXPIRABLE,
        LATCH,
        BARRIER,
        FAIR,
        MULTI,
        RED,
        CHURN,
        BRIEF,
        EXTEND,
        FORCED,
        SYNCED,
        CROSSED,
        HANDED,
        *([MIXED] if older.is_there() else []),
    )
}
