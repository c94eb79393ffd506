"""The snapshot of a composite lock."""

from __future__ import annotations

from dataclasses import dataclass

from redisson_py._engine.snapshots import LockSnapshot


@dataclass(frozen=True, slots=True)
class JointSnapshot(LockSnapshot):
    """A composite lock on its servers, a moment ago.

    Attributes:
        members: What each member's server reported, by name and server; errors as text.
    """

    members: dict[str, LockSnapshot | str]
