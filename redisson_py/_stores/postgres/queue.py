"""The client queue, as parts of the statements: who waits for a name, first come first served.

It is in `refused`, the column of the tombstones, because a decision is made on one locked row, and
because a table that exists needs no new column. Like a tombstone, an entry is a key with its end:
a client of an older version keeps it until then, and reads nothing else. The key of a waiter is
`<moment of joining in microseconds> <station> <owner>`; that of a tombstone has no spaces.

- A client listens on the channel of its station. A release calls the first waiter there, and has
  the second look after `CALL_TIME`: nobody else.
- A call shortens the entry to `CALL_TIME`. Until then a free name goes to that waiter only. After
  that the entry is gone, so a waiter that is stopped or dead stands in nobody's way.
- A called waiter that finds the name busy stays in its place for another `WAITER_TIME`.
- A free name of which no waiter was called goes to whoever asks: its lease ended, a client of an
  older version freed it, or the waiter that was called is silent.
"""

from __future__ import annotations

from typing import Final

from redisson_py._stores.postgres.operators import (
    EPOCH,
    EQ,
    GET,
    GT,
    LE,
    LT,
    NE,
    PLUS,
    microseconds,
)

#: Seconds after which a waiter that has not asked again is no waiter any more.
WAITER_TIME: Final = 60.0
#: Seconds for which a free name waits for the waiter that was called.
CALL_TIME: Final = 0.05
#: A waiter asks again at the latest while it still counts as waiting.
LONGEST_WAIT_SECONDS: Final = WAITER_TIME / 2 - 5
#: Seconds until a waiter asks again that no message can wake.
POLL_SECONDS: Final = 0.25
#: How many waiters, the first of the queue, look after the holders.
WATCHERS: Final = 2

#: What stands before a station in the name of its channel.
CHANNEL: Final = "redisson_py_"
#: Messages: the first asks now; the second asks after `CALL_TIME`. The id of the name follows.
ASK_NOW: Final = "a"
WATCH: Final = "w"

_END = "each.value::pg_catalog.float8"
_PRESENT = f"{EPOCH}::pg_catalog.float8"
_UNTIL_CALL = f"({_PRESENT} {PLUS} {CALL_TIME}::pg_catalog.float8)"
_KEY = 'each.key COLLATE pg_catalog."C"'
_OWNER = "pg_catalog.split_part(each.key, ' '::pg_catalog.text, 3)"


def _entries(row: str) -> str:
    """Return the entries of a row that have not ended: tombstones and waiters."""
    return f"""pg_catalog.jsonb_each({row}.refused) AS each
        WHERE {_END} {GT} {_PRESENT}"""


def _waiters(row: str) -> str:
    return f"{_entries(row)} AND {_OWNER} {NE} ''::pg_catalog.text"


def first_two(row: str, but: str = "''::pg_catalog.text") -> str:
    """Return the keys of the first two waiters, as if one owner had left."""
    return f"""ARRAY(
        SELECT each.key FROM {_waiters(row)} AND {_OWNER} {NE} {but}
        ORDER BY {_KEY} LIMIT 2)"""


def waiting(row: str) -> str:
    """Return the owners that wait, in order."""
    return f"ARRAY(SELECT {_OWNER} FROM {_waiters(row)} ORDER BY {_KEY})"


def is_reserved(row: str, owner: str) -> str:
    """Return whether another waiter than this owner was called."""
    return f"""EXISTS (
        SELECT FROM {_waiters(row)} AND {_END} {LE} {_UNTIL_CALL} AND {_OWNER} {NE} {owner})"""


def is_waiter(row: str, owner: str) -> str:
    """Return whether an owner waits."""
    return f"EXISTS (SELECT FROM {_entries(row)} AND {_OWNER} {EQ} {owner})"


def not_called(row: str, key: str) -> str:
    """Return whether a waiter was not called yet; null: there is no such waiter."""
    return f"({row}.refused {GET} {key})::pg_catalog.float8 {GT} {_UNTIL_CALL}"


def without(row: str, owner: str, called: str = "NULL::pg_catalog.text") -> str:
    """Return the entries without those of an owner; the waiter with the key `called` is called."""
    return f"""
CASE WHEN {row}.refused IS NOT NULL THEN (
    SELECT pg_catalog.jsonb_object_agg(
        each.key, CASE WHEN each.key {EQ} {called} THEN {_UNTIL_CALL} ELSE {_END} END)
    FROM {_entries(row)} AND {_OWNER} {NE} {owner}) END"""


def joined(row: str, owner: str, station: str) -> str:
    """Return the entries with those of an owner: in its place, or at the end."""
    return f"""(
    SELECT pg_catalog.jsonb_object_agg(each.key, each.until) FROM (
        SELECT each.key, {_END} AS until FROM {_entries(row)} AND {_OWNER} {NE} {owner}
        UNION ALL
        SELECT coalesce(
            (SELECT pg_catalog.min(each.key) FROM {_entries(row)} AND {_OWNER} {EQ} {owner}),
            pg_catalog.concat({microseconds(EPOCH)}, ' ', {station}, ' ', {owner})),
            {_PRESENT} {PLUS} {WAITER_TIME}::pg_catalog.float8
    ) AS each)"""


def ahead(row: str, owner: str) -> str:
    """Return how many waiters come before an owner."""
    return f"""(
    SELECT pg_catalog.count(*) FROM {_waiters(row)} AND {_KEY} {LT} (
        SELECT pg_catalog.min(each.key) FROM {_entries(row)} AND {_OWNER} {EQ} {owner}))"""


def tell(key: str, message: str) -> str:
    """Return the sending of a message about the row to the station of a waiter."""
    return f"""pg_catalog.pg_notify(
        pg_catalog.concat('{CHANNEL}', pg_catalog.split_part({key}, ' '::pg_catalog.text, 2)),
        pg_catalog.concat('{message}',
            pg_catalog.encode($1::pg_catalog.bytea, 'hex'::pg_catalog.text)))"""
