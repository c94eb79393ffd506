"""Coordination for asyncio services on Redis, on Redisson's wire protocol.

How a lock is acquired, step by step:

1. `RLock.acquire` checks its arguments and looks up what the current task holds (`_owner`).
   A task that holds the lock already re-enters under the same owner.
2. Otherwise it stands in the line of this client's tasks for that lock (`_handoff`). Alone
   in line, it asks at once; else it sleeps until a hold is passed to it or it is the head.
3. It asks (`_waiting`): one script (`lua/lock/acquire.lua`) under a new owner, on the one
   ordered stream (`_stream`). Granted: one round trip in all.
4. Busy: it takes a seat (`_wakeups`), SUBSCRIBE and the next question leave in one write, and
   it sleeps until a message, the end of the holder's lease, its deadline or the safety poll.
5. Granted, the hold is registered with the watchdog (`_lease`), which renews it in batches
   and knows by the local clock when it must be treated as lost; then it marks the `Lease`,
   cancels the body of the block and raises `LeaseLostError` from it.
6. Released, the hold is passed to the next in line without a command, or given back by
   `lua/lock/release.lua`, which publishes the message that wakes one waiter a process.
"""

from redisson_py import errors
from redisson_py._client import Redisson
from redisson_py._engine.inspecting import HolderSnapshot, LockSnapshot
from redisson_py._engine.lease import Lease
from redisson_py._statistics import ClientStatistics, PrimitiveStatistics
from redisson_py.barriers.barrier import BarrierSnapshot, CyclicBarrier, PartySnapshot
from redisson_py.barriers.latch import CountDownLatch, LatchSnapshot
from redisson_py.composite._ownership import JointSnapshot
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
    ReplicationError,
    ScriptError,
    UnsupportedServerError,
)
from redisson_py.locks.lock import FairLock, FencedLock, RLock
from redisson_py.locks.read_write_lock import ReadLock, ReadWriteLock, ReadWriteSnapshot, WriteLock
from redisson_py.semaphores.permit import Permit
from redisson_py.semaphores.permit_expirable_semaphore import PermitExpirableSemaphore
from redisson_py.semaphores.semaphore import Semaphore
from redisson_py.semaphores.semaphore_like import SemaphoreSnapshot

__version__ = "0.1.0"

__all__ = [
    # the client
    "ClientStatistics",
    "Redisson",
    # locks and what they give
    "FairLock",
    "FencedLock",
    "Lease",
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
    "ReplicationError",
    "ScriptError",
    "UnsupportedServerError",
]

# Users import these from here, so this is where reprs and documentation should place them.
for _public in (
    ClientStatistics,
    Redisson,
    FairLock,
    FencedLock,
    Lease,
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
):
    _public.__module__ = __name__
