"""Which members of a composite are one lock, as their servers name themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from redisson_py._engine.task_ownership import TaskOwnership
from redisson_py._redis.context import redis_of
from redisson_py._redis.identity import names_of
from redisson_py.locks.lock_like import LockLike


class MemberLock(NamedTuple):
    """A lock of a single server, and which member it is, or is part of.

    Attributes:
        is_shared: The member is made of several such locks.
    """

    number: int
    member: LockLike
    owner: TaskOwnership
    is_shared: bool


def database_names(owner: TaskOwnership) -> list[str]:
    """Return the names of the database of a member, at least one: two that share one are one.

    Two clients may know different nodes of a cluster, so no node names it for both.
    """
    address = owner.context.database
    number = address.rpartition("/")[2]
    return [f"{name}/{number}" for name in names_of(owner)] or [address]


def keys_of(locks: Sequence[MemberLock]) -> list[tuple[MemberLock, bytes]]:
    """Return where members are kept: each with each of its keys."""
    return [(lock, key) for lock in locks for key in lock.owner.view.keys]


def check_distinct(
    locks: Sequence[MemberLock], databases: Mapping[TaskOwnership, Sequence[str]]
) -> None:
    """Raise if two members are one lock, so that one would wait for the other.

    Args:
        locks: The locks of single servers that are members, or part of them.
        databases: The names of the database of each, if known; else it has its address.

    Raises:
        ValueError: They are.
    """
    known: dict[tuple[bytes, str], MemberLock] = {}
    for lock, key in keys_of(locks):
        owner = lock.owner
        for database in databases.get(owner, [owner.context.database]):
            other = known.setdefault((key, database), lock)
            # The task that holds a member of a red lock can enter it again by itself.
            reentered = other.owner.holds is owner.holds and (other.is_shared or lock.is_shared)
            if other.number == lock.number or reentered:
                continue
            raise ValueError(
                f"{other.member!r} and {lock.member!r} are the same lock in {_store_of(owner)}"
                f" ({other.owner.context.database}, {owner.context.database})"
            )


def _store_of(owner: TaskOwnership) -> str:
    """Return the title of the store that keeps a member."""
    context = owner.context
    return "Redis" if redis_of(context) is not None else context.database.partition(" at ")[0]
