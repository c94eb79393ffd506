"""Which file of `redisson_py.sync` has which classes."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from redisson_py import _client, _options
from redisson_py._engine import hold
from redisson_py.barriers import barrier, latch
from redisson_py.composite import _ownership as composite
from redisson_py.composite import multi_lock, red_lock
from redisson_py.locks import lock, lock_like, read_write_lock, two_sides
from redisson_py.semaphores import (
    permit,
    permit_expirable_semaphore,
    semaphore,
    semaphore_like,
    units_like,
)


@dataclass
class File:
    """One generated file.

    Attributes:
        doc: Its docstring.
        classes: Of each class, the module it is from and its bases here.
        before: What stands behind the imports, and `after` at the end.
    """

    doc: str
    classes: list[tuple[ModuleType, str, str]]
    before: str = ""
    after: str = ""


#: Of these each file keeps those that it uses; none imports itself.
IMPORTS = """
import os
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, TypedDict, Unpack, final
from redisson_py import BarrierSnapshot, ClientStatistics, JointSnapshot, LatchSnapshot, Listener
from redisson_py import LockSnapshot, LostEvent, PrimitiveStatistics, ReadWriteSnapshot
from redisson_py import SemaphoreSnapshot
from redisson_py import FencedLease as AsyncFencedLease
from redisson_py import Lease as AsyncLease
from redisson_py import Permit as AsyncPermit
from redisson_py import Redisson as AsyncRedisson
from redisson_py._addresses import AddressMapping
from redisson_py._arguments import explained
from redisson_py._keys import Name, NameMapper
from redisson_py._options import OnReleaseError, ShardedPubSub
from redisson_py._time import Duration
from redisson_py.locks.read_write_lock import Prefer
from redisson_py.sync._barrier import CyclicBarrier
from redisson_py.sync._blocks import Half, Holdable, HoldBlock, P, R
from redisson_py.sync._client_like import ClientLike
from redisson_py.sync._composites import MultiLock, RedLock
from redisson_py.sync._decorating import decorate
from redisson_py.sync._latch import CountDownLatch
from redisson_py.sync._leases import FencedLease, Lease, Permit
from redisson_py.sync._lock_like import LockLike
from redisson_py.sync._locks import FairLock, FencedLock, RLock, ServerLock
from redisson_py.sync._options import RedissonOptions
from redisson_py.sync._permit_expirable_semaphore import PermitExpirableSemaphore
from redisson_py.sync._read_write_lock import ReadWriteLock
from redisson_py.sync._semaphore import Semaphore, SemaphoreLike
from redisson_py.sync._waiting import until_lost
from redisson_py.sync._wrapping import LeaseWrapper, Wrapper, lease_kinds, shape_of
"""

FILES = {
    "_leases": File(
        "The handle of one acquisition.",
        [
            (hold, "Lease", "LeaseWrapper"),
            (hold, "FencedLease", "Lease"),
            (permit, "Permit", "Lease"),
        ],
        after="lease_kinds.update("
        "{AsyncLease: Lease, AsyncFencedLease: FencedLease, AsyncPermit: Permit})",
    ),
    "_lock_like": File(
        "The calls that every lock has: acquire, try, hold, release, look.",
        [(lock_like, "LockLike", "Holdable")],
    ),
    "_locks": File(
        "Locks of one server.",
        [
            (lock, "ServerLock", "LockLike"),
            (lock, "RLock", "ServerLock"),
            (lock, "FencedLock", "ServerLock"),
            (lock, "FairLock", "ServerLock"),
        ],
    ),
    "_composites": File(
        "Locks made of several: MultiLock and RedLock.",
        [
            (composite, "CompositeLock", "LockLike"),
            (multi_lock, "MultiLock", "CompositeLock"),
            (red_lock, "RedLock", "CompositeLock"),
        ],
    ),
    "_read_write_lock": File(
        "ReadWriteLock: many readers or one writer.",
        [
            (read_write_lock, "ReadLock", "ServerLock"),
            (read_write_lock, "WriteLock", "ServerLock"),
            (two_sides, "TwoSides", "Wrapper"),
            (read_write_lock, "ReadWriteLock", "TwoSides"),
        ],
    ),
    "_semaphore": File(
        "Semaphore: Redisson's counter of permits.",
        [
            (units_like, "UnitsLike", "Holdable"),
            (semaphore_like, "SemaphoreLike", "UnitsLike"),
            (semaphore, "Semaphore", "SemaphoreLike"),
        ],
    ),
    "_permit_expirable_semaphore": File(
        "PermitExpirableSemaphore: permits with ids.",
        [(permit_expirable_semaphore, "PermitExpirableSemaphore", "SemaphoreLike")],
    ),
    "_latch": File(
        "CountDownLatch: a count, and a wait until it has come to zero.",
        [(latch, "CountDownLatch", "Wrapper")],
    ),
    "_barrier": File(
        "CyclicBarrier: parties that wait for each other, again and again.",
        [(barrier, "CyclicBarrier", "Wrapper")],
    ),
    "_client": File(
        "The client: makes everything else.",
        [(_client, "Redisson", "ClientLike")],
        before="if TYPE_CHECKING:\n    from redis.asyncio import Redis, RedisCluster",
    ),
    "_options": File(
        "The options of a client.",
        [(_options, "RedissonOptions", "TypedDict, total=False")],
        before='OnLost = Literal["raise"] | Callable[[LostEvent], object]',
    ),
}
