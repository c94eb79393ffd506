"""Which nemeses may strike at once, and where."""

from __future__ import annotations

from collections.abc import Iterable

from tests.jepsen.nemeses import NEMESES
from tests.jepsen.topologies import PROVIDES


def obstacle(topology: str, names: Iterable[str]) -> str:
    """Return why a topology cannot bear these nemeses at once; empty if it can.

    Everything else may be mixed: what would spoil the undoing of another one waits for its turn
    (`Field.turn`).
    """
    chosen = [NEMESES[name] for name in names]
    for each in chosen:
        if missing := each.needs - PROVIDES[topology]:
            return f"{topology} has no {', '.join(sorted(missing))} for {each.name}"
        for other in chosen:
            if excluded := each.excludes & other.needs:
                return f"{each.name} goes with no {', '.join(sorted(excluded))}, as {other.name}"
    return ""


def alone(topology: str) -> list[str]:
    """Return the nemeses that a topology can bear one at a time."""
    return [name for name in NEMESES if not obstacle(topology, [name])]


def everything(topology: str) -> list[str]:
    """Return the nemeses that a topology can bear at once, as many as possible."""
    found: list[str] = []
    # Those that exclude others come last.
    for name in sorted(alone(topology), key=lambda name: len(NEMESES[name].excludes)):
        if not obstacle(topology, [*found, name]):
            found.append(name)
    return found
