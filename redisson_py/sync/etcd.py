"""Locks in etcd, for threads: `Etcd`, the client. It needs the extra `etcd`.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from typing import Self, Unpack, final

from redisson_py import Leader, ReadWriteSnapshot
from redisson_py._arguments import explained
from redisson_py._keys import Name
from redisson_py.etcd import Etcd as AsyncEtcd
from redisson_py.sync._election import Election
from redisson_py.sync._leases import Leadership
from redisson_py.sync._store_client import StoreClient
from redisson_py.sync._store_locks import (
    StoreLock,
    StoreReadLock,
    StoreReadWriteLock,
    StoreWriteLock,
)
from redisson_py.sync._store_options import StoreOptions

__all__ = [
    "Election",
    "Etcd",
    "Leader",
    "Leadership",
    "ReadWriteSnapshot",
    "StoreLock",
    "StoreOptions",
    "StoreReadLock",
    "StoreReadWriteLock",
    "StoreWriteLock",
]


@final
class Etcd(StoreClient):
    """Makes locks that etcd (3.4 or newer) keeps, and shares them with Go's client.

    A lock is the `Mutex` of Go's `concurrency` package, an election its `Election`, a
    read-write lock the `RWMutex` of `experimental/recipes`.

    Use it as `with Etcd.from_url(...) as store`, or construct it anywhere, such as in a module,
    and call `close()` in the end; nothing starts or connects until first use. Locks, threads,
    forks and the end of the interpreter are as for `redisson_py.sync.Redisson`.

    Promised: at any instant at most one owner holds a lock, also through the failure of a
    minority of the members; a holder's own view ends before etcd's. etcd serves clients in the
    order in which it saw them come. The token is the revision at which the holder's key was
    created.

    Not promised: that a lease ends for other processes as soon as you asked: etcd counts whole
    seconds, and its election timeout sets a minimum. One session, an etcd lease of
    `lease_time`, keeps everything that a client acquires without a `lease_time`.

    Cost: uncontended two round trips for a pair.
    """

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        ca: str | None = None,
        cert: str | None = None,
        key: str | None = None,
        **options: Unpack[StoreOptions],
    ) -> Self:
        """Return a client of the cluster that `url` names; nothing connects yet.

        Args:
            url: `etcd://user:password@host1:2379,host2:2379`; `etcds://` is TLS. No error quotes
                it.
            ca: A file with the authorities to trust; None trusts the system's. Default: None
            cert: A file with the client's own certificate. Default: None
            key: A file with its key. Default: None
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
        self._build(AsyncEtcd.from_url, url, {"ca": ca, "cert": cert, "key": key, **options})
        return self

    @explained
    def get_read_write_lock(self, name: Name) -> StoreReadWriteLock:
        """Return the read-write lock `name`: many readers or one writer; errors as for `get_lock`.

        It shares its keys with Go's `RWMutex`. Its leases have no fencing token, and a `lease_time`
        of theirs is ended by this client.
        """
        return StoreReadWriteLock(lambda of: of(self).get_read_write_lock(name))

    @explained
    def get_election(self, name: Name) -> Election:
        """Return the election `name`; errors as for `get_lock`.

        It shares its keys with Go's `concurrency.Election`, and with `etcdctl elect`.
        """
        return Election(lambda of: of(self).get_election(name))
