"""Snapshots of holders, for people. The library decides nothing from them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HolderSnapshot:
    """A holder.

    Attributes:
        owner: The client's id and a number; in Redisson the number of a thread.
        holds: The hold count.
        remaining: Seconds left of its lease on the server; infinity if the lease has no end.
        host: Its host name, if it is a client of this library.
        pid: Its process id, if it is a client of this library.
        client_name: Its client's `client_name`, if it is a client of this library.
        task: The name of its task, if it belongs to this client.
    """

    owner: str
    holds: int
    remaining: float
    host: str | None = None
    pid: int | None = None
    client_name: str | None = None
    task: str | None = None


@dataclass(frozen=True, slots=True)
class LockSnapshot:
    """A lock on its server, a moment ago.

    Attributes:
        holders: Its holders: at most one for an exclusive lock.
        waiters: The waiting owners, where the server records them (only in fair queues).
        keys: The keys it uses.
    """

    holders: tuple[HolderSnapshot, ...]
    waiters: tuple[str, ...]
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadWriteSnapshot(LockSnapshot):
    """A read-write lock on its server, a moment ago.

    Attributes:
        writer: The holder that writes, if there is one; it may also read.
        readers: The holders that read, each with the rest of its own lease; without those whose
            lease is over.
    """

    writer: HolderSnapshot | None
    readers: tuple[HolderSnapshot, ...]
