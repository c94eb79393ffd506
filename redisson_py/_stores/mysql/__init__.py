"""Holds in a table of MySQL or MariaDB: `redisson_py_locks`, a row for each name.

Invariants, each kept by single statements that commit on their own:

- A name is held while `expires`, a moment of the server's clock, has not passed; its holder is
  `owner`. Whoever finds it passed may take it.
- A hold's tokens are `token` to `last_token`. The next hold's are greater, and never less than the
  microseconds of the server's clock. So they also rise if the row was deleted meanwhile.
- An owner in `refused` is granted nothing. It is there for 60 seconds at least after it gave back
  without knowing whether a request of its own may still arrive.
- An owner in `released` held, and gave back: a second call learns what the first one did.

The row's lock puts all that happens to one name in order. Nothing holds a row lock between two
calls, and no call leaves a transaction open. `GET_LOCK` is not used: it has no lease and no token.

- Clients wait in a queue in the row, first come first served: see `queue`.

MySQL cannot wake waiters: they poll, which locks and changes nothing (`polling`). Of a queue the
first two ask often, and the others as their turn comes near, at least every half second
(`poll_interval` in the URL).

A free name keeps its row. Rows whose `expires` and `refused_until` have passed may be deleted at
any time:

    DELETE FROM redisson_py_locks WHERE expires < UNIX_TIMESTAMP() * 1000000
      AND refused_until < UNIX_TIMESTAMP() * 1000000
"""

from __future__ import annotations

from redisson_py._stores.mysql.address import Target
from redisson_py._stores.mysql.store import MySQLStore, schema_sql

__all__ = ["MySQLStore", "Target", "schema_sql"]
