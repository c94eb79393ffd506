"""What every lock-like thing must satisfy is written once and run over each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py._primitives.lock_like import LockLike

MakeLock = Callable[..., LockLike]

__all__ = ["KINDS", "Kind", "LockLike", "MakeLock", "passing", "single"]


@dataclass(frozen=True)
class Kind:
    """A kind of lock-like thing.

    Attributes:
        make: Makes one on the key `k`: `make(client)`, or another with `make(client, "name")`.
        passes: Whether a hold goes from task to task here without a command.
        reentrant: Whether a task may acquire it again.
        suffix: What its field in Redis has after the owner.
        joint: Whether it is made of other locks.
    """

    make: MakeLock
    passes: bool = True
    reentrant: bool = True
    suffix: str = ""
    joint: bool = False

    async def owners(self, redis: Redis) -> dict[str, int]:
        """Return the hold count of each owner, as the server has it."""
        found: Any = await redis.hgetall("k")
        found.pop(b"mode", None)
        return {
            name.decode().removesuffix(self.suffix): int(count) for name, count in found.items()
        }


KINDS: dict[str, Kind] = {
    "lock": Kind(lambda client, name="k": client.get_lock(name)),
    "non_reentrant_lock": Kind(
        lambda client, name="k": client.get_lock(name, reentrant=False), reentrant=False
    ),
    "fenced_lock": Kind(lambda client, name="k": client.get_fenced_lock(name)),
}

#: The kinds that keep an owner of their own in Redis.
SINGLE = {name: kind for name, kind in KINDS.items() if not kind.joint}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    """A kind of lock-like thing."""
    return KINDS[request.param]


@pytest.fixture
def make_lock(kind: Kind) -> MakeLock:
    """Make a lock of this kind: `make_lock(client, "name")`."""
    return kind.make


@pytest.fixture
def lock(client: Redisson, make_lock: MakeLock) -> LockLike:
    """One lock of this kind."""
    return make_lock(client)


single = pytest.mark.parametrize("kind", SINGLE.values(), ids=SINGLE)
"""For tests that look at the owner in Redis."""

passing = pytest.mark.parametrize(
    "kind",
    [kind for kind in SINGLE.values() if kind.passes],
    ids=[name for name, kind in SINGLE.items() if kind.passes],
)
"""For tests of what is passed from task to task."""
