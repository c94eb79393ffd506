"""What every lock-like thing must satisfy is written once and run over each of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from redisson_py import FencedLock, Redisson, RLock

LockLike = RLock | FencedLock
MakeLock = Callable[..., LockLike]

_FACTORIES: dict[str, MakeLock] = {
    "lock": lambda client, name="k": client.get_lock(name),
    "non_reentrant_lock": lambda client, name="k": client.get_lock(name, reentrant=False),
    "fenced_lock": lambda client, name="k": client.get_fenced_lock(name),
}


@pytest.fixture(params=_FACTORIES)
def make_lock(request: pytest.FixtureRequest) -> MakeLock:
    """Make a lock of this kind: `make_lock(client, "name")`."""
    return _FACTORIES[request.param]


@pytest.fixture
def lock(client: Redisson, make_lock: MakeLock) -> LockLike:
    """One lock of this kind."""
    return make_lock(client)
