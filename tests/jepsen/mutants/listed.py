"""The sabotages: what is done, under what it shows, and which checker must say so."""

from __future__ import annotations

from tests.jepsen.mutants.sabotage import Sabotage, listed
from tests.jepsen.plan import Plan

SABOTAGES = (
    Sabotage(
        listed("no owner check in acquire"),
        Plan("mutex", (), "single", 3, 1),
        "mutual exclusion",
    ),
)
