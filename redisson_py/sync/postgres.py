"""Locks in PostgreSQL, for threads: `Postgres`, the client. It needs the extra `postgres`.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from typing import Any, Self, Unpack, final

from redisson_py import Leader, ReadWriteSnapshot, SemaphoreSnapshot
from redisson_py._arguments import explained
from redisson_py._keys import Name
from redisson_py._time import Duration
from redisson_py.postgres import Postgres as AsyncPostgres
from redisson_py.postgres import PostgresFencedLease as AsyncPostgresFencedLease
from redisson_py.postgres import PostgresLease as AsyncPostgresLease
from redisson_py.postgres import once_schema_sql, schema_sql
from redisson_py.sync._election import Election
from redisson_py.sync._guarding import guard_transaction
from redisson_py.sync._leases import FencedLease, Leadership, Lease, Permit
from redisson_py.sync._lock_of import LockOf
from redisson_py.sync._once import Once
from redisson_py.sync._store_client import StoreClient
from redisson_py.sync._store_locks import (
    StoreLock,
    StoreReadLock,
    StoreReadWriteLock,
    StoreWriteLock,
)
from redisson_py.sync._store_options import StoreOptions
from redisson_py.sync._store_semaphore import StoreSemaphore
from redisson_py.sync._wrapping import lease_kinds

__all__ = [
    "Election",
    "Leader",
    "Leadership",
    "Postgres",
    "PostgresFencedLease",
    "PostgresFencedLock",
    "PostgresLease",
    "Permit",
    "PostgresLock",
    "ReadWriteSnapshot",
    "SemaphoreSnapshot",
    "StoreOptions",
    "StoreReadLock",
    "StoreReadWriteLock",
    "StoreSemaphore",
    "StoreWriteLock",
    "once_schema_sql",
    "schema_sql",
]


class _Guarding(Lease):
    """A lease that can guard a transaction."""

    def guard(self, connection: Any) -> None:
        """Protect the rest of a transaction: nobody else gets the lock before it has ended.

        Call it first in a transaction of yours, on a connection to the database of the locks:
        of psycopg or psycopg2, Django's `django.db.connection`, or SQLAlchemy's
        `session.connection().connection`. From then on a takeover waits for the end of the
        transaction, even if this lease runs out or is released meanwhile; renewals and the
        release do not wait. So a paused holder commits what it wrote while it held the lock, or
        nothing. Keep the transaction short: while it lasts nobody gets the lock, not even this
        thread once it has released it.

        Cost: two statements, on your connection. Interruption is harmless: the transaction is
        yours to roll back. Errors of the driver are yours too.

        Raises:
            LeaseLostError: The lease is gone already; roll the transaction back.
            NotHeldError: It was released already.
            RuntimeError: The connection is not inside a transaction; nothing is protected.
            BackendError: The connection does not see the table of locks.
            ClientClosedError: The client was closed.
            TypeError: It is no such connection; nothing was sent.
        """
        guard_transaction(self, connection)


@final
class PostgresLease(_Guarding):
    """The lease of a `PostgresLock`: a lease that can guard a transaction."""


@final
class PostgresFencedLease(_Guarding, FencedLease):
    """The lease of a `PostgresFencedLock`: with a fencing token, and a guard for transactions."""


@final
class PostgresLock(LockOf[PostgresLease], StoreLock):
    """A lock in PostgreSQL: see `Postgres`."""


@final
class PostgresFencedLock(LockOf[PostgresFencedLease], StoreLock):
    """A lock in PostgreSQL whose leases carry a fencing token: see `Postgres`."""


@final
class Postgres(StoreClient):
    """Makes locks and semaphores that a PostgreSQL database keeps, in two tables of ours.

    They are `redisson_py_locks` and, for read-write locks and semaphores, `redisson_py_shared`.

    Use it as `with Postgres.from_url(...) as store`, or construct it anywhere, such as in a
    module, and call `close()` in the end; nothing starts or connects until first use. Locks,
    threads, forks and the end of the interpreter are as for `redisson_py.sync.Redisson`.

    Promised: at any instant at most one owner holds a lock as the database sees it, and a
    holder's own view ends before the database's, whose clock alone counts. Fencing tokens grow
    from holder to holder. A waiter sleeps until PostgreSQL notifies it; nothing is sent while
    nobody waits. A lease can `guard` a transaction: no other store has that.

    Not promised: an order between processes, for a lock; exclusion after a failover that lost
    the write (it is as durable as what PostgreSQL commits), or when the server's clock is
    stepped forward.

    Cost: uncontended one statement for an acquire and one for a release, on a small pool of
    connections; from the first wait on, one more connection listens. Behind a pooler that keeps
    no LISTEN, waiters ask again every quarter of a second.
    """

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        connections: int = 4,
        statement_cache_size: int = 100,
        **options: Unpack[StoreOptions],
    ) -> Self:
        """Return a client of the database that `url` names; nothing connects yet.

        Args:
            url: `postgresql://user:password@host:port/database`, with libpq's arguments as asyncpg
                knows them; with several hosts it uses the primary. No error quotes it.
            connections: The most connections that carry requests. Default: 4
            statement_cache_size: The most prepared statements that a connection keeps; 0 behind a
                pooler that does not support them. Default: 100
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
        self._build(
            AsyncPostgres.from_url,
            url,
            {"connections": connections, "statement_cache_size": statement_cache_size, **options},
        )
        return self

    @explained
    def get_lock(self, name: Name, *, reentrant: bool = True) -> PostgresLock:
        """Return the reentrant lock `name`; with `reentrant=False`, one that refuses re-entry.

        Raises:
            TypeError: The name is neither str nor bytes.
            ValueError: It is empty, longer than 4 KiB, no UTF-8, or has a NUL character.
        """
        return PostgresLock(lambda of: of(self).get_lock(name, reentrant=reentrant))

    @explained
    def get_once(self, name: Name, *, keep: Duration = 86400.0) -> Once:
        """Return what carries `name` out once, and remembers that it is done for `keep` seconds.

        `once.complete(result, connection=conn)` records that in a transaction of yours. Its table,
        `redisson_py_once`, is made at first use: see `once_schema_sql`.

        Args:
            name: The name of the work, different for each thing that is done: `"pay:42"`.
            keep: Seconds for which the database remembers that it is done, and its result; from a
                millisecond to ten years. The one that completes it decides. Default: one day

        Raises:
            TypeError: The name is neither str nor bytes, or `keep` is no time.
            ValueError: The name is empty, longer than 4 KiB, no UTF-8, or has a NUL character, or
                `keep` is out of range.
        """
        return Once(lambda of: of(self).get_once(name, keep=keep))

    @explained
    def get_fenced_lock(self, name: Name) -> PostgresFencedLock:
        """Return the lock `name` whose leases carry a fencing token; errors as for `get_lock`."""
        return PostgresFencedLock(lambda of: of(self).get_fenced_lock(name))

    @explained
    def get_election(self, name: Name) -> Election:
        """Return the election `name` of a leader with a value; errors as for `get_lock`.

        A table that was made by an older version gets a column, `value`, when the first client uses
        an election, if its role owns the table.
        """
        return Election(lambda of: of(self).get_election(name))

    @explained
    def get_read_write_lock(self, name: Name) -> StoreReadWriteLock:
        """Return the read-write lock `name`: many readers or one writer; errors as for `get_lock`.

        Both sides are served in the order in which the database saw them come, so writers do not
        starve. The database ends the leases of both. They have no fencing token and no guard.
        """
        return StoreReadWriteLock(lambda of: of(self).get_read_write_lock(name))

    @explained
    def get_semaphore(self, name: Name, permits: int | None = None) -> StoreSemaphore:
        """Return the semaphore `name`; with `permits`, the first use creates it with that many.

        Raises:
            TypeError: The name is neither str nor bytes, or `permits` is not an int.
            ValueError: The name is one that `get_lock` refuses, or `permits` is out of range.
        """
        return StoreSemaphore(lambda of: of(self).get_semaphore(name, permits))


lease_kinds.update(
    {AsyncPostgresLease: PostgresLease, AsyncPostgresFencedLease: PostgresFencedLease}
)
