"""Locks in etcd: `Etcd`, the client. It needs the extra `etcd`."""

from __future__ import annotations

from typing import Self, Unpack, final

from redisson_py._arguments import explained
from redisson_py._engine.snapshots import ReadWriteSnapshot
from redisson_py._keys import Name
from redisson_py._stores.client import StoreClient, StoreOptions
from redisson_py._stores.election import Election, Leader, Leadership
from redisson_py._stores.extras import needs
from redisson_py._stores.locks import StoreLock
from redisson_py._stores.read_write_lock import StoreReadLock, StoreReadWriteLock, StoreWriteLock

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
    """Makes locks that etcd (3.4 or newer) keeps, as Go's client does.

    A lock is the `Mutex` of Go's `concurrency` package, an election its `Election`, a read-write
    lock the `RWMutex` of `experimental/recipes`.
    Use it as `async with Etcd.from_url(...) as store`, or call `aclose()` in the end; nothing
    connects until first use.

    Promised: at any instant at most one owner holds a lock, also through the failure of a minority
    of the members; a holder's own view ends before etcd's. Clients are served in the order in
    which etcd saw them come. The token is the revision at which the holder's key was created.

    Not promised: that a lease is as short as asked for, for other processes: etcd counts whole
    seconds, and grants no less than its election timeout allows. One session, an etcd lease of
    `lease_time`, keeps all that a client holds without a `lease_time` of its own.

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
            ca: A file with the authorities to trust; None: those of the system.
            cert: A file with the client's own certificates.
            key: A file with their key.
            options: As for `Redisson`: `lease_time`, `prefix`, `name_mapper`, `on_lost`, `turn`,
                `command_timeout`, `acquire_timeout`, `on_release_error`, `listener`.

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
        return StoreReadWriteLock(self._context, self._executor, name)

    @explained
    def get_election(self, name: Name) -> Election:
        """Return the election `name`; errors as for `get_lock`.

        It shares its keys with Go's `concurrency.Election`, and with `etcdctl elect`.
        """
        store = self._store
        assert isinstance(store, EtcdStore)
        return Election(self._context, self._executor, store, name)
