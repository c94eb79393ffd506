"""Locks, semaphores, latches and barriers for asyncio services on Redis and Valkey.

    import asyncio

    from redisson_py import Redisson

    async def main():
        async with Redisson.from_url("redis://localhost:6379/0") as client:
            async with client.get_lock("orders:17"):
                ...  # at most one task, in one process, on one host
            async with client.get_lock("orders:17").hold(timeout=5):
                ...  # AcquireTimeoutError if it was busy for 5 seconds

    asyncio.run(main())

What there is:

- `Redisson`: the client, with a `get_...` method for each of the following. Its docstring lists the
  options and their defaults.
- Locks: `RLock`, `FencedLock`, `FairLock`, `ReadWriteLock`, `MultiLock`, `RedLock`. All have the
  methods of `LockLike`. An acquire returns a `Lease`.
- `Once`: carries something out once, and remembers the result.
- `Election`: one leader, whose value everybody can read.
- `Semaphore` and `PermitExpirableSemaphore`, `CountDownLatch`, `CyclicBarrier`.
- `RateLimiter`: so many units in any interval. It says with an `Admission` when to retry.
- `redisson_py.errors`: every error, all of them a `RedissonError`.
- `Listener`: called with what a client does.
- `redisson_py.sync`: the same classes for threads.
- `redisson_py.postgres`, `.mysql`, `.etcd`, `.zookeeper`: locks in other stores.
- `redisson_py.testing`: servers for your tests.

Read on in docs/: tutorials/first-lock.md to begin, which.md to choose, using.md for everyday use
and a table of options, safety.md for what is promised and what is not.
"""

# First: from then on, a fork waits for the imports below.
from redisson_py import _forks as _forks
from redisson_py import errors
from redisson_py._client import Redisson
from redisson_py._engine.hold import FencedLease, Lease
from redisson_py._engine.snapshots import (
    HolderSnapshot,
    LockSnapshot,
    ReadWriteSnapshot,
    WaiterSnapshot,
)
from redisson_py._listener import (
    AcquiredEvent,
    ConnectionLostEvent,
    ConnectionRestoredEvent,
    Listener,
    Listeners,
    LostEvent,
    ReleasedEvent,
    RenewedLateEvent,
    WaitEndedEvent,
    WaitStartedEvent,
)
from redisson_py._options import RedissonOptions
from redisson_py._statistics import ClientStatistics, PrimitiveStatistics
from redisson_py.barriers.barrier import BarrierSnapshot, CyclicBarrier, PartySnapshot
from redisson_py.barriers.latch import CountDownLatch, LatchSnapshot
from redisson_py.composite._snapshot import JointSnapshot
from redisson_py.composite.multi_lock import MultiLock
from redisson_py.composite.red_lock import RedLock
from redisson_py.errors import (
    AcquireTimeoutError,
    BackendError,
    BrokenBarrierError,
    ClientClosedError,
    ConnectionLostError,
    LeaseLostError,
    NotHeldError,
    QuorumError,
    RedissonError,
    ReleaseFailedError,
    ReplicationError,
    ScriptError,
    UnsupportedServerError,
)
from redisson_py.locks.election import Election, Leader, Leadership
from redisson_py.locks.lock import FairLock, FencedLock, RLock
from redisson_py.locks.lock_like import LockLike
from redisson_py.locks.lock_of import LockOf
from redisson_py.locks.locks import Locks
from redisson_py.locks.once import Once, OnceLease, OnceSnapshot
from redisson_py.locks.read_write_lock import ReadLock, ReadWriteLock, WriteLock
from redisson_py.rates.rate_limiter import (
    Admission,
    RateLimit,
    RateLimiter,
    RateLimiterSnapshot,
)
from redisson_py.semaphores.permit import Permit
from redisson_py.semaphores.permit_expirable_semaphore import PermitExpirableSemaphore
from redisson_py.semaphores.semaphore import Semaphore
from redisson_py.semaphores.semaphore_like import SemaphoreSnapshot

__version__ = "0.1.0"

__all__ = [
    # the client
    "ClientStatistics",
    "Redisson",
    "RedissonOptions",
    # locks and what they give
    "FairLock",
    "FencedLease",
    "FencedLock",
    "Lease",
    "LockLike",
    "LockOf",
    "Locks",
    "MultiLock",
    "Once",
    "OnceLease",
    "RLock",
    "ReadLock",
    "ReadWriteLock",
    "RedLock",
    "WriteLock",
    # an election
    "Election",
    "Leader",
    "Leadership",
    # semaphores, rates, latch, barrier
    "Admission",
    "CountDownLatch",
    "CyclicBarrier",
    "Permit",
    "PermitExpirableSemaphore",
    "RateLimit",
    "RateLimiter",
    "Semaphore",
    # looking
    "BarrierSnapshot",
    "HolderSnapshot",
    "JointSnapshot",
    "LatchSnapshot",
    "LockSnapshot",
    "OnceSnapshot",
    "PartySnapshot",
    "PrimitiveStatistics",
    "RateLimiterSnapshot",
    "ReadWriteSnapshot",
    "SemaphoreSnapshot",
    "WaiterSnapshot",
    # listening
    "AcquiredEvent",
    "ConnectionLostEvent",
    "ConnectionRestoredEvent",
    "Listener",
    "Listeners",
    "LostEvent",
    "ReleasedEvent",
    "RenewedLateEvent",
    "WaitEndedEvent",
    "WaitStartedEvent",
    # errors
    "errors",
    "AcquireTimeoutError",
    "BackendError",
    "BrokenBarrierError",
    "ClientClosedError",
    "ConnectionLostError",
    "LeaseLostError",
    "NotHeldError",
    "QuorumError",
    "RedissonError",
    "ReleaseFailedError",
    "ReplicationError",
    "ScriptError",
    "UnsupportedServerError",
]

# Users import these from here, so this is where reprs and documentation should place them.
for _public in (
    ClientStatistics,
    Redisson,
    RedissonOptions,
    FairLock,
    FencedLease,
    FencedLock,
    Lease,
    LockLike,
    LockOf,
    Locks,
    MultiLock,
    Once,
    OnceLease,
    RLock,
    ReadLock,
    ReadWriteLock,
    RedLock,
    WriteLock,
    Election,
    Leader,
    Leadership,
    Admission,
    CountDownLatch,
    CyclicBarrier,
    Permit,
    PermitExpirableSemaphore,
    RateLimit,
    RateLimiter,
    Semaphore,
    BarrierSnapshot,
    HolderSnapshot,
    JointSnapshot,
    LatchSnapshot,
    LockSnapshot,
    OnceSnapshot,
    PartySnapshot,
    RateLimiterSnapshot,
    ReadWriteSnapshot,
    SemaphoreSnapshot,
    WaiterSnapshot,
    PrimitiveStatistics,
    AcquiredEvent,
    ConnectionLostEvent,
    ConnectionRestoredEvent,
    Listener,
    Listeners,
    LostEvent,
    ReleasedEvent,
    RenewedLateEvent,
    WaitEndedEvent,
    WaitStartedEvent,
):
    _public.__module__ = __name__
