"""From a seed to what it simulates."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tests.lifecycle.subjects import SUBJECTS
from tests.simulation.kinds import KINDS
from tests.simulation.lifecycles import Lifecycle
from tests.simulation.simulation import Simulation
from tests.simulation.universe import Universe

#: What can be simulated: processes that use one kind of thing under faults, and lifecycles of the
#: state machine.
_LIFE = "-lifecycle"
NAMES = [*KINDS, *(f"{kind}{_LIFE}" for kind in SUBJECTS)]


class Simulated(Protocol):
    """What one seed simulates."""

    simulation: Simulation

    @property
    def grants(self) -> int:
        """How many leases were granted."""

    def run(self) -> None:
        """Run it to its end; raise an error if something happens that must not."""


def name_of(seed: int) -> str:
    """Return what a seed simulates if nobody says so: each in turn."""
    return NAMES[seed % len(NAMES)]


def simulated(seed: int, name: str | None = None) -> Simulated:
    """Return what a seed simulates."""
    name = name or name_of(seed)
    if name.endswith(_LIFE):
        return Lifecycle(seed, name.removesuffix(_LIFE))
    return Universe(seed, name)


@dataclass(frozen=True)
class Outcome:
    """What came of one seed.

    Attributes:
        grants: How many leases were granted.
        failure: What must not have happened, in words; empty if nothing did.
    """

    seed: int
    name: str
    grants: int
    failure: str = ""


def outcome_of(seed: int, name: str | None = None) -> Outcome:
    """Run a seed, whatever comes of it."""
    made = simulated(seed, name)
    failure = ""
    try:
        made.run()
    except Exception as error:
        failure = "".join(traceback.format_exception(error))
    return Outcome(seed, name or name_of(seed), made.grants, failure)


def repeat_command(seed: int, name: str) -> str:
    """Return the command that shows a seed again."""
    return f"python -m tests.simulation --verbose {seed} --kind {name}"


def run_batch(seeds: Sequence[int], name: str | None) -> list[Outcome]:
    """Run some seeds; stop at the first failure."""
    outcomes: list[Outcome] = []
    for seed in seeds:
        outcomes.append(outcome_of(seed, name))
        if len(outcomes) == 1:
            # What was imported, or is kept for all seeds, is no garbage: without this each
            # collection would look at all of it.
            gc.collect()
            gc.freeze()
        if outcomes[-1].failure:
            break
    return outcomes
