"""What one run is; the same plan makes the same choices."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from tests.jepsen.checkers.verdict import Assumption, Facts
from tests.jepsen.field import Need
from tests.jepsen.nemeses import NEMESES
from tests.jepsen.workloads import WORKLOADS

_FILE = "plan.json"
#: Characters of the names of nemeses in the name of a folder.
_LONGEST = 150

#: Seconds after which a hand-off was slow, where nothing strikes what wakes waiters: less than a
#: lease, whose end would wake them too.
WAKE_BOUND = 0.3
_HEALTHY = frozenset({"kill", "pause", "block", "cancel"})


def needs_of(nemeses: Iterable[str]) -> frozenset[Need]:
    """Return what nemeses need that strike together."""
    return frozenset(need for name in nemeses for need in NEMESES[name].needs)


@dataclass(frozen=True)
class Plan:
    """What is run.

    Attributes:
        workload: What the workers do.
        nemeses: What strikes, all at the same time.
        topology: The servers.
        seconds: For how long the nemeses strike.
        seed: Of every choice.
    """

    workload: str
    nemeses: tuple[str, ...]
    topology: str
    seconds: float
    seed: int

    @property
    def command(self) -> str:
        """The command that repeats it."""
        return (
            f'make jepsen ARGS="--workload {self.workload} --nemesis {self.nemesis}'
            f' --topology {self.topology} --seconds {self.seconds:g} --seed {self.seed}"'
        )

    @property
    def nemesis(self) -> str:
        """The nemeses, as on the command line."""
        return ",".join(self.nemeses) or "none"

    @property
    def title(self) -> str:
        """What tells it from other plans, in a few words; also a name for its folder."""
        nemesis = self.nemesis
        if len(nemesis) > _LONGEST:
            # A file system takes names of 255 bytes.
            digest = hashlib.sha256(nemesis.encode()).hexdigest()[:8]
            nemesis = f"{len(self.nemeses)}-nemeses-{digest}"
        return f"{self.workload}+{nemesis}+{self.topology}+{self.seed}".replace(" ", "-")

    @property
    def needs(self) -> frozenset[Need]:
        """What its nemeses need."""
        return needs_of(self.nemeses)

    @staticmethod
    def breaks_by(nemesis: str) -> frozenset[Assumption]:
        """Return the assumptions that a strike of this name breaks."""
        known = NEMESES.get(nemesis)
        return known.breaks if known else frozenset()

    @property
    def facts(self) -> Facts:
        """What the checkers must know of it, if all its nemeses strike."""
        broken = frozenset[Assumption]().union(*map(self.breaks_by, self.nemeses))
        healthy = _HEALTHY.issuperset(self.nemeses)
        return replace(
            WORKLOADS[self.workload].facts,
            broken=broken,
            wake_bound=WAKE_BOUND if healthy else None,
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Self:
        """Return what `to_json` returned."""
        return cls(**{**found, "nemeses": tuple(found["nemeses"])})

    def save(self, folder: Path) -> None:
        """Write it where the histories of its run will be."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _FILE).write_text(json.dumps(self.to_json()) + "\n", "utf-8")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Return the plan whose histories are in a folder."""
        return cls.from_json(json.loads((folder / _FILE).read_text("utf-8")))


def is_kept(folder: Path) -> bool:
    """Return whether a folder has the histories of a run."""
    return (folder / _FILE).exists()
