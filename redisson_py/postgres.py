"""Locks and semaphores in PostgreSQL: `Postgres`, the client. It needs the extra `postgres`."""

from __future__ import annotations

from functools import partial
from typing import Any, Self, Unpack, cast, final

from redisson_py._arguments import explained
from redisson_py._engine.hold import FencedLease, Lease
from redisson_py._engine.snapshots import ReadWriteSnapshot
from redisson_py._engine.task_ownership import TaskOwnership
from redisson_py._keys import Name
from redisson_py._stores.client import StoreClient
from redisson_py._stores.election import ElectionInStore
from redisson_py._stores.executor import StoreExecutor
from redisson_py._stores.extras import needs
from redisson_py._stores.locks import StoreLock, lock_ownership
from redisson_py._stores.once import StoreOnce
from redisson_py._stores.options import StoreOptions
from redisson_py._stores.read_write_lock import StoreReadLock, StoreReadWriteLock, StoreWriteLock
from redisson_py._stores.semaphore import StoreSemaphore
from redisson_py._time import Duration
from redisson_py.errors import LeaseLostError
from redisson_py.locks.election import Election, Leader, Leadership
from redisson_py.locks.lock_of import LockOf
from redisson_py.locks.once import Once
from redisson_py.semaphores.permit import Permit
from redisson_py.semaphores.semaphore_like import SemaphoreSnapshot

with needs("postgres"):
    from redisson_py._stores.postgres.once import CREATE
    from redisson_py._stores.postgres.sql import schema_sql
    from redisson_py._stores.postgres.store import PostgresStore

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


def once_schema_sql() -> str:
    """Return the SQL that creates what `get_once` needs beside the table of locks."""
    return CREATE


class _Guarding(Lease):
    """A lease that can guard a transaction."""

    __slots__ = ()

    async def guard(self, connection: Any) -> None:
        """Protect the rest of a transaction: nobody else gets the lock before it has ended.

        Call it first in a transaction of yours, on a connection of asyncpg to the database of the
        locks. From then on a takeover waits for the end of the transaction, even if this lease runs
        out meanwhile; renewals and the release do not wait. So a paused holder commits what it
        wrote while it held the lock, or nothing. Keep the transaction short: while it lasts nobody
        else gets the lock.

        Cancelling is harmless: the transaction is yours to roll back.

        Raises:
            LeaseLostError: The lease is gone already; roll the transaction back.
            NotHeldError: It was released already.
            TypeError: It is no connection of asyncpg. Nothing was sent.
            RuntimeError: The connection is not inside a transaction.
            BackendError: The connection does not see the table of locks.
        """
        found = self._guarding()
        if found is None:
            raise self._not_guarded()
        store, name, token = found
        if not await store.guard(connection, name, self._hold.owner, token):
            raise self._not_guarded()

    def _guarding(self) -> tuple[PostgresStore, str, int] | None:
        """Return what a guard asks: the store, the name, and the first token; None if it is gone.

        Raises:
            LeaseLostError: The lease is gone.
            NotHeldError: It was released.
        """
        self._refuse_released()
        self.check()
        hold = self._hold
        context = cast("TaskOwnership", hold.ownership).context
        assert isinstance(context.executor, StoreExecutor)
        carrier = context.executor.carrier
        queue, store = carrier.queues.get(hold.owner), carrier.store
        assert isinstance(store, PostgresStore)
        # Inside this client it could be passed on without a question that the transaction stops.
        hold.guard()
        if queue is None:
            return None
        return store, hold.ownership.commands.key.decode(), queue.token

    def _not_guarded(self) -> LeaseLostError:
        """Note that the store does not have the hold; return the error.

        Raises:
            NotHeldError: It was released meanwhile.
        """
        self._refuse_released()
        hold = self._hold
        cast("TaskOwnership", hold.ownership).context.watchdog.lose(hold, "taken")
        return self._loss()

    def _refuse_released(self) -> None:
        if self._state == "released":
            # Its hold may be that of another task by now.
            raise self._not_held()


@final
class PostgresLease(_Guarding):
    """The lease of a `PostgresLock`: a lease that can guard a transaction."""

    __slots__ = ()


@final
class PostgresFencedLease(_Guarding, FencedLease):
    """The lease of a `PostgresFencedLock`: with a fencing token, and a guard for transactions."""

    __slots__ = ()


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

    Use it as `async with Postgres.from_url(...) as store`, or call `aclose()` in the end; nothing
    connects until first use.

    Promised: at any instant at most one owner holds a lock as the database sees it, and a holder's
    own view ends before the database's, whose clock alone counts. Fencing tokens grow from
    holder to holder. A waiter sleeps until PostgreSQL notifies it; nothing is sent while nobody
    waits. A lease can `guard` a transaction: no other store has that.

    Not promised: an order between processes, for a lock; exclusion after a failover that lost the
    write (it is as durable as what PostgreSQL commits), or when the server's clock is stepped
    forward.

    Cost: uncontended one statement for an acquire and one for a release, on a small pool of
    connections; from the first wait on, one more connection listens. Behind a pooler that keeps no
    LISTEN, waiters ask again every quarter of a second.
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
            lambda lease_time: PostgresStore.from_url(
                url, connections=connections, statement_cache_size=statement_cache_size
            ),
            options,
        )

    @explained
    def get_lock(self, name: Name, *, reentrant: bool = True) -> PostgresLock:
        """Return the reentrant lock `name`; with `reentrant=False`, one that refuses re-entry.

        Raises:
            TypeError: The name is neither str nor bytes.
            ValueError: It is empty, longer than 4 KiB, no UTF-8, or has a NUL character.
        """
        make = partial(
            lock_ownership,
            self._context,
            self._executor,
            lease_kind=PostgresLease,
            reentrant=reentrant,
        )
        return PostgresLock(make, name)

    @explained
    def get_once(self, name: Name, *, keep: Duration = 86_400.0) -> Once:
        """Return what carries `name` out once, and remembers that it is done for `keep` seconds.

        `await once.complete(result, connection=conn)` records that in a transaction of yours. Its
        table, `redisson_py_once`, is made at first use: see `once_schema_sql`.

        Args:
            name: The name of the work, different for each thing that is done: `"pay:42"`.
            keep: Seconds for which the database remembers that it is done, and its result; from a
                millisecond to ten years. The one that completes it decides. Default: one day

        Raises:
            TypeError: The name is neither str nor bytes, or `keep` is no time.
            ValueError: The name is empty, longer than 4 KiB, no UTF-8, or has a NUL character, or
                `keep` is out of range.
        """
        return StoreOnce(self._context, self._executor, name, keep)

    @explained
    def get_fenced_lock(self, name: Name) -> PostgresFencedLock:
        """Return the lock `name` whose leases carry a fencing token; errors as for `get_lock`."""
        make = partial(
            lock_ownership, self._context, self._executor, lease_kind=PostgresFencedLease
        )
        return PostgresFencedLock(make, name)

    @explained
    def get_election(self, name: Name) -> Election:
        """Return the election `name` of a leader with a value; errors as for `get_lock`.

        A table that was made by an older version gets a column, `value`, when the first client uses
        an election, if its role owns the table.
        """
        store = self._store
        assert isinstance(store, PostgresStore)
        make = partial(ElectionInStore, self._context, self._executor, store)
        return Election(self._context, name, make)

    @explained
    def get_read_write_lock(self, name: Name) -> StoreReadWriteLock:
        """Return the read-write lock `name`: many readers or one writer; errors as for `get_lock`.

        Both sides are served in the order in which the database saw them come, so writers do not
        starve. The database ends the leases of both. They have no fencing token and no guard.
        """
        return StoreReadWriteLock(self._context, name, ends_leases=True)

    @explained
    def get_semaphore(self, name: Name, permits: int | None = None) -> StoreSemaphore:
        """Return the semaphore `name`; with `permits`, the first use creates it with that many.

        Raises:
            TypeError: The name is neither str nor bytes, or `permits` is not an int.
            ValueError: The name is one that `get_lock` refuses, or `permits` is out of range.
        """
        return StoreSemaphore(self._context, name, permits)
