"""Which file of `redisson_py.sync` has which classes."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from redisson_py import _client, _options, etcd, mysql, postgres, zookeeper
from redisson_py._engine import hold
from redisson_py._stores import client as store_client
from redisson_py._stores import locks as store_locks
from redisson_py._stores import options as store_options
from redisson_py._stores import read_write_lock as store_read_write_lock
from redisson_py._stores import semaphore as store_semaphore
from redisson_py._stores import semaphore_mutex
from redisson_py.barriers import barrier, latch
from redisson_py.composite import _ownership as composite
from redisson_py.composite import multi_lock, red_lock
from redisson_py.locks import (
    election,
    lock,
    lock_like,
    lock_of,
    locks,
    once,
    read_write_lock,
    two_sides,
)
from redisson_py.rates import rate_limiter
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


def _exports(module: ModuleType) -> str:
    """Return what a module for threads exports: what the async one does."""
    ours = f"__all__ = {module.__all__!r}"
    functions = ", ".join(each for each in module.__all__ if each.endswith("schema_sql"))
    return f"from {module.__name__} import {functions}\n\n{ours}" if functions else ours


#: Of these each file keeps those that it uses; none imports itself.
IMPORTS = """
import os
from collections.abc import Callable, Coroutine, Generator, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, Protocol, Self, TypedDict
from typing import TypeVar, Unpack, final
from redisson_py import BarrierSnapshot, ClientStatistics, JointSnapshot, LatchSnapshot, Listener
from redisson_py import LockSnapshot, LostEvent, OnceSnapshot, PrimitiveStatistics
from redisson_py import Admission, Leader, RateLimit, RateLimiterSnapshot, ReadWriteSnapshot
from redisson_py import SemaphoreSnapshot
from redisson_py import FencedLease as AsyncFencedLease
from redisson_py import Leadership as AsyncLeadership
from redisson_py import Lease as AsyncLease
from redisson_py import OnceLease as AsyncOnceLease
from redisson_py import MultiLock as AsyncMultiLock
from redisson_py import Permit as AsyncPermit
from redisson_py import RedLock as AsyncRedLock
from redisson_py import Redisson as AsyncRedisson
from redisson_py._addresses import AddressMapping
from redisson_py._arguments import explained
from redisson_py._keys import Name, NameMapper
from redisson_py._options import OnReleaseError, ShardedPubSub
from redisson_py._time import Duration
from redisson_py.etcd import Etcd as AsyncEtcd
from redisson_py.locks.read_write_lock import Prefer
from redisson_py.mysql import MySQL as AsyncMySQL
from redisson_py.postgres import Postgres as AsyncPostgres
from redisson_py.postgres import PostgresFencedLease as AsyncPostgresFencedLease
from redisson_py.postgres import PostgresLease as AsyncPostgresLease
from redisson_py.zookeeper import ZooKeeper as AsyncZooKeeper
from redisson_py.sync._barrier import CyclicBarrier
from redisson_py.sync._blocks import Half, Holdable, HoldBlock, P, R
from redisson_py.sync._client_like import ClientLike
from redisson_py.sync._composites import MultiLock, RedLock
from redisson_py.sync._decorating import decorate
from redisson_py.sync._election import Election
from redisson_py.sync._guarding import complete, entered, guard_transaction
from redisson_py.sync._latch import CountDownLatch
from redisson_py.sync._leases import FencedLease, Leadership, Lease, Permit
from redisson_py.sync._lock_like import LockLike
from redisson_py.sync._lock_of import LockOf
from redisson_py.sync._locks import FairLock, FencedLock, RLock, ServerLock
from redisson_py.sync._observing import Observation
from redisson_py.sync._once import Once
from redisson_py.sync._options import OnLost, RedissonOptions
from redisson_py.sync._permit_expirable_semaphore import PermitExpirableSemaphore
from redisson_py.sync._rate_limiter import RateLimiter
from redisson_py.sync._read_write_lock import ReadWriteLock
from redisson_py.sync._semaphore import Semaphore, SemaphoreLike, UnitsLike
from redisson_py.sync._store_client import StoreClient
from redisson_py.sync._store_locks import FencedStoreLock, StoreLock, StoreReadLock
from redisson_py.sync._store_locks import StoreReadWriteLock, StoreSemaphoreMutex, StoreWriteLock
from redisson_py.sync._store_semaphore import StoreSemaphore
from redisson_py.sync._store_options import StoreOptions
from redisson_py.sync._two_sides import TwoSides
from redisson_py.sync._waiting import until_lost
from redisson_py.sync._wrapping import LeaseWrapper, Wrapper, lease_kinds, shape_of
"""

FILES = {
    "_leases": File(
        "The handle of one acquisition.",
        [
            (hold, "Lease", "LeaseWrapper"),
            (hold, "FencedLease", "Lease"),
            (election, "Leadership", "FencedLease"),
            (permit, "Permit", "Lease"),
        ],
        after="lease_kinds.update({AsyncLease: Lease, AsyncFencedLease: FencedLease,"
        " AsyncLeadership: Leadership, AsyncPermit: Permit})",
    ),
    "_election": File(
        "Election: one leader, whose value everybody can read.",
        [(election, "Election", "Wrapper")],
    ),
    "_lock_like": File(
        "The calls that every lock has: acquire, try, hold, release, look.",
        [(lock_like, "LockLike", "Holdable")],
    ),
    "_lock_of": File(
        "Locks whose leases are of a subclass of `Lease`.",
        [(lock_of, "LockOf", "LockLike, Generic[L_co]")],
        before='L_co = TypeVar("L_co", bound=Lease, covariant=True)',
    ),
    "_locks": File(
        "Locks of one server.",
        [
            (lock, "ServerLock", "LockLike"),
            (lock, "RLock", "ServerLock"),
            (lock, "FencedLock", "LockOf[FencedLease], ServerLock"),
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
    "_once": File(
        "Once: something is carried out once, and all get its result.",
        [
            (once, "OnceLease", "FencedLease"),
            (once, "Once", "LockOf[OnceLease]"),
        ],
        after="lease_kinds.update({AsyncOnceLease: OnceLease})",
    ),
    "_two_sides": File(
        "The base of read-write locks.",
        [(two_sides, "TwoSides", "Wrapper, Generic[Read, Write]")],
        before='Read = TypeVar("Read", bound=LockLike)\nWrite = TypeVar("Write", bound=LockLike)',
    ),
    "_read_write_lock": File(
        "ReadWriteLock: many readers or one writer.",
        [
            (read_write_lock, "ReadLock", "ServerLock"),
            (read_write_lock, "WriteLock", "ServerLock"),
            (read_write_lock, "ReadWriteLock", "TwoSides[ReadLock, WriteLock]"),
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
    "_rate_limiter": File(
        "RateLimiter: so many units in any interval.",
        [(rate_limiter, "RateLimiter", "Wrapper")],
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
    "_any_store": File(
        "The interface of clients that make locks, on any store.",
        [(locks, "Locks", "Protocol")],
    ),
    "_store_options": File(
        "The options of the clients of stores other than Redis.",
        [(store_options, "StoreOptions", "TypedDict, total=False")],
    ),
    "_store_locks": File(
        "The locks of stores other than Redis.",
        [
            (store_locks, "StoreLock", "LockLike"),
            (store_locks, "FencedStoreLock", "LockOf[FencedLease], StoreLock"),
            (store_read_write_lock, "StoreReadLock", "StoreLock"),
            (store_read_write_lock, "StoreWriteLock", "StoreLock"),
            (
                store_read_write_lock,
                "StoreReadWriteLock",
                "TwoSides[StoreReadLock, StoreWriteLock]",
            ),
            (semaphore_mutex, "StoreSemaphoreMutex", "StoreLock"),
        ],
    ),
    "_store_semaphore": File(
        "The semaphore of a store other than Redis.",
        [(store_semaphore, "StoreSemaphore", "UnitsLike")],
    ),
    "_store_client": File(
        "The client of a store other than Redis.",
        [(store_client, "StoreClient", "ClientLike")],
    ),
    "postgres": File(
        "Locks in PostgreSQL, for threads: `Postgres`, the client. It needs the extra `postgres`.",
        [
            (postgres, "_Guarding", "Lease"),
            (postgres, "PostgresLease", "_Guarding"),
            (postgres, "PostgresFencedLease", "_Guarding, FencedLease"),
            (postgres, "PostgresLock", "LockOf[PostgresLease], StoreLock"),
            (postgres, "PostgresFencedLock", "LockOf[PostgresFencedLease], StoreLock"),
            (postgres, "Postgres", "StoreClient"),
        ],
        before=_exports(postgres),
        after="lease_kinds.update(\n{AsyncPostgresLease: PostgresLease,"
        " AsyncPostgresFencedLease: PostgresFencedLease})",
    ),
    "mysql": File(
        "Locks in MariaDB, for threads; MySQL untested: `MySQL`, the client. It needs the extra"
        " `mysql`.",
        [(mysql, "MySQL", "StoreClient")],
        before=_exports(mysql),
    ),
    "etcd": File(
        "Locks in etcd, for threads: `Etcd`, the client. It needs the extra `etcd`.",
        [(etcd, "Etcd", "StoreClient")],
        before=_exports(etcd),
    ),
    "zookeeper": File(
        "Locks in ZooKeeper, for threads: `ZooKeeper`, the client. It needs the extra `zookeeper`.",
        [(zookeeper, "ZooKeeper", "StoreClient")],
        before=_exports(zookeeper),
    ),
}
