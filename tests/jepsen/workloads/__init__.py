"""What the workers do: one module for each kind of thing."""

from __future__ import annotations

from tests.jepsen import older
from tests.jepsen.workloads import (
    adopted,
    churn,
    composite,
    elections,
    handed,
    leases,
    locks,
    opening,
    read_write,
    reentrant,
    semaphore,
)
from tests.jepsen.workloads.workload import Workload

#: Every workload that this clone can run, by its name.
WORKLOADS: dict[str, Workload] = {
    each.name: each
    for module in (
        *(
            locks,
            reentrant,
            read_write,
            semaphore,
            opening,
            composite,
            churn,
            handed,
            leases,
            elections,
            adopted,
        ),
    )
    for each in vars(module).values()
    if isinstance(each, Workload) and (each is not locks.MIXED or older.is_there())
}
