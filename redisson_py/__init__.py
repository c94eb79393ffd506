"""Coordination for asyncio services on Redis, on Redisson's wire protocol.

How a lock is acquired, step by step:

1. `RLock.acquire` (`locks/lock_like`) checks its arguments and calls the ownership of its name
   (`_engine/task_ownership`), which looks up what the current task holds. A task that holds the
   lock already re-enters under the same owner.
2. Otherwise the task joins the local queue: the tasks of this client that want the same lock
   (`_engine/local_queue`). The head of the queue asks Redis; the others sleep until a hold is
   passed to them or they become the head.
3. The head sends one acquire request under a new owner (`_engine/request`): one script
   (`lua/lock/acquire.lua`, packed and decoded by `_commands/lock`) on the ordered stream
   (`_stream`) to the server of its key. Granted: one round trip in all. A task that need not wait
   for anything here takes these steps in one (`begin` and `first_lease` of the ownership).
   With several servers a router (`_topology`) picks the stream, and takes what waits, seats and
   holds along when another server takes over; with `sync_replicas` grants have a stream of their
   own, on which replicas confirm them.
4. Busy: the waiting loop (`_engine/waiting`) takes a seat (`_engine/wakeups`, `_engine/bus`).
   SUBSCRIBE and the next request leave in one write, and the task sleeps until a message, the end
   of the holder's lease, its deadline or the safety poll.
5. Granted, a `Hold` (`_engine/hold`) records what Redis granted, and nothing else writes its
   state. The watchdog (`_engine/watchdog`) renews it in batches and knows by the local clock
   when it must be treated as lost. The task gets a `Lease` (`_engine/lease`).
6. `async with` makes that lease the property of its block (`_engine/block`). If the lease is lost,
   the body is cancelled and the block raises `LeaseLostError`.
7. Released (`_engine/ownership`), the hold is passed to the next task in the local queue without
   a command, or given back by `lua/lock/release.lua`, which publishes the message that wakes one
   waiter in each process.

Semaphores, read-write locks and composites take the same steps with other commands
(`_commands`) and other ownerships (`semaphores/_ownership`, `composite/_ownership`).

The engine knows no store: `_engine/server` says what it needs of one. Redis is one. PostgreSQL,
MySQL, etcd and ZooKeeper are others (`postgres`, `mysql`, `etcd`, `zookeeper`): there step 3 is a
call of a `_stores/contract.Store`, and 4 a ring of its bell.
"""

# First: from then on, a fork waits for the imports below.
from redisson_py import _forks as _forks
from redisson_py import errors
from redisson_py._client import Redisson
from redisson_py._engine.lease import FencedLease, Lease
from redisson_py._engine.snapshots import HolderSnapshot, LockSnapshot, ReadWriteSnapshot
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
from redisson_py.locks.anywhere import Locks
from redisson_py.locks.lock import FairLock, FencedLock, RLock
from redisson_py.locks.lock_like import LockLike
from redisson_py.locks.lock_of import LockOf
from redisson_py.locks.read_write_lock import ReadLock, ReadWriteLock, WriteLock
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
    "RLock",
    "ReadLock",
    "ReadWriteLock",
    "RedLock",
    "WriteLock",
    # semaphores, latch, barrier
    "CountDownLatch",
    "CyclicBarrier",
    "Permit",
    "PermitExpirableSemaphore",
    "Semaphore",
    # looking
    "BarrierSnapshot",
    "HolderSnapshot",
    "JointSnapshot",
    "LatchSnapshot",
    "LockSnapshot",
    "PartySnapshot",
    "PrimitiveStatistics",
    "ReadWriteSnapshot",
    "SemaphoreSnapshot",
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
    RLock,
    ReadLock,
    ReadWriteLock,
    RedLock,
    WriteLock,
    CountDownLatch,
    CyclicBarrier,
    Permit,
    PermitExpirableSemaphore,
    Semaphore,
    BarrierSnapshot,
    HolderSnapshot,
    JointSnapshot,
    LatchSnapshot,
    LockSnapshot,
    PartySnapshot,
    ReadWriteSnapshot,
    SemaphoreSnapshot,
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
