"""Snapshots of holders, for people. The library decides nothing from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Holding: TypeAlias = Literal["held", "handed over", "kept"]
"""How a holder has a lock; see `HolderSnapshot.state`."""


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
        state: "held"; of a lock of Redis also "handed over", if its owner has given it away and
            nobody has adopted it yet, or "kept", if its owner has left and a `min_hold` keeps the
            name taken. Neither is renewed.
    """

    owner: str
    holds: int
    remaining: float
    host: str | None = None
    pid: int | None = None
    client_name: str | None = None
    task: str | None = None
    state: Holding = "held"


@dataclass(frozen=True, slots=True)
class WaiterSnapshot:
    """Who waits, as Redis knows it.

    Attributes:
        owner: The id of a client that waits, with one of its tasks or with many; for a fair lock
            the client's id and a number for each task, or of Redisson's clients each thread.
        waited: Seconds since it began to wait; None for a fair lock, where nothing records it.
        called: Seconds since a release called it, if it has not answered yet; else None.
        host: Its host name, if it is a client of this library.
        pid: Its process id, if it is a client of this library.
        client_name: Its client's `client_name`, if it is a client of this library.
    """

    owner: str
    waited: float | None = None
    called: float | None = None
    host: str | None = None
    pid: int | None = None
    client_name: str | None = None


@dataclass(frozen=True, slots=True)
class LockSnapshot:
    """A lock on its server, a moment ago.

    Attributes:
        holders: Its holders: at most one for an exclusive lock.
        waiters: Who waits, in order, where the server records it: owners for a fair lock of Redis,
            and in etcd and ZooKeeper; ids of clients for an `RLock`, a `FencedLock` and a
            read-write lock of Redis. None: it does not, and `statistics()` counts the tasks of
            this client.
        keys: The keys it uses.
        waiting: The first hundred of them in detail, in Redis; elsewhere nothing.
    """

    holders: tuple[HolderSnapshot, ...]
    waiters: tuple[str, ...] | None
    keys: tuple[str, ...]
    waiting: tuple[WaiterSnapshot, ...] = field(default=(), kw_only=True)


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
