"""Locks in etcd: `Etcd`, the client. It needs the extra `etcd`."""

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
from redisson_py.locks.election import Election, Leader, Leadership

with needs("etcd"):
    from redisson_py._stores.etcd.store import EtcdStore

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

    A lock is the `Mutex` of Go's `concurrency` package, an election its `Election`, a read-write
    lock the `RWMutex` of `experimental/recipes`.

    Use it as `async with Etcd.from_url(...) as store`, or call `aclose()` in the end; nothing
    connects until first use.

    Promised: at any instant at most one owner holds a lock, also through the failure of a minority
    of the members; a holder's own view ends before etcd's. etcd serves clients in the order in
    which it saw them come. The token is the revision at which the holder's key was created.

    Not promised: that a lease ends for other processes as soon as you asked: etcd counts whole
    seconds, and its election timeout sets a minimum. One session, an etcd lease of `lease_time`,
    keeps everything that a client acquires without a `lease_time`.

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
            lambda lease_time: EtcdStore.from_url(url, lease=lease_time, ca=ca, cert=cert, key=key),
            options,
        )

    @explained
    def get_read_write_lock(self, name: Name) -> StoreReadWriteLock:
        """Return the read-write lock `name`: many readers or one writer; errors as for `get_lock`.

        It shares its keys with Go's `RWMutex`. Its leases have no fencing token, and a `lease_time`
        of theirs is ended by this client.
        """
        return StoreReadWriteLock(self._context, name)

    @explained
    def get_election(self, name: Name) -> Election:
        """Return the election `name`; errors as for `get_lock`.

        It shares its keys with Go's `concurrency.Election`, and with `etcdctl elect`.
        """
        store = self._store
        assert isinstance(store, EtcdStore)
        make = partial(ElectionInStore, self._context, self._executor, store)
        return Election(self._context, name, make)
