"""Which file of `redisson_py.sync` has which classes, and what it imports."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from redisson_py import _client, _options
from redisson_py._engine import hold
from redisson_py.barriers import barrier, latch
from redisson_py.composite import _ownership as composite
from redisson_py.composite import multi_lock, red_lock
from redisson_py.locks import lock, lock_like, read_write_lock, two_sides
from redisson_py.semaphores import permit, permit_expirable_semaphore, semaphore, semaphore_like


@dataclass
class File:
    """One generated file.

    Attributes:
        doc: Its docstring.
        imports: Its imports, beside those that every file has.
        classes: Of each class, the module it is from and its bases here.
        after: What stands at its end.
    """

    doc: str
    imports: str
    classes: list[tuple[ModuleType, str, str]]
    after: str = ""
    before: str = ""


FILES = {
    "_leases": File(
        "The handle of one acquisition.",
        """
        from types import TracebackType
        from typing import Any, Self, final

        from redisson_py import FencedLease as AsyncFencedLease
        from redisson_py import Lease as AsyncLease
        from redisson_py import Permit as AsyncPermit
        from redisson_py._keys import Name
        from redisson_py._time import Duration
        from redisson_py.sync._waiting import until_lost
        from redisson_py.sync._wrapping import LeaseWrapper, lease_kinds
        """,
        [
            (hold, "Lease", "LeaseWrapper"),
            (hold, "FencedLease", "Lease"),
            (permit, "Permit", "Lease"),
        ],
        "lease_kinds.update("
        "{AsyncLease: Lease, AsyncFencedLease: FencedLease, AsyncPermit: Permit})",
    ),
    "_lock_like": File(
        "The calls that every lock has: acquire, try, hold, release, look.",
        """
        from collections.abc import Callable
        from types import TracebackType
        from typing import TYPE_CHECKING, Any

        from redisson_py import LockSnapshot, PrimitiveStatistics
        from redisson_py._keys import Name
        from redisson_py._time import Duration
        from redisson_py.sync._blocks import Half, Holdable, HoldBlock, P, R
        from redisson_py.sync._decorating import decorate
        from redisson_py.sync._leases import Lease
        """,
        [(lock_like, "LockLike", "Holdable")],
    ),
    "_locks": File(
        "Locks of one server.",
        """
        from typing import TYPE_CHECKING, Any, final

        from redisson_py import LockSnapshot
        from redisson_py._time import Duration
        from redisson_py.sync._blocks import HoldBlock
        from redisson_py.sync._leases import FencedLease
        from redisson_py.sync._lock_like import LockLike
        """,
        [
            (lock, "ServerLock", "LockLike"),
            (lock, "RLock", "ServerLock"),
            (lock, "FencedLock", "ServerLock"),
            (lock, "FairLock", "ServerLock"),
        ],
    ),
    "_composites": File(
        "Locks made of several: MultiLock and RedLock.",
        """
        from typing import Any, final

        from redisson_py import JointSnapshot, PrimitiveStatistics
        from redisson_py._time import Duration
        from redisson_py.sync._leases import Lease
        from redisson_py.sync._lock_like import LockLike
        """,
        [
            (composite, "CompositeLock", "LockLike"),
            (multi_lock, "MultiLock", "CompositeLock"),
            (red_lock, "RedLock", "CompositeLock"),
        ],
    ),
    "_read_write_lock": File(
        "ReadWriteLock: many readers or one writer.",
        """
        from typing import TYPE_CHECKING, NoReturn, final

        from redisson_py import LockSnapshot, PrimitiveStatistics, ReadWriteSnapshot
        from redisson_py._keys import Name
        from redisson_py.sync._locks import ServerLock
        from redisson_py.sync._wrapping import Wrapper
        """,
        [
            (read_write_lock, "ReadLock", "ServerLock"),
            (read_write_lock, "WriteLock", "ServerLock"),
            (two_sides, "TwoSides", "Wrapper"),
            (read_write_lock, "ReadWriteLock", "TwoSides"),
        ],
    ),
    "_semaphore": File(
        "Semaphore: Redisson's counter of permits.",
        """
        from collections.abc import Callable
        from types import TracebackType
        from typing import TYPE_CHECKING, Any, final

        from redisson_py import PrimitiveStatistics, SemaphoreSnapshot
        from redisson_py._keys import Name
        from redisson_py._time import Duration
        from redisson_py.sync._blocks import Half, Holdable, HoldBlock, P, R
        from redisson_py.sync._decorating import decorate
        from redisson_py.sync._leases import Permit
        """,
        [
            (semaphore_like, "SemaphoreLike", "Holdable"),
            (semaphore, "Semaphore", "SemaphoreLike"),
        ],
    ),
    "_permit_expirable_semaphore": File(
        "PermitExpirableSemaphore: permits with ids.",
        """
        from collections.abc import Iterable
        from typing import Any, final

        from redisson_py import SemaphoreSnapshot
        from redisson_py._time import Duration
        from redisson_py.sync._blocks import HoldBlock
        from redisson_py.sync._leases import Permit
        from redisson_py.sync._semaphore import SemaphoreLike
        from redisson_py.sync._wrapping import shape_of
        """,
        [(permit_expirable_semaphore, "PermitExpirableSemaphore", "SemaphoreLike")],
    ),
    "_latch": File(
        "CountDownLatch: a count, and a wait until it has come to zero.",
        """
        from typing import Any, final

        from redisson_py import LatchSnapshot, PrimitiveStatistics
        from redisson_py._keys import Name
        from redisson_py._time import Duration
        from redisson_py.sync._wrapping import Wrapper
        """,
        [(latch, "CountDownLatch", "Wrapper")],
    ),
    "_barrier": File(
        "CyclicBarrier: parties that wait for each other, again and again.",
        """
        from types import TracebackType
        from typing import Any, final

        from redisson_py import BarrierSnapshot, PrimitiveStatistics
        from redisson_py._keys import Name
        from redisson_py._time import Duration
        from redisson_py.sync._wrapping import Wrapper
        """,
        [(barrier, "CyclicBarrier", "Wrapper")],
    ),
    "_client": File(
        "The client: makes everything else.",
        """
        import os
        from types import TracebackType
        from typing import TYPE_CHECKING, Any, Self, Unpack, final

        from redisson_py import ClientStatistics
        from redisson_py import Redisson as AsyncRedisson
        from redisson_py._keys import Name
        from redisson_py._time import Duration
        from redisson_py.locks.read_write_lock import Prefer
        from redisson_py.sync._barrier import CyclicBarrier
        from redisson_py.sync._client_like import ClientLike
        from redisson_py.sync._composites import MultiLock, RedLock
        from redisson_py.sync._latch import CountDownLatch
        from redisson_py.sync._lock_like import LockLike
        from redisson_py.sync._locks import FairLock, FencedLock, RLock, ServerLock
        from redisson_py.sync._options import RedissonOptions
        from redisson_py.sync._permit_expirable_semaphore import PermitExpirableSemaphore
        from redisson_py.sync._read_write_lock import ReadWriteLock
        from redisson_py.sync._semaphore import Semaphore

        if TYPE_CHECKING:
            from redis.asyncio import Redis, RedisCluster
        """,
        [(_client, "Redisson", "ClientLike")],
    ),
    "_options": File(
        "The options of a client.",
        """
        from collections.abc import Callable
        from typing import Literal, TypedDict

        from redisson_py import Listener, LostEvent
        from redisson_py._addresses import AddressMapping
        from redisson_py._keys import NameMapper
        from redisson_py._options import OnReleaseError, ShardedPubSub
        from redisson_py._time import Duration
        """,
        [(_options, "RedissonOptions", "TypedDict, total=False")],
        before='OnLost = Literal["raise"] | Callable[[LostEvent], object]',
    ),
}
