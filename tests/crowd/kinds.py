"""What clients wait for in a queue of clients: one name, of different kinds."""

from __future__ import annotations

import pytest

from redisson_py import FencedLock, PermitExpirableSemaphore, Redisson, RLock, Semaphore

ALL = ["lock", "fenced", "semaphore", "permits"]
#: For what does not depend on the kind but on which scripts there are.
TWO = ["lock", "semaphore"]

of_all = pytest.mark.parametrize("kind", ALL)
of_two = pytest.mark.parametrize("kind", TWO)


def of_kind(
    client: Redisson, kind: str
) -> RLock | FencedLock | Semaphore | PermitExpirableSemaphore:
    """Return the one `k` of a kind, which one client has at a time."""
    match kind:
        case "fenced":
            return client.get_fenced_lock("k")
        case "semaphore":
            return client.get_semaphore("k", 1)
        case "permits":
            return client.get_permit_expirable_semaphore("k", 1)
        case _:
            return client.get_lock("k")


def channel_of(kind: str) -> str:
    """Return where its releases are announced."""
    return "redisson_lock__channel:{k}" if kind in ("lock", "fenced") else "redisson_sc:{k}"
