"""The interface of clients that make locks, on any store.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from typing import Protocol

from redisson_py._keys import Name
from redisson_py.sync._leases import FencedLease
from redisson_py.sync._lock_like import LockLike
from redisson_py.sync._lock_of import LockOf


class Locks(Protocol):
    """A client that makes locks: `Redisson`, or the client of another store.

    Annotate with it code that works with any of `Redisson`,
    `redisson_py.sync.postgres.Postgres`, `redisson_py.sync.mysql.MySQL`,
    `redisson_py.sync.etcd.Etcd` and `redisson_py.sync.zookeeper.ZooKeeper`. It has the methods
    that all of them have.
    """

    def get_lock(self, name: Name, *, reentrant: bool = True) -> LockLike:
        """Return the reentrant lock `name`; with `reentrant=False`, one that refuses re-entry.

        Raises:
            TypeError: The name is neither str nor bytes.
            ValueError: The name is empty, longer than 4 KiB, or the store cannot keep it.
        """
        ...

    def get_fenced_lock(self, name: Name) -> LockOf[FencedLease]:
        """Return the lock `name` whose leases carry a fencing token; errors as for `get_lock`."""
        ...

    def close(self) -> None:
        """Release what is still held, fail all waiters, and disconnect. Idempotent."""
        ...
