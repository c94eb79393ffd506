"""What the workers do: one module a workload."""

from __future__ import annotations

from tests.jepsen.workloads.mutex import FENCED, MUTEX
from tests.jepsen.workloads.workload import Workload

#: Every workload by its name.
WORKLOADS: dict[str, Workload] = {each.name: each for each in (MUTEX, FENCED)}
