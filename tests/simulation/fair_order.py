"""The queue of a fair lock, command by command: who came first is served first."""

from __future__ import annotations

from tests.simulation.network import Node

#: The lock, and the list of those that wait for it.
_LOCK, _QUEUE = b"k", b"redisson_lock_queue:{k}"

#: Milliseconds by which the script may round.
_ROUNDED_MS = 2


class FairOrder:
    """Knows the order in which owners entered the queue, and when each last asked.

    A place expires one `lease_time` after its owner's last request, by the server's clock.

    Args:
        node: The server.
        lease_time: That of all clients, in seconds.
    """

    def __init__(self, node: Node, lease_time: float) -> None:
        self._node = node
        self._lease_ms = lease_time * 1000
        self._places: list[bytes] = []
        self._holders: set[bytes] = set()
        self._asked_ms: dict[bytes, float] = {}

    def forget(self) -> None:
        """The server has lost its data."""
        self._places, self._holders = [], set()

    def executed(self, name: str, command: tuple[bytes, ...]) -> None:
        """Fail unless a command has left the queue, and given out the lock, as it may.

        Args:
            name: Of its script; empty if it ran none.
            command: All its words.
        """
        server, present = self._node.server, self._node.clock() / 1000
        args = command[3 + int(command[2]) :] if name else ()
        queue, holders = server.items(_QUEUE), set(server.hash(_LOCK))
        if name == "fair_lock.acquire" and args[5] != b"0":
            self._asked_ms[args[0]] = present
        elif name == "fair_lock.release" and args[0] in self._places:
            self._places.remove(args[0])
        for owner in holders - self._holders:
            self._check_grant(owner, present)
        lost = [
            owner
            for owner in self._places
            if owner not in queue and owner not in holders and self._is_alive(owner, present)
        ]
        assert not lost, f"{name} took the places of {lost}"
        kept = [owner for owner in self._places if owner in queue]
        assert queue[: len(kept)] == kept, f"{name} changed the order of {kept} to {queue}"
        self._places, self._holders = queue, holders

    def _check_grant(self, owner: bytes, present: float) -> None:
        place = self._places.index(owner) if owner in self._places else len(self._places)
        ahead = self._places[:place]
        waiting = [each for each in ahead if self._is_alive(each, present)]
        assert not waiting, f"{owner!r} was served before {waiting}"

    def _is_alive(self, owner: bytes, present: float) -> bool:
        return present - self._asked_ms[owner] < self._lease_ms - _ROUNDED_MS
