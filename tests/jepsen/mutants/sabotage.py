"""What a sabotage is, and what catches it."""

from __future__ import annotations

from dataclasses import dataclass

from tests.jepsen.plan import Plan
from tests.mutants.listed import MUTANTS
from tests.mutants.mutant import Mutant

_LISTED = {mutant.name: mutant for mutant in MUTANTS}


@dataclass(frozen=True)
class Sabotage:
    """A mutant, the plan under which it shows, and the checker that must say so.

    Attributes:
        mutant: What is done to the package.
        plan: What is run, again and again with the next seed, until it is caught.
        checker: Who must catch it.
        limit: Seconds of running in which it must be caught.
        also: What is done besides, where two places guard the same.
    """

    mutant: Mutant
    plan: Plan
    checker: str
    limit: float = 60.0
    also: tuple[Mutant, ...] = ()

    @property
    def mutants(self) -> tuple[Mutant, ...]:
        """All that is done to the package."""
        return self.mutant, *self.also

    @property
    def name(self) -> str:
        """Its name."""
        return self.mutant.name

    @property
    def promise(self) -> str:
        """What does not hold any more."""
        return self.mutant.promise


def listed(name: str) -> Mutant:
    """Return a mutant that the suite must catch too."""
    return _LISTED[name]


def sabotage(name: str, promise: str, file: str, old: str, new: str) -> Mutant:
    """Return a mutant that only we have."""
    return Mutant(name, promise, file, old, new, ())
