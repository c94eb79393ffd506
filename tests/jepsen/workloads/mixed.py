"""W14: workers of two versions of the package share their locks."""

from __future__ import annotations

from tests.jepsen.checkers.verdict import Facts
from tests.jepsen.workloads.locks import last_of_lock
from tests.jepsen.workloads.mutex import FENCED, section
from tests.jepsen.workloads.workload import Workload

MIXED = Workload(
    "mixed",
    "W14: a number under locks of all kinds, whose holders run two versions of the package",
    section,
    checkers=FENCED.checkers,
    objects=("plain-1", "exclusive-1", "fenced-1", "fair-1"),
    # The older version knows no other.
    topology="single",
    # Nor can it connect from an address of its own.
    without=frozenset({"own network"}),
    facts=Facts(settings={"older": True}),
    threads=False,
    last=last_of_lock,
)
