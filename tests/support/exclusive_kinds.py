"""The kinds of locks that exclude everybody else: what the contract runs over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py.locks.lock_like import LockLike

MakeLock = Callable[..., LockLike]


@dataclass(frozen=True)
class Kind:
    """A kind of lock-like thing.

    Attributes:
        make: Makes one on the key `k`: `make(client)`, or another with `make(client, "name")`.
        passes: Whether a hold goes from task to task here without a command.
        reentrant: Whether a task may acquire it again.
        suffix: What its field in Redis has after the owner.
        parts: Of how many other locks it is made; 0: of none.
    """

    make: MakeLock
    passes: bool = True
    reentrant: bool = True
    suffix: str = ""
    parts: int = 0

    @property
    def leases(self) -> int:
        """How many leases of locks one acquisition takes."""
        return max(1, self.parts)

    async def owners(self, redis: Redis) -> dict[str, int]:
        """Return the hold count of each owner, as the server has it."""
        found: Any = await redis.hgetall("k")
        found.pop(b"mode", None)
        return {
            name.decode().removesuffix(self.suffix): int(count) for name, count in found.items()
        }


def _three(client: Redisson, name: str = "k") -> LockLike:
    # Whatever is wrong with a name is found here.
    locks = [client.get_lock(name)]
    short = name if len(name) < 100 else "long"
    return client.get_multi_lock(*locks, *[client.get_lock(f"{short}-{n}") for n in (2, 3)])


KINDS: dict[str, Kind] = {
    "lock": Kind(lambda client, name="k": client.get_lock(name)),
    "non_reentrant_lock": Kind(
        lambda client, name="k": client.get_lock(name, reentrant=False), reentrant=False
    ),
    "fenced_lock": Kind(lambda client, name="k": client.get_fenced_lock(name)),
    "fair_lock": Kind(lambda client, name="k": client.get_fair_lock(name), passes=False),
    "write_lock": Kind(
        lambda client, name="k": client.get_read_write_lock(name).write_lock(), suffix=":write"
    ),
    "multi_lock_of_one": Kind(
        lambda client, name="k": client.get_multi_lock(client.get_lock(name)), parts=1
    ),
    "multi_lock_of_three": Kind(_three, parts=3),
}


#: The kinds that keep an owner of their own in Redis.
SINGLE = {name: kind for name, kind in KINDS.items() if not kind.parts}
