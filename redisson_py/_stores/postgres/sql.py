"""The table, and one statement for each question.

Rules of these statements, which the tests check one by one:

- One statement is one transaction and one round trip. All are safe to run twice.
- The moment of a statement is `statement_timestamp()`, the server's clock when the statement came:
  it is the same everywhere in the statement, and never later than the moment of the change.
- A decision is made on a row that the statement has locked. PostgreSQL then judges by the newest
  version of the row, however old the snapshot of the statement is. For the same reason tombstones
  are in the row: another table would be read by the snapshot.
- A new token takes the row FOR UPDATE, everything else FOR NO KEY UPDATE. So a guard's FOR KEY
  SHARE stops the next grant only, and a grant that meets it does not wait (SKIP LOCKED).
"""

from __future__ import annotations

from typing import Final

from redisson_py._options import TOMBSTONE

#: Seconds for which a waiter that registered counts as waiting, and after which it registers again.
WAITER_TIME: Final = 60.0

#: Milliseconds for which an ask that wants to register waits for a row that somebody has locked.
LOCK_WAIT_MS: Final = 200

TABLE: Final = "redisson_py_locks"

_COMMENT: Final = f"""
Locks of redisson_py. One row for each name that was ever locked; all moments are those of this
server. Held: owner is set and expires is in the future. Rows whose expires is more than
{TOMBSTONE:.0f} seconds past may be deleted at any time: a later token is still greater, as it
counts microseconds, unless the clock was set back meanwhile."""

_COLUMN_COMMENTS: Final = {
    "id": "SHA-256 of the name in UTF-8: a name may be longer than an entry of an index",
    "name": "the name, for people",
    "owner": "the holder; null: free",
    "token": "the first fencing token of the latest hold",
    "tokens": "how many fencing tokens that hold took",
    "expires": "when the hold ends if it is not renewed; of a free row: when it was freed",
    "waiting_until": "until then somebody waits, and a release sends NOTIFY",
    "freed_by": "the owner that gave it back last: its answer, should it ask twice",
    "refused": "owners that gave up without an answer, and until when (epoch) they are refused",
}


def schema_sql() -> str:
    """Return the SQL that creates what the store needs, for a role that may create tables."""
    comments = [f"COMMENT ON TABLE {TABLE} IS '{' '.join(_COMMENT.split())}';"]
    for column, text in _COLUMN_COMMENTS.items():
        comments.append(f"COMMENT ON COLUMN {TABLE}.{column} IS '{text}';")
    return "\n".join([_CREATE, *comments])


# Half of each page stays free: a new version of a row fits beside the old one, so that no index
# entry is written (HOT). That needs that no column but `id` is ever indexed.
_CREATE: Final = f"""\
CREATE TABLE IF NOT EXISTS {TABLE} (
    id bytea PRIMARY KEY,
    name text NOT NULL,
    owner text,
    token bigint NOT NULL,
    tokens bigint NOT NULL,
    expires timestamptz NOT NULL,
    waiting_until timestamptz,
    freed_by text,
    refused jsonb
) WITH (fillfactor = 50);"""

#: Fails if the table is missing, is another one, or must not be read.
CHECK: Final = f"""
SELECT id, name, owner, token, tokens, expires, waiting_until, freed_by, refused
FROM {TABLE} WHERE false"""

PING: Final = "SELECT 1"

_NOW: Final = "statement_timestamp()"
_EPOCH: Final = f"extract(epoch FROM {_NOW})"
_MICROSECONDS: Final = f"floor({_EPOCH} * 1000000)::bigint"
_UNTIL_LEASE: Final = f"{_NOW} + make_interval(secs => $4::float8)"
_REMAINING: Final = f"extract(epoch FROM expires - {_NOW})::float8"
#: The tombstones of a row `t` that are still needed.
_NEEDED: Final = f"""
CASE WHEN t.refused IS NOT NULL THEN (
    SELECT jsonb_object_agg(each.key, each.value) FROM jsonb_each(t.refused) AS each
    WHERE each.value::float8 > {_EPOCH}) END"""

#: id, name, owner, lease, tokens, waits -> whether it was granted now, and the row.
#:
#: `registered` waits for whoever changes the row at this moment, and then sees what they made of
#: it: a release that came first is seen here, one that comes later sees the mark. A statement that
#: sees a mark by its snapshot needs none of its own: a release that it does not see comes later.
ASK: Final = f"""
WITH granted AS (
    UPDATE {TABLE} AS t
    SET owner = $3::text, token = greatest(t.token + t.tokens, {_MICROSECONDS}),
        tokens = $5::bigint, expires = {_UNTIL_LEASE}
    WHERE t.id = (
        SELECT id FROM {TABLE}
        WHERE id = $1::bytea AND (owner IS NULL OR expires <= {_NOW})
            AND NOT coalesce(refused ? $3::text, false)
        FOR UPDATE SKIP LOCKED)
    RETURNING true AS granted, owner, token, tokens, expires, refused
), inserted AS (
    INSERT INTO {TABLE} (id, name, owner, token, tokens, expires)
    SELECT $1::bytea, $2::text, $3::text, {_MICROSECONDS}, $5::bigint, {_UNTIL_LEASE}
    WHERE NOT EXISTS (SELECT FROM granted)
        AND NOT EXISTS (SELECT FROM {TABLE} WHERE id = $1::bytea)
    ON CONFLICT (id) DO NOTHING
    RETURNING true, owner, token, tokens, expires, refused
), registered AS (
    UPDATE {TABLE} AS t
    SET waiting_until = {_NOW} + make_interval(secs => {WAITER_TIME})
    WHERE $6::boolean AND t.id = $1::bytea AND t.owner IS DISTINCT FROM $3::text
        AND NOT EXISTS (SELECT FROM granted)
        AND coalesce(t.waiting_until < {_NOW} + make_interval(secs => {WAITER_TIME / 2}), true)
        AND set_config('lock_timeout', '{LOCK_WAIT_MS}', true) IS NOT NULL
    RETURNING false, owner, token, tokens, expires, refused
), seen AS (
    SELECT false, owner, token, tokens, expires, refused FROM {TABLE}
    WHERE id = $1::bytea AND NOT EXISTS (SELECT FROM granted)
        AND NOT EXISTS (SELECT FROM registered)
)
SELECT granted, owner, token, tokens, {_REMAINING} AS remaining,
    coalesce(refused ? $3::text, false) AS refused
FROM (
    TABLE granted UNION ALL TABLE inserted UNION ALL TABLE registered UNION ALL TABLE seen
) AS answer"""

#: The row as it was, locked: what an UPDATE returns is the row as it is afterwards.
_BEFORE: Final = f"""
SELECT id, owner, expires, waiting_until, freed_by FROM {TABLE} WHERE id = $1::bytea"""
_RING: Final = "pg_notify($2::text, '')"
_FREED: Final = f"""
owner = NULL, expires = least(t.expires, {_NOW}), waiting_until = NULL, refused = {_NEEDED}"""

#: id, channel, owner -> whether it held; no row: it is not the holder, nor the last one.
GIVE_BACK: Final = f"""
WITH freed AS (
    UPDATE {TABLE} AS t
    SET {_FREED}, freed_by = CASE WHEN t.expires > {_NOW} THEN t.owner END
    FROM ({_BEFORE} AND owner = $3::text FOR NO KEY UPDATE) AS before
    WHERE t.id = before.id
    RETURNING before.expires, before.waiting_until)
SELECT expires > {_NOW} AS held, coalesce(waiting_until > {_NOW}, false) AS wanted,
    CASE WHEN waiting_until > {_NOW} THEN {_RING} END FROM freed
UNION ALL
SELECT true, false, NULL FROM {TABLE}
WHERE id = $1::bytea AND freed_by = $3::text AND NOT EXISTS (SELECT FROM freed)"""

#: id, channel, owner, token -> whether it was held; no row: it was not. Late, it ends no other
#: hold. A token alone may repeat, if its row was deleted and the server's clock set back.
FORCE_RELEASE: Final = f"""
WITH freed AS (
    UPDATE {TABLE} AS t SET {_FREED}, freed_by = NULL
    FROM ({_BEFORE} AND owner = $3::text AND token = $4::bigint FOR NO KEY UPDATE) AS before
    WHERE t.id = before.id
    RETURNING before.expires, before.waiting_until)
SELECT expires > {_NOW} AS held, CASE WHEN waiting_until > {_NOW} THEN {_RING} END FROM freed"""

_MINE: Final = f"t.owner = $3::text AND t.expires > {_NOW}"
_OTHERS: Final = f"t.owner <> $3::text AND t.expires > {_NOW}"

#: id, channel, owner, name -> whether it held. The owner is refused from then on.
#:
#: It writes the row even if nothing is held: a late request that has begun already finds a changed
#: row, or a row where there was none, and judges by that. If it made the row at this moment, it is
#: not in `before`: then this rings whether or not somebody waits.
GIVE_BACK_UNSURE: Final = f"""
WITH before AS ({_BEFORE} FOR NO KEY UPDATE), freed AS (
    INSERT INTO {TABLE} AS t (id, name, owner, token, tokens, expires, refused)
    VALUES ($1::bytea, $4::text, NULL, 0, 0, {_NOW},
        jsonb_build_object($3::text, {_EPOCH} + {TOMBSTONE}))
    ON CONFLICT (id) DO UPDATE SET
        owner = CASE WHEN {_OTHERS} THEN t.owner END,
        expires = CASE WHEN {_OTHERS} THEN t.expires ELSE {_NOW} END,
        waiting_until = CASE WHEN {_OTHERS} THEN t.waiting_until END,
        freed_by = CASE WHEN {_MINE} THEN t.owner ELSE t.freed_by END,
        refused = coalesce({_NEEDED}, '{{}}') || excluded.refused)
SELECT coalesce({_MINE} OR t.freed_by = $3::text, false) AS held,
    CASE WHEN t.id IS NULL OR t.waiting_until > {_NOW} AND ({_OTHERS}) IS NOT TRUE
        THEN {_RING} END
FROM (VALUES (1)) AS once LEFT JOIN before AS t ON true"""

_ENTRIES: Final = """
unnest($1::bytea[], $2::text[], $3::bigint[], $4::float8[], $5::bigint[])
    AS entry (id, owner, token, lease, seen)"""
_SAME_HOLD: Final = f"""
t.id = entry.id AND t.owner = entry.owner AND t.token = entry.token AND t.expires > {_NOW}"""
_END: Final = "(extract(epoch FROM t.expires) * 1000000)::bigint"
_KEPT: Final = f"t.id, t.owner, t.token, {_REMAINING} AS remaining, {_END} AS seen"

#: ids, owners, tokens, leases, ends -> the holds that are there, with what remains and their ends.
#:
#: With an end that was seen the lease is set, longer or shorter, unless that has changed since:
#: then there is no row. So a request that comes late undoes none that was made after it.
RENEW: Final = f"""
UPDATE {TABLE} AS t
SET expires = CASE WHEN entry.seen IS NULL
    THEN greatest(t.expires, {_NOW} + make_interval(secs => entry.lease))
    ELSE {_NOW} + make_interval(secs => entry.lease) END
FROM {_ENTRIES} WHERE {_SAME_HOLD} AND {_END} = coalesce(entry.seen, {_END})
RETURNING {_KEPT}"""

#: The same without a change, whatever is given as leases and ends.
CONFIRM: Final = f"""
SELECT {_KEPT}
FROM {_ENTRIES} JOIN {TABLE} AS t ON {_SAME_HOLD}"""

#: id -> the holder, if there is one.
LOOK: Final = f"""
SELECT owner, token, {_REMAINING} AS remaining FROM {TABLE}
WHERE id = $1::bytea AND owner IS NOT NULL AND expires > {_NOW}"""

#: id, owner, token -> a row if they hold it. In the user's transaction.
GUARD: Final = f"""
SELECT 1 FROM {TABLE}
WHERE id = $1::bytea AND owner = $2::text AND token = $3::bigint AND expires > clock_timestamp()
FOR KEY SHARE"""
