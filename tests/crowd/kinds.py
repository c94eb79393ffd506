"""The kinds whose clients wait in a queue, all by the name `k`."""

from __future__ import annotations

from redisson_py import FencedLock, ReadLock, Redisson, RLock, WriteLock

Kind = RLock | FencedLock | ReadLock | WriteLock

#: Those of which one client after the other comes.
ONE_BY_ONE = ["lock", "fenced", "write"]


def of_kind(client: Redisson, kind: str) -> Kind:
    """Return that lock of a client."""
    if kind in ("read", "write"):
        both = client.get_read_write_lock("k")
        return both.read_lock() if kind == "read" else both.write_lock()
    return client.get_fenced_lock("k") if kind == "fenced" else client.get_lock("k")


def holding(client: Redisson, kind: str) -> Kind:
    """Return the lock that keeps clients of a kind waiting while it is held."""
    return of_kind(client, "write" if kind in ("read", "write") else "lock")
