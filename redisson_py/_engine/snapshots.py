"""Snapshots of holders, for people. The library decides nothing from them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HolderSnapshot:
    """A holder.

    Attributes:
        owner: The client's id and a number; in Redisson the number of a thread.
        holds: The hold count.
        remaining: Seconds left of its lease on the server; infinity if it has none.
        host: Its host name, if it is a client of this library.
        pid: Its process id, likewise.
        client_name: The name its client was given, likewise.
        task: The name of its task, if it is this client's own.
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
    """A lock as its server had it a moment ago.

    Attributes:
        holders: Its holders: at most one for an exclusive lock.
        waiters: The owners that wait, in order, where the server records them: for a fair lock of
            Redis, and in etcd and ZooKeeper. None: it does not, and `statistics()` counts the
            tasks of this client.
        keys: The keys it uses.
    """

    holders: tuple[HolderSnapshot, ...]
    waiters: tuple[str, ...] | None
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadWriteSnapshot(LockSnapshot):
    """A read-write lock as its server had it a moment ago.

    Attributes:
        writer: The holder that writes, if there is one; it may read as well.
        readers: The holders that read, each with what is left of its own lease; not those whose
            lease is over.
    """

    writer: HolderSnapshot | None
    readers: tuple[HolderSnapshot, ...]
