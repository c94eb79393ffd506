"""The client for threads: for Celery, Django, scripts, and functions that are not `async`.

    from redisson_py.sync import Redisson

    client = Redisson.from_url("redis://localhost:6379/0")

    with client.get_lock("k"):
        ...

The classes and methods are those of `redisson_py`, without `await`; the holder is the current
thread. The async client does the work, in the event loop of one background thread that all clients
of a process share and that starts with the first use.

The clients of other stores are in `redisson_py.sync.postgres`, `.mysql`, `.etcd` and `.zookeeper`.
"""

from redisson_py.sync._any_store import Locks
from redisson_py.sync._barrier import CyclicBarrier
from redisson_py.sync._blocks import HoldBlock
from redisson_py.sync._client import Redisson
from redisson_py.sync._composites import MultiLock, RedLock
from redisson_py.sync._election import Election
from redisson_py.sync._latch import CountDownLatch
from redisson_py.sync._leases import FencedLease, Leadership, Lease, Permit
from redisson_py.sync._lock_like import LockLike
from redisson_py.sync._lock_of import LockOf
from redisson_py.sync._locks import FairLock, FencedLock, RLock
from redisson_py.sync._observing import Observation
from redisson_py.sync._once import Once, OnceLease
from redisson_py.sync._options import RedissonOptions
from redisson_py.sync._permit_expirable_semaphore import PermitExpirableSemaphore
from redisson_py.sync._rate_limiter import RateLimiter
from redisson_py.sync._read_write_lock import ReadLock, ReadWriteLock, WriteLock
from redisson_py.sync._semaphore import Semaphore

__all__ = [
    # the client
    "Redisson",
    "RedissonOptions",
    # locks and what they give
    "FairLock",
    "FencedLease",
    "FencedLock",
    "HoldBlock",
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
    "Leadership",
    "Observation",
    # semaphores, rates, latch, barrier
    "CountDownLatch",
    "CyclicBarrier",
    "Permit",
    "PermitExpirableSemaphore",
    "RateLimiter",
    "Semaphore",
]

# Users import these from here, so this is where reprs and documentation should place them.
for _public in (
    Redisson,
    RedissonOptions,
    FairLock,
    FencedLease,
    FencedLock,
    HoldBlock,
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
    Leadership,
    Observation,
    CountDownLatch,
    CyclicBarrier,
    Permit,
    PermitExpirableSemaphore,
    RateLimiter,
    Semaphore,
):
    _public.__module__ = __name__
