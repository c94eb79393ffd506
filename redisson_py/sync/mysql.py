"""Locks in MariaDB, for threads; MySQL untested: `MySQL`, the client. It needs the extra `mysql`.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from typing import Self, Unpack, final

from redisson_py import Leader
from redisson_py._arguments import explained
from redisson_py._keys import Name
from redisson_py.mysql import MySQL as AsyncMySQL
from redisson_py.mysql import schema_sql
from redisson_py.sync._election import Election
from redisson_py.sync._leases import Leadership
from redisson_py.sync._store_client import StoreClient
from redisson_py.sync._store_locks import StoreLock
from redisson_py.sync._store_options import StoreOptions

__all__ = ["Election", "Leader", "Leadership", "MySQL", "StoreLock", "StoreOptions", "schema_sql"]


@final
class MySQL(StoreClient):
    """Makes locks that MariaDB (10.5 or newer) keeps in a table of ours; MySQL 8.0 is untested.

    Use it as `with MySQL.from_url(...) as store`, or construct it anywhere, such as in a
    module, and call `close()` in the end; nothing starts or connects until first use. Locks,
    threads, forks and the end of the interpreter are as for `redisson_py.sync.Redisson`.

    Promised: at any instant at most one owner holds a lock as the database sees it, and a
    holder's own view ends before the database's, whose clock alone counts. Fencing tokens grow
    from holder to holder.

    Clients that wait are served in order of arrival, unless one is silent when its turn comes.
    For 20 milliseconds after one has become the first of them, others may still go before it.

    Not promised: that a release wakes a waiter of another process. The server cannot notify, so
    waiters ask again: the first after 50 milliseconds, the last at `poll_interval`. Nor
    exclusion after a failover that lost the write, or when the server's clock is stepped
    forward.

    Cost: uncontended one round trip for an acquire and one for a release. A hand-off writes
    three times, for any number of clients; what waiters ask meanwhile changes nothing.
    """

    @classmethod
    def from_url(cls, url: str, **options: Unpack[StoreOptions]) -> Self:
        """Return a client of the database that `url` names; nothing connects yet.

        Args:
            url: `mysql://user:password@host:port/database` or `mariadb://`. No error quotes it. Its
                arguments are:

                - `connections`: The most connections. Default: 10 - `poll_interval`: The most
                seconds between two requests of a waiter. Default: 0.5 - `ssl`: `true` for TLS,
                which checks the server's certificate. Default: false - `ssl_ca_certs`: A file with
                the authorities to trust. Default: the system's - `ssl_certfile`: A file with the
                client's own certificate. Default: None - `ssl_keyfile`: A file with its key.
                Default: None
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
        self._build(AsyncMySQL.from_url, url, options)
        return self

    @explained
    def get_election(self, name: Name) -> Election:
        """Return the election `name` of a leader with a value; errors as for `get_lock`.

        Those that observe it look every `poll_interval`. A table that was made by an older version
        gets a column, `value`, when the first client uses an election, if its user may alter it.
        """
        return Election(lambda of: of(self).get_election(name))
