"""Locks in ZooKeeper: `ZooKeeper`, the client. It needs the extra `zookeeper`."""

from __future__ import annotations

from functools import partial
from typing import Self, Unpack, final

from redisson_py._arguments import explained
from redisson_py._engine.snapshots import ReadWriteSnapshot
from redisson_py._keys import Name
from redisson_py._stores.client import StoreClient
from redisson_py._stores.election import ElectionInStore
from redisson_py._stores.extras import needs
from redisson_py._stores.locks import StoreLock
from redisson_py._stores.options import StoreOptions
from redisson_py._stores.read_write_lock import StoreReadLock, StoreReadWriteLock, StoreWriteLock
from redisson_py._stores.semaphore_mutex import StoreSemaphoreMutex, semaphore_mutex_ownership
from redisson_py.locks.election import Election, Leader, Leadership

#: The session's timeout, in leases: a server hears late of a client's signs of life, and grants no
#: more than the rest.
_SESSION = 4 / 3

with needs("zookeeper"):
    from redisson_py._stores.zookeeper.store import ZooKeeperStore

__all__ = [
    "Election",
    "Leader",
    "Leadership",
    "ReadWriteSnapshot",
    "StoreLock",
    "StoreOptions",
    "StoreReadLock",
    "StoreReadWriteLock",
    "StoreSemaphoreMutex",
    "StoreWriteLock",
    "ZooKeeper",
]


@final
class ZooKeeper(StoreClient):
    """Makes locks that ZooKeeper (3.5 or newer) keeps, and shares them with Curator.

    A lock is Curator's `InterProcessMutex`, a read-write lock its `InterProcessReadWriteLock`, a
    semaphore mutex its `InterProcessSemaphoreMutex`, an election its `LeaderSelector`. kazoo's own
    `Lock` excludes none of them.

    Use it as `async with ZooKeeper.from_url(...) as store`, or call `aclose()` in the end; nothing
    connects until first use. A name that is a path, as `/locks/orders`, is that path; any other is
    below `/redisson_py`.

    Promised: at any instant at most one owner holds a lock, also through the failure of a minority
    of the servers; a holder's own view ends before the session does. ZooKeeper serves clients in
    the order in which it saw them come. The token is the transaction that created the holder's
    node.

    Not promised: that ZooKeeper ends a `lease_time` of one acquisition: this client does, and if
    its process stops, or its event loop is blocked, the end of its session does. The timeout of
    that session is four thirds of the client's `lease_time`, which the servers must allow: 40
    seconds by default.

    Cost: uncontended one round trip for an acquire, two for a `try_acquire`, and one for a release.
    """

    @classmethod
    def from_url(cls, url: str, **options: Unpack[StoreOptions]) -> Self:
        """Return a client of the ensemble that `url` names; nothing connects yet.

        Args:
            url: `zookeeper://host1:2181,host2:2181/chroot`. No error quotes it.
            lease_time: Seconds for which the watchdog keeps a lock; it renews it every third of
                that. Shorter: the lock of a crashed process is free sooner. Longer: locks survive
                longer outages, of up to two thirds of it. Default: 30
            prefix: Text that is put before every name. Default: ""
            name_mapper: A function from a name to its key; instead of `prefix`. Default: None
            on_lost: What a block does when its lease is lost: `"cancel"` cancels its body,
                `"raise"` lets the body run on and raises `LeaseLostError` at its end. Default:
                "cancel"
            turn: Seconds for which a contended lock is passed among this client's tasks before
                other processes get a chance; 0 never passes it. Default: 0.01
            command_timeout: Seconds for which a call without a timeout of its own waits for a
                server that does not answer; at most 30. Default: 5
            acquire_timeout: The `timeout` of every acquire that has none; None waits without end.
                Default: None
            on_release_error: What a block does when its release gets no answer: `"log"` logs a
                warning and ends normally, because the work was protected; `"raise"` raises
                `ReleaseFailedError`. Default: "log"
            listener: A `Listener`, which is called with acquisitions, waits, losses and outages.
                Default: None

        Raises:
            TypeError: The URL is no str, an option has the wrong type, or does not exist.
            ValueError: The URL or an option is not usable.
        """
        return cls(
            lambda lease_time: ZooKeeperStore.from_url(url, lease_time * _SESSION, lease_time),
            options,
        )

    @explained
    def get_semaphore_mutex(self, name: Name) -> StoreSemaphoreMutex:
        """Return the semaphore mutex `name`, a lock that refuses re-entry; errors as `get_lock`.

        It shares its path with Curator's `InterProcessSemaphoreMutex`, and costs three round trips
        for an acquire. Its leases have no fencing token.
        """
        make = partial(semaphore_mutex_ownership, self._context)
        return StoreSemaphoreMutex(make, name)

    @explained
    def get_read_write_lock(self, name: Name) -> StoreReadWriteLock:
        """Return the read-write lock `name`: many readers or one writer; errors as for `get_lock`.

        It shares its path with Curator's `InterProcessReadWriteLock`. Its leases have no fencing
        token.
        """
        return StoreReadWriteLock(self._context, name)

    @explained
    def get_election(self, name: Name) -> Election:
        """Return the election `name` of a leader with a value; errors as for `get_lock`.

        It shares its path with Curator's `LeaderSelector`, whose participants publish their id. A
        value has at most a million bytes. A lock of the same name has the same nodes, so its holder
        is a leader with its owner as the value.
        """
        store = self._store
        assert isinstance(store, ZooKeeperStore)
        make = partial(ElectionInStore, self._context, self._executor, store)
        return Election(self._context, name, make)
