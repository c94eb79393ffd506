"""The queue of the clients that wait for one thing: `lua/client_queue`, and what acquires share."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from redisson_py import _keys
from redisson_py._redis.scripts import source
from redisson_py._redis.scripts.shapes import Array, Element, array, text, whole
from redisson_py._redis.scripts.source import Script

LEAVE = source.load("client_queue.leave")
LEAVE_UNITS = source.load("client_queue.leave_units")


class Waits(NamedTuple):
    """Who waits: a client, or for a fair lock an owner.

    Attributes:
        owner: The client's id, or the owner.
        waited: Seconds since it began to wait, if that is known.
        called: Seconds since it was called, if it was and has not answered.
    """

    owner: str
    waited: float | None = None
    called: float | None = None


_WAITING = array(rows=(text, whole(0), whole(-1)))


def look(first: tuple[Element, ...], holder: tuple[Element, ...]) -> Array:
    """Return what takes the look at something for which clients wait.

    After the first words comes how many follow for the holders; behind those comes who waits.
    """
    start, head, holders = len(first) + 1, array(*first, whole(0)), array(rows=holder)

    def takes(reply: list[Any]) -> bool:
        if not head(reply[:start]) or reply[start - 1] > len(reply) - start:
            return False
        end = start + reply[start - 1]
        return holders(reply[start:end]) and _WAITING(reply[end:])

    return takes


def waits(reply: list[Any], suffix: bytes = b"") -> list[Waits]:
    """Return who waits, from that: those whose names end so."""
    rows = zip(reply[::3], reply[1::3], reply[2::3], strict=True)
    return [
        Waits(client_of(member), waited / 1000, None if called < 0 else called / 1000)
        for member, waited, called in rows
        if member.endswith(suffix)
    ]


def client_of(member: bytes) -> str:
    """Return the id of the client that has this name in a queue of clients."""
    return member.partition(b":")[0].decode(errors="replace")


class Leaves(Protocol):
    """Sends the script that takes a client out of a queue."""

    def leave(self, clients: ClientQueue, client_id: str, *, closing: bool) -> None: ...


class ClientQueue:
    """The queue of the clients that wait for what is at one key.

    Args:
        key: The key.
        channel: The channel on which releases are announced.
        suffix: What tells the waiters of one client for one key apart, if they want two things.
        leave_script: Takes a client out of it.
    """

    __slots__ = ("_channel", "_suffix", "key", "leave_script")

    def __init__(
        self, key: bytes, channel: bytes, suffix: bytes = b"", leave_script: Script = LEAVE
    ) -> None:
        self.leave_script: Script = leave_script
        self.key: bytes = key
        self._channel = channel
        self._suffix = suffix

    def member(self, client_id: str) -> bytes:
        """Return the name of a client in the queue."""
        return client_id.encode() + self._suffix

    def channel(self, client_id: str) -> bytes:
        """Return the channel on which a client hears that it is called."""
        return self._channel + b":" + self.member(client_id)

    def leave(self, server: Leaves, client_id: str, *, closing: bool) -> None:
        """Take a client out of the queue, without waiting."""
        server.leave(self, client_id, closing=closing)

    def left(self, client_id: str) -> bytes:
        """Return the arguments of the script that takes a client out of the queue."""
        return self.leave_script.bind(
            lock=self.key,
            clients=_keys.waiting_clients(self.key),
            client=self.member(client_id),
            channel=self._channel,
        )


class UnitQueue(ClientQueue):
    """The queue of the clients that wait for units of a semaphore.

    Args:
        key: The key of the counter.
        channel: The channel on which releases are announced.
        suffix: What tells the waiters of one client for one key apart, if they want two things.
        units: How many units the client wants; its name says so if it is not one.
    """

    __slots__ = ()

    def __init__(self, key: bytes, channel: bytes, suffix: bytes = b"", units: int = 1) -> None:
        own = suffix if units == 1 else b"%s:%d" % (suffix, units)
        super().__init__(key, channel, own, LEAVE_UNITS)

    def left(self, client_id: str) -> bytes:
        """Return the arguments of the script that takes a client out of the queue."""
        return LEAVE_UNITS.bind(
            counter=self.key,
            clients=_keys.waiting_clients(self.key),
            client=self.member(client_id),
            channel=self._channel,
        )
