"""The queue of the clients that wait for one thing: `lua/client_queue`, and what acquires share."""

from __future__ import annotations

from typing import NamedTuple

from redisson_py import _keys
from redisson_py._scripts import source
from redisson_py._scripts.source import Script

LEAVE = source.load("client_queue.leave")


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


def client_of(member: bytes) -> str:
    """Return the id of the client that has this name in a queue of clients."""
    return member.partition(b":")[0].decode(errors="replace")


class ClientQueue:
    """The queue of the clients that wait for what is at one key.

    Args:
        key: The key.
        channel: The channel on which releases are announced.
        suffix: What tells the waiters of one client for one key apart, if they want two things.
        leave_script: Takes a client out of it.
    """

    __slots__ = ("_channel", "_key", "_suffix", "leave_script")

    def __init__(
        self, key: bytes, channel: bytes, suffix: bytes = b"", leave_script: Script = LEAVE
    ) -> None:
        self.leave_script: Script = leave_script
        self._key = key
        self._channel = channel
        self._suffix = suffix

    def member(self, client_id: str) -> bytes:
        """Return the name of a client in the queue."""
        return client_id.encode() + self._suffix

    def channel(self, client_id: str) -> bytes:
        """Return the channel on which a client hears that it is called."""
        return self._channel + b":" + self.member(client_id)

    def leave(self, client_id: str) -> bytes:
        """Return the arguments of the script that takes a client out of the queue."""
        return self.leave_script.bind(
            lock=self._key,
            clients=_keys.waiting_clients(self._key),
            client=self.member(client_id),
            channel=self._channel,
        )
