"""The queue of a fair lock or an election, command by command: who came first is served first."""

from __future__ import annotations

from tests.lifecycle.subjects import BESIDE_OWNERS
from tests.simulation.network import Node

#: The lock, and the list of those that wait for it.
_LOCK, _QUEUE = b"k", b"redisson_lock_queue:{k}"

#: Which of its arguments, after the owner, is the name under which it waits, by script.
_ENTRY_INDEX = {
    "fair_lock.acquire": 5,
    "election.acquire": 4,
    "fair_lock.release": 4,
    "election.release": 3,
}

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
        self._order: list[bytes] = []
        self._holders: set[bytes] = set()
        #: By owner: the name under which it waits.
        self._waits_as: dict[bytes, bytes] = {}
        #: By that name.
        self._asked_ms: dict[bytes, float] = {}

    def forget(self) -> None:
        """The server has lost its data."""
        self._order, self._holders = [], set()

    def executed(self, name: str, command: tuple[bytes, ...]) -> None:
        """Fail unless a command has left the queue, and given out the lock, as it may.

        Args:
            name: Of its script; empty if it ran none.
            command: All its words.
        """
        server, present = self._node.server, self._node.clock() / 1000
        args = command[3 + int(command[2]) :] if name else ()
        queue, holders = server.items(_QUEUE), set(server.hash(_LOCK)).difference(BESIDE_OWNERS)
        entry = args[_ENTRY_INDEX[name]] if name in _ENTRY_INDEX else b""
        if name.endswith(".acquire") and entry != b"0":
            waiter = self._waits_as[args[0]] = _waiter(args[0], entry)
            self._asked_ms[waiter] = present
        elif name.endswith(".release") and (waiter := _waiter(args[0], entry)) in self._order:
            self._order.remove(waiter)
        granted = [self._waits_as.get(owner, owner) for owner in holders - self._holders]
        for waiter in granted:
            self._check_grant(waiter, present)
        lost = [
            waiter
            for waiter in self._order
            if waiter not in queue and waiter not in granted and self._is_alive(waiter, present)
        ]
        assert not lost, f"{name} took the places of {lost}"
        kept = [waiter for waiter in self._order if waiter in queue]
        assert queue[: len(kept)] == kept, f"{name} changed the order of {kept} to {queue}"
        self._order, self._holders = queue, holders

    def _check_grant(self, waiter: bytes, present: float) -> None:
        index = self._order.index(waiter) if waiter in self._order else len(self._order)
        ahead = self._order[:index]
        waiting = [each for each in ahead if self._is_alive(each, present)]
        assert not waiting, f"{waiter!r} was served before {waiting}"

    def _is_alive(self, waiter: bytes, present: float) -> bool:
        return present - self._asked_ms[waiter] < self._lease_ms - _ROUNDED_MS


def _waiter(owner: bytes, entry: bytes) -> bytes:
    """Return the name under which an owner waits; see fair_lock.acquire."""
    return owner if entry == b"1" else entry
