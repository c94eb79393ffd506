"""The snapshot of a composite lock."""

from __future__ import annotations

from dataclasses import dataclass

from redisson_py._engine.snapshots import LockSnapshot


@dataclass(frozen=True, slots=True)
class JointSnapshot(LockSnapshot):
    """A composite lock, as its servers had it a moment ago.

    Attributes:
        members: What each member's server said, by name and server; an error as its text.
    """

    members: dict[str, LockSnapshot | str]
