"""The kinds whose clients wait in a queue, all by the name `k`."""

from __future__ import annotations

import pytest

from redisson_py import (
    FencedLock,
    PermitExpirableSemaphore,
    ReadLock,
    Redisson,
    RLock,
    Semaphore,
    WriteLock,
)

Kind = RLock | FencedLock | ReadLock | WriteLock | Semaphore | PermitExpirableSemaphore

#: Those of which one client after the other comes.
ONE_BY_ONE = ["lock", "fenced", "write", "semaphore", "permits"]

each_kind = pytest.mark.parametrize("kind", [*ONE_BY_ONE, "read"])
one_by_one = pytest.mark.parametrize("kind", ONE_BY_ONE)
#: For what does not depend on the kind, but on its queue.
each_queue = pytest.mark.parametrize("kind", ["lock", "write", "read", "semaphore"])
one_by_one_queues = pytest.mark.parametrize("kind", ["lock", "write", "semaphore"])


def of_kind(client: Redisson, kind: str) -> Kind:
    """Return that one of a client."""
    match kind:
        case "fenced":
            return client.get_fenced_lock("k")
        case "read":
            return client.get_read_write_lock("k").read_lock()
        case "write":
            return client.get_read_write_lock("k").write_lock()
        case "semaphore":
            return client.get_semaphore("k", 1)
        case "permits":
            return client.get_permit_expirable_semaphore("k", 1)
        case _:
            return client.get_lock("k")


def holding(client: Redisson, kind: str) -> Kind:
    """Return what keeps clients of a kind waiting while it is held."""
    return of_kind(client, "write" if kind == "read" else kind)


def channel_of(kind: str) -> str:
    """Return where its releases are announced."""
    if kind in ("read", "write"):
        return "redisson_rwlock:{k}"
    return "redisson_lock__channel:{k}" if kind in ("lock", "fenced") else "redisson_sc:{k}"
