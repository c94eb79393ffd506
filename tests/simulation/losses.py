"""What servers have forgotten, and what that takes from those who rely on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

from redisson_py import Lease
from tests.simulation.kinds import Kind, members_of
from tests.simulation.network import Node


class Losses:
    """Knows which server lost whose hold: with all its data, or by force.

    Args:
        kind: What is held.
        nodes: The servers.
        time: The time of the simulation.

    Attributes:
        happened: Whether there was any.
    """

    def __init__(self, kind: Kind, nodes: Sequence[Node], time: Callable[[], float]) -> None:
        self._kind = kind
        self._nodes = nodes
        self._time = time
        self._emptied_at = dict.fromkeys(nodes, -math.inf)
        self._owners: dict[Node, set[str]] = {node: set() for node in nodes}
        self.happened = False

    def emptied(self, node: Node) -> None:
        """A server loses its data now, and with it what was asked for before."""
        self._emptied_at[node] = self._time()
        self.freed(node, self._kind.owners(node))

    def freed(self, node: Node, owners: Collection[str]) -> None:
        """A server has lost the holds of some owners."""
        self.happened = True
        self._owners[node].update(owner.removesuffix(":write") for owner in owners)

    def touches(self, lease: Lease, began: float) -> bool:
        """Return whether a server has lost what it granted of a lease that was asked for then."""
        return any(self._forgot(member, began) for member in members_of(lease))

    def protects(self, lease: Lease, began: float) -> bool:
        """Return whether the servers, all the same, keep everybody else away.

        A red lock is safe as long as the servers that forgot it, and those that have not granted
        it, are together fewer than a quorum.
        """
        if len(self._nodes) == 1:
            return not self.touches(lease, began)
        present, kind = self._time(), self._kind
        granted = [
            member
            for member in members_of(lease)
            if member._state == "held" and member._ends_at > present
        ]
        kept = sum(not self._forgot(member, began) for member in granted)
        return len(self._nodes) - kept < kind.quorum

    def _forgot(self, member: Lease, began: float) -> bool:
        node = self._kind.node_of(self._nodes, member)
        return began <= self._emptied_at[node] or member.owner in self._owners[node]

    def forgot(self, member: Lease, began: float) -> bool:
        """Return whether its server has lost one member of a lease."""
        return self.happened and self._forgot(member, began)
