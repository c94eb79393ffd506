"""The kinds of things of a universe: how to make one, and what the servers say of a hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from redisson_py import Lease, Redisson
from redisson_py._engine.task_ownership import TaskOwnership
from tests.lifecycle.subjects import (
    BESIDE_OWNERS,
    PERMITS,
    SUBJECTS,
    SemaphoreSubject,
    Subject,
)
from tests.simulation.network import Node
from tests.support.streams import stream_of_member

#: Servers of a red lock.
RED_SERVERS = 5


class Kind:
    """What the workers of a universe use, on the key `k` or `semaphore`.

    Attributes:
        name: Of the kind.
        subject: How it is acquired.
        servers: On how many servers it is.
        quorum: How many members must have a hold.
        composite: Whether it has several members.
        is_meeting: It is a latch or a barrier: nobody holds it.
    """

    def __init__(self, name: str, subject: Subject, servers: int = 1, quorum: int = 1) -> None:
        self.name = name
        self.subject = subject
        self.servers = servers
        self.quorum = quorum
        self.composite = quorum > 1
        self.is_meeting = not subject.keys

    def make(self, clients: Sequence[Redisson], side: str) -> Any:
        """Return one for the clients of a process, one client for each server."""
        if self.servers == 1:
            return self.subject.make(clients[0], side)
        return clients[0].get_red_lock(*[each.get_lock("k") for each in clients])

    def problem_of(self, nodes: Sequence[Node], lease: Lease, side: str) -> str:
        """Return why a holder must not rely on a lease; empty if its server has it for longer."""
        node = self.node_of(nodes, lease)
        left = self._seconds_left(node, lease, side) / node.rate
        if lease.remaining <= left:
            return ""
        key = lease._hold.ownership.commands.key.decode()
        return f"{node} has {lease.owner} in {key} for {left:.6f} s more"

    def count_problem_of(self, nodes: Sequence[Node], lease: Lease) -> str:
        """Return how the hold count of a client differs from the server's; empty if it does not.

        While a change is under way, or may arrive late, they may differ.
        """
        hold = lease._hold
        if self.subject.is_semaphore or hold.unsettled or hold.reentries or not hold.valid:
            return ""
        server = self.node_of(nodes, lease).server
        found = server.hash(hold.ownership.commands.key).get(hold.field)
        there, here = int(found or 0), hold.count
        return "" if there == here else f"its client counts {here} holds, and the server {there}"

    def node_of(self, nodes: Sequence[Node], member: Lease) -> Node:
        """Return the server of a lease that is no composite."""
        return nodes[0] if len(nodes) == 1 else _node_of(nodes, member)

    def keeps(self, nodes: Sequence[Node], lease: Lease, side: str) -> bool:
        """Return whether enough servers have a lease that nobody else gets it."""
        members = members_of(lease)
        kept = sum(
            self._seconds_left(self.node_of(nodes, member), member, side) > 0 for member in members
        )
        return kept >= min(self.quorum, len(members))

    def _seconds_left(self, node: Node, lease: Lease, side: str) -> float:
        """Return for how long a server has a hold, by its clock; none: nothing."""
        server, key = node.server, lease._hold.ownership.commands.key
        owner = lease.owner.encode() + (b":write" if side == "write" else b"")
        if not self.subject.is_semaphore:
            left = server.ttl_ms(key) / 1000 if owner in server.hash(key) else 0.0
            return max(0.0, left)
        if self.name == "semaphore":
            end = server.scores(b"{%s}:redisson_py:permits" % key).get(owner)
        else:
            permit: Any = lease
            end = server.scores(b"{%s}:timeout" % key).get(bytes.fromhex(permit.id))
        return 0.0 if end is None else end / 1000 - node.clock() / 1e6

    def taken(self, nodes: Sequence[Node]) -> bool:
        """Return whether a server has any hold."""
        return any(self.owners(node) for node in nodes)

    def owners(self, node: Node) -> list[str]:
        """Return the owners of all holds that a server has, or the ids of permits."""
        server, found = node.server, list[bytes]()
        for key in map(str.encode, self.subject.keys):
            if not self.subject.is_semaphore:
                found += [field for field in server.hash(key) if field not in BESIDE_OWNERS]
            else:
                suffix = b"redisson_py:permits" if self.name == "semaphore" else b"timeout"
                scores = server.scores(b"{%s}:%s" % (key, suffix)).items()
                # Those that have ended by themselves are there until somebody looks.
                held = [permit for permit, end in scores if end > node.clock() / 1000]
                found += held if self.name == "semaphore" else [p.hex().encode() for p in held]
        return [field.decode() for field in found]


#: Parties of the barrier.
PARTIES = 3

#: What tasks meet at, and do not hold.
_MEETINGS: dict[str, Callable[[Redisson, str], Any]] = {
    "latch": lambda client, side: client.get_latch("latch"),
    "barrier": lambda client, side: client.get_barrier("barrier", PARTIES),
}


def members_of(lease: Lease) -> Sequence[Lease]:
    """Return the leases that a lease is made of: itself, if it is no composite."""
    return getattr(lease, "_members", None) or (lease,)


def _node_of(nodes: Sequence[Node], member: Lease) -> Node:
    """Return the server of one lease of a red lock."""
    ownership = member._hold.ownership
    assert isinstance(ownership, TaskOwnership)
    where = stream_of_member(ownership).where
    return next(node for node in nodes if f"{node.address[0]}:{node.address[1]}" == where)


def _kinds() -> dict[str, Kind]:
    kinds = {name: Kind(name, each, 1, each.leases) for name, each in SUBJECTS.items()}
    red = Subject(lambda client, side: None)
    kinds["red_lock"] = Kind("red_lock", red, RED_SERVERS, RED_SERVERS // 2 + 1)
    for name, make in _MEETINGS.items():
        kinds[name] = Kind(name, Subject(make, keys=(), releases=False))
    return kinds


#: All of them, by name.
KINDS = _kinds()

__all__ = ["KINDS", "PERMITS", "Kind", "SemaphoreSubject"]
