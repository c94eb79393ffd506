"""Locks in MariaDB; MySQL untested: `MySQL`, the client. It needs the extra `mysql`."""

from __future__ import annotations

from typing import Self, Unpack, final

from redisson_py._stores.client import StoreClient, StoreOptions
from redisson_py._stores.extras import needs
from redisson_py._stores.locks import StoreLock

with needs("mysql"):
    from redisson_py._stores.mysql.store import MySQLStore, schema_sql

__all__ = ["MySQL", "StoreLock", "StoreOptions", "schema_sql"]


@final
class MySQL(StoreClient):
    """Makes locks that MariaDB (10.5 or newer) keeps in a table of ours; MySQL 8.0 is untested.

    Use it as `async with MySQL.from_url(...) as store`, or call `aclose()` in the end; nothing
    connects until first use.

    Promised: at any instant at most one owner holds a lock as the database sees it, and a holder's
    own view ends before the database's, which alone reads the clock. Fencing tokens grow from
    holder to holder.

    Not promised: that a waiter of another process is woken. MySQL cannot notify, so the head of
    each client's queue asks again, first after 50 milliseconds, later at `poll_interval`; an
    order between processes; exclusion after a failover that lost the write, or when the server's
    clock is stepped forward.

    Cost: uncontended one round trip for an acquire and one for a release.
    """

    @classmethod
    def from_url(cls, url: str, **options: Unpack[StoreOptions]) -> Self:
        """Return a client of the database that `url` names; nothing connects yet.

        Args:
            url: `mysql://user:password@host:port/database` or `mariadb://`. Its arguments are
                `connections` (at most so many; 10), `poll_interval` (at most so many seconds
                between two requests of one that waits; 0.5), `ssl`, `ssl_ca_certs`, `ssl_certfile`
                and `ssl_keyfile`. No error quotes it.
            options: As for `Redisson`: `lease_time`, `prefix`, `name_mapper`, `on_lost`, `turn`,
                `command_timeout`, `acquire_timeout`, `on_release_error`, `listener`.

        Raises:
            TypeError: The URL is no str, an option has the wrong type, or does not exist.
            ValueError: The URL or an option is not usable.
        """
        return cls(lambda lease_time: MySQLStore.from_url(url), options)
