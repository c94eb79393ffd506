"""Locks in ZooKeeper, for threads: `ZooKeeper`, the client. It needs the extra `zookeeper`.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from typing import Self, Unpack, final

from redisson_py import Leader, ReadWriteSnapshot
from redisson_py._arguments import explained
from redisson_py._keys import Name
from redisson_py.sync._election import Election
from redisson_py.sync._leases import Leadership
from redisson_py.sync._store_client import StoreClient
from redisson_py.sync._store_locks import (
    StoreLock,
    StoreReadLock,
    StoreReadWriteLock,
    StoreSemaphoreMutex,
    StoreWriteLock,
)
from redisson_py.sync._store_options import StoreOptions
from redisson_py.zookeeper import ZooKeeper as AsyncZooKeeper

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

    A lock is Curator's `InterProcessMutex`, a read-write lock its `InterProcessReadWriteLock`,
    a semaphore mutex its `InterProcessSemaphoreMutex`, an election its `LeaderSelector`.
    kazoo's own `Lock` excludes none of them.

    Use it as `with ZooKeeper.from_url(...) as store`, or construct it anywhere, such as in a
    module, and call `close()` in the end; nothing starts or connects until first use. Locks,
    threads, forks and the end of the interpreter are as for `redisson_py.sync.Redisson`. A name
    that is a path, as `/locks/orders`, is that path; any other is below `/redisson_py`.

    Promised: at any instant at most one owner holds a lock, also through the failure of a
    minority of the servers; a holder's own view ends before the session does. ZooKeeper serves
    clients in the order in which it saw them come. The token is the transaction that created
    the holder's node.

    Not promised: that ZooKeeper ends a `lease_time` of one acquisition: this client does, and
    if its process stops, the end of its session does. The timeout of that session is four
    thirds of the client's `lease_time`, which the servers must allow: 40 seconds by default.

    Cost: uncontended one round trip for an acquire, two for a `try_acquire`, and one for a
    release.
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
            on_lost: A function that is called with the `LostEvent` of each lost lease, in a thread
                that all clients share: it may block, and use the client. `"raise"` calls nothing.
                In both cases the body of a block runs on, and `LeaseLostError` is raised at its
                end. Default: "raise"
            turn: Seconds for which a contended lock is passed among this client's threads before
                other processes get a chance; 0 never passes it. Default: 0.01
            command_timeout: Seconds for which a call without a timeout of its own waits for a
                server that does not answer; at most 30. Default: 5
            acquire_timeout: The `timeout` of every acquire that has none; None waits without end.
                Default: None
            on_release_error: What a block does when its release gets no answer: `"log"` logs a
                warning and ends normally, because the work was protected; `"raise"` raises
                `ReleaseFailedError`. Default: "log"
            listener: A `Listener`, which is called with acquisitions, waits, losses and outages, in
                the thread of the event loop: its methods must not block. Default: None

        Raises:
            TypeError: The URL is no str, an option has the wrong type, or does not exist.
            ValueError: The URL or an option is not usable.
        """
        self = cls.__new__(cls)
        self._build(AsyncZooKeeper.from_url, url, options)
        return self

    @explained
    def get_semaphore_mutex(self, name: Name) -> StoreSemaphoreMutex:
        """Return the semaphore mutex `name`, a lock that refuses re-entry; errors as `get_lock`.

        It shares its path with Curator's `InterProcessSemaphoreMutex`, and costs three round trips
        for an acquire. Its leases have no fencing token.
        """
        return StoreSemaphoreMutex(lambda of: of(self).get_semaphore_mutex(name))

    @explained
    def get_read_write_lock(self, name: Name) -> StoreReadWriteLock:
        """Return the read-write lock `name`: many readers or one writer; errors as for `get_lock`.

        It shares its path with Curator's `InterProcessReadWriteLock`. Its leases have no fencing
        token.
        """
        return StoreReadWriteLock(lambda of: of(self).get_read_write_lock(name))

    @explained
    def get_election(self, name: Name) -> Election:
        """Return the election `name` of a leader with a value; errors as for `get_lock`.

        It shares its path with Curator's `LeaderSelector`, whose participants publish their id. A
        value has at most a million bytes. A lock of the same name has the same nodes, so its holder
        is a leader with its owner as the value.
        """
        return Election(lambda of: of(self).get_election(name))
