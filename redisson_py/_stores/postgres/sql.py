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
- The client queue is in the row too, see `queue`. Each entry has an end: dead clients vanish.
- Where there is none, the statements ending in `_PLAIN` decide: what starts up for a queue costs
  as much as they do.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from redisson_py._options import TOMBSTONE
from redisson_py._stores.postgres import operators, queue, shared_sql

#: Milliseconds for which an ask that may change the row waits for somebody who has locked it.
LOCK_WAIT_MS: Final = 200

#: The table in the constants of this module; `table.in_schema` says which one is meant.
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
    "waiting_until": "until then a client of an older version waits, and a release rings for all",
    "freed_by": "the owner that gave it back last: its answer, should it ask twice",
    "value": "of an election: who led last, a NUL, 8 bytes of a number, what it published",
    "refused": "owners that gave up without an answer, and until when (epoch) they are refused;"
    " waiters (joined, station, owner), and until when they count",
}


def schema_sql() -> str:
    """Return the SQL that creates what the store needs, for a role that may create tables.

    It may be run again: an older version's lacks the table of read-write locks and semaphores.
    """
    return f"{locks_sql()}\n{shared_sql.CREATE}"


def locks_sql() -> str:
    """Return the SQL that creates the table of locks."""
    comments = [f"COMMENT ON TABLE {TABLE} IS '{' '.join(_COMMENT.split())}';"]
    for column, text in _COLUMN_COMMENTS.items():
        comments.append(f"COMMENT ON COLUMN {TABLE}.{column} IS '{text}';")
    return "\n".join([_CREATE, *comments])


def add_value_sql() -> str:
    """Return the SQL that gives an older table what elections need, for its owner."""
    return f"ALTER TABLE {TABLE} ADD COLUMN IF NOT EXISTS value pg_catalog.bytea"


def no_table_for(call: str) -> str:
    """Return what a call says that does not see the tables, in a transaction of the user's."""
    return (
        f"the database of this transaction has no table {TABLE}, or not all that it needs: {call}"
        " works only in the database that keeps the locks"
    )


@cache
def without_bell(statement: str) -> str:
    """Return a statement that frees a row as one that rings for nobody, and calls nobody."""
    return statement.replace(_NOTIFY, "pg_catalog.concat(").replace(_CALLS, "false")


# Half of each page stays free: a new version of a row fits beside the old one, so that no index
# entry is written (HOT). That needs that no column but `id` is ever indexed.
_CREATE: Final = f"""\
CREATE TABLE IF NOT EXISTS {TABLE} (
    id pg_catalog.bytea PRIMARY KEY,
    name pg_catalog.text NOT NULL,
    owner pg_catalog.text,
    token pg_catalog.int8 NOT NULL,
    tokens pg_catalog.int8 NOT NULL,
    expires pg_catalog.timestamptz NOT NULL,
    waiting_until pg_catalog.timestamptz,
    freed_by pg_catalog.text,
    refused pg_catalog.jsonb,
    value pg_catalog.bytea
) WITH (fillfactor = 50);"""

#: Fails if the table is missing, is another one, or must not be read.
CHECK: Final = f"""
SELECT id, name, owner, token, tokens, expires, waiting_until, freed_by, refused
FROM {TABLE} WHERE false"""

#: Fails if the table was made before there were elections. Locks do without the column.
CHECK_VALUE: Final = f"SELECT value FROM {TABLE} WHERE false"
#: What elections need in such a table. It waits for no transaction of a user's, or all others would
#: wait for it.
ADD_VALUE: Final = f"""
SELECT pg_catalog.set_config('lock_timeout', '{LOCK_WAIT_MS}', true);
{add_value_sql()};"""

PING: Final = "SELECT 1"

_EQ, _NE, _LE, _GT = operators.EQ, operators.NE, operators.LE, operators.GT
_PLUS, _MINUS, _TIMES = operators.PLUS, operators.MINUS, operators.TIMES
_CONCAT, _HAS_KEY = operators.CONCAT, operators.HAS_KEY
_NOW, _EPOCH, _microseconds = operators.NOW, operators.EPOCH, operators.microseconds

#: search_path (null: that of the connection), table -> its schemas in their order: whether the
#: table is there, its owner, and whether we may trust them.
#:
#: The owner of a table can have code run by each role that writes it: triggers, rules, defaults.
#: Who created it where everybody may create is trusted if the schema, the database or the server
#: is theirs, or if we have their rights, unless we have those of all.
LOCATE: Final = f"""
WITH path AS MATERIALIZED (
    SELECT pg_catalog.current_schemas(false) AS names
    WHERE pg_catalog.set_config('search_path',
        coalesce($1::pg_catalog.text, pg_catalog.current_setting('search_path')), true) IS NOT NULL
)
SELECT schema.nspname::pg_catalog.text AS schema, found.oid IS NOT NULL AS there,
    owner.rolname::pg_catalog.text AS owner,
    owner.rolsuper OR owner.oid {_EQ} schema.nspowner
        OR pg_catalog.pg_has_role(owner.oid, 'USAGE')
            AND pg_catalog.current_setting('is_superuser') {_EQ} 'off'::pg_catalog.text
        OR owner.oid {_EQ} (SELECT datdba FROM pg_catalog.pg_database
            WHERE datname {_EQ} pg_catalog.current_database())
        OR NOT EXISTS (SELECT FROM pg_catalog.aclexplode(schema.nspacl) AS granted
            WHERE granted.grantee {_EQ} 0::pg_catalog.oid
                AND granted.privilege_type {_EQ} 'CREATE'::pg_catalog.text) AS trusted
FROM path, pg_catalog.unnest(path.names) WITH ORDINALITY AS listed (name, place)
JOIN pg_catalog.pg_namespace AS schema ON schema.nspname {_EQ} listed.name
LEFT JOIN pg_catalog.pg_class AS found
    ON found.relnamespace {_EQ} schema.oid AND found.relname {_EQ} $2::pg_catalog.name
LEFT JOIN pg_catalog.pg_roles AS owner ON owner.oid {_EQ} found.relowner
ORDER BY listed.place"""

_ID: Final = "$1::pg_catalog.bytea"
_CHANNEL: Final = "$2::pg_catalog.text"
_OWNER: Final = "$3::pg_catalog.text"


def _in(seconds: object) -> str:
    """Return the moment in that many seconds."""
    return f"({_NOW} {_PLUS} pg_catalog.make_interval(secs => {seconds}))"


_UNTIL_LEASE: Final = _in("$4::pg_catalog.float8")
_REMAINING: Final = f"extract(epoch FROM expires {_MINUS} {_NOW})::pg_catalog.float8"
_IS_REFUSED: Final = f"coalesce(refused {_HAS_KEY} {_OWNER}, false)"
_IS_FREE: Final = f"(owner IS NULL OR expires {_LE} {_NOW})"
_STATION: Final = "$6::pg_catalog.text"

# Of `ASK` and `ASK_PLAIN`; with a parameter, which a candidate of an election publishes.


def _inserted(value: str) -> str:
    column, given = (", value", f", {value}") if value else ("", "")
    return f"""
    INSERT INTO {TABLE} (id, name, owner, token, tokens, expires{column})
    SELECT {_ID}, $2::pg_catalog.text, {_OWNER}, {_microseconds(_EPOCH)}, $5::pg_catalog.int8,
        {_UNTIL_LEASE}{given}
    WHERE NOT EXISTS (SELECT FROM granted)
        AND NOT EXISTS (SELECT FROM {TABLE} WHERE id {_EQ} {_ID})
    ON CONFLICT (id) DO NOTHING
    RETURNING true, owner, token, tokens, expires, refused"""


def _grant(value: str) -> str:
    published = f", value = {value}" if value else ""
    return f"""
    SET owner = {_OWNER},
        token = greatest(t.token {_PLUS} t.tokens, {_microseconds(_EPOCH)}),
        tokens = $5::pg_catalog.int8, expires = {_UNTIL_LEASE}{published}"""


def _ask_plain(value: str = "") -> str:
    return f"""
WITH granted AS (
    UPDATE {TABLE} AS t{_grant(value)}
    WHERE t.id {_EQ} (
        SELECT id FROM {TABLE} WHERE id {_EQ} {_ID} AND {_IS_FREE} AND refused IS NULL
        FOR UPDATE SKIP LOCKED)
    RETURNING true AS granted, owner, token, tokens, expires, refused
), inserted AS ({_inserted(value)}
), seen AS (
    SELECT false, owner, token, tokens, expires, refused FROM {TABLE}
    WHERE id {_EQ} {_ID} AND refused IS NULL AND NOT EXISTS (SELECT FROM granted)
)
SELECT granted, owner, token, tokens, {_REMAINING} AS remaining
FROM (TABLE granted UNION ALL TABLE inserted UNION ALL TABLE seen) AS answer"""


def _ask(value: str = "") -> str:
    return f"""
WITH locked AS (
    SELECT id, owner, expires, refused FROM {TABLE}
    WHERE id {_EQ} {_ID} AND ({_STATION} IS NOT NULL OR {_IS_FREE})
        AND pg_catalog.set_config('lock_timeout', '{LOCK_WAIT_MS}', true) IS NOT NULL
    FOR NO KEY UPDATE
), granted AS (
    UPDATE {TABLE} AS t{_grant(value)},
        refused = {queue.without("t", _OWNER)}
    WHERE t.id {_EQ} (
        SELECT id FROM {TABLE}
        WHERE id {_EQ} (
            SELECT id FROM locked WHERE {_IS_FREE} AND NOT {_IS_REFUSED}
                AND ($7::pg_catalog.bool OR NOT {queue.is_reserved("locked", _OWNER)}))
        FOR UPDATE SKIP LOCKED)
    RETURNING true AS granted, owner, token, tokens, expires, refused
), inserted AS ({_inserted(value)}
), joined AS (
    UPDATE {TABLE} AS t
    SET refused = {queue.joined("t", _OWNER, _STATION)}
    WHERE {_STATION} IS NOT NULL AND t.id {_EQ} (
            SELECT id FROM locked WHERE (owner {_EQ} {_OWNER}) IS NOT TRUE AND NOT {_IS_REFUSED})
        AND NOT EXISTS (SELECT FROM granted)
    RETURNING false, owner, token, tokens, expires, refused
), seen AS (
    SELECT false, owner, token, tokens, expires, refused FROM {TABLE}
    WHERE id {_EQ} {_ID} AND NOT EXISTS (SELECT FROM granted)
        AND NOT EXISTS (SELECT FROM joined)
)
SELECT granted, owner, token, tokens, {_REMAINING} AS remaining, {_IS_REFUSED} AS refused,
    {queue.is_reserved("answer", _OWNER)} AS reserved, {queue.ahead("answer", _OWNER)} AS ahead
FROM (
    TABLE granted UNION ALL TABLE inserted UNION ALL TABLE joined UNION ALL TABLE seen
) AS answer"""


#: id, name, owner, lease, tokens -> whether it was granted now, and the row. `ASK` where nobody
#: waits or is refused; no row: somebody is, or the row is made or deleted at this moment.
ASK_PLAIN: Final = _ask_plain()
#: The same, and the value of a candidate.
CAMPAIGN_PLAIN: Final = _ask_plain("$6::pg_catalog.bytea")

#: id, name, owner, lease, tokens, station, barges -> whether it was granted now, and the row.
#:
#: With a station it joins the queue if it is not granted. If it barges, it may take what waits for
#: another. The row is locked first, unless it is held and nothing is to be written: `locked` then
#: has what the last change made of it, and no two asks step on each other.
ASK: Final = _ask()
#: The same, and the value of a candidate.
CAMPAIGN: Final = _ask("$8::pg_catalog.bytea")

_NOTIFY: Final = "pg_catalog.pg_notify("
_RINGS_ALL: Final = f"(mine AND coalesce(waiting_until {_GT} {_NOW}, false))"
_IS_MINE: Final = f"(owner {_EQ} {_OWNER}) IS TRUE"
_CALLS: Final = f"coalesce({queue.not_called('row', 'row.waiters[1]')}, false)"


def _freeing(whose: str, freed_by: str) -> str:
    """Return the beginning of a statement that frees a row, or has an owner leave the queue.

    `row` is the row as it was, locked: what an UPDATE returns is the row as it is afterwards.
    """
    return f"""
WITH locked AS (
    SELECT id, owner, expires, waiting_until, refused FROM {TABLE}
    WHERE id {_EQ} {_ID} AND {whose}
    FOR NO KEY UPDATE
), row AS (
    SELECT id, expires, waiting_until, refused, {_IS_MINE} AS mine,
        {_IS_MINE} OR {_IS_FREE} AS free,
        {queue.first_two("locked")} AS before, {queue.first_two("locked", _OWNER)} AS waiters
    FROM locked
), called AS (
    SELECT id, expires, waiting_until, refused, mine, free, before, waiters,
        free AND {_CALLS} AS calls
    FROM row
), freed AS (
    UPDATE {TABLE} AS t
    SET owner = CASE WHEN NOT called.mine THEN t.owner END,
        expires = CASE WHEN called.mine THEN least(t.expires, {_NOW}) ELSE t.expires END,
        waiting_until = CASE WHEN NOT called.mine THEN t.waiting_until END,
        freed_by = CASE WHEN called.mine THEN {freed_by} ELSE t.freed_by END,
        refused = {queue.without("called", _OWNER, "CASE WHEN calls THEN waiters[1] END")}
    FROM called WHERE t.id {_EQ} called.id
    RETURNING t.id, called.expires, called.waiting_until, called.mine, called.free, called.before,
        called.waiters, called.calls, t.refused IS NOT NULL AS crowded)
SELECT crowded, mine AND expires {_GT} {_NOW} AS held, {_RINGS_ALL} AS wanted,
    calls OR {_RINGS_ALL} AS rang,
    CASE WHEN {_RINGS_ALL} THEN {_NOTIFY}{_CHANNEL}, '') END,
    CASE WHEN calls THEN {queue.tell("waiters[1]", queue.ASK_NOW)}
        WHEN NOT free AND waiters[1] {_NE} before[1]
            THEN {queue.tell("waiters[1]", queue.WATCH)} END,
    CASE WHEN calls OR free AND waiters[2] {_NE} before[2]
        THEN {queue.tell("waiters[2]", queue.WATCH)} END
FROM freed"""


#: id, owner -> whether it held. `GIVE_BACK` where nobody waits or is refused; no row: somebody is,
#: or it is not the holder.
GIVE_BACK_PLAIN: Final = f"""
UPDATE {TABLE}
SET owner = NULL, expires = least(expires, {_NOW}),
    freed_by = CASE WHEN expires {_GT} {_NOW} THEN owner END
WHERE id {_EQ} {_ID} AND owner {_EQ} $2::pg_catalog.text AND refused IS NULL
    AND waiting_until IS NULL
RETURNING freed_by IS NOT NULL AS held"""

#: id, channel, owner -> whether it held; no row: it is not the holder, nor the last one, and does
#: not wait.
GIVE_BACK: Final = f"""{
    _freeing(
        f"(owner {_EQ} {_OWNER} OR {queue.is_waiter(TABLE, _OWNER)})",
        f"CASE WHEN t.expires {_GT} {_NOW} THEN t.owner END",
    )
}
UNION ALL
SELECT false, true, false, false, NULL, NULL, NULL FROM {TABLE}
WHERE id {_EQ} {_ID} AND freed_by {_EQ} {_OWNER} AND NOT EXISTS (SELECT FROM freed)"""

#: id, channel, owner, token -> whether it was held; no row: it was not. Late, it ends no other
#: hold. A token alone may repeat, if its row was deleted and the server's clock set back.
FORCE_RELEASE: Final = _freeing(
    f"owner {_EQ} {_OWNER} AND token {_EQ} $4::pg_catalog.int8", "NULL::pg_catalog.text"
)

_MINE: Final = f"(t.owner {_EQ} {_OWNER} AND t.expires {_GT} {_NOW})"
_OTHERS: Final = f"(t.owner {_NE} {_OWNER} AND t.expires {_GT} {_NOW})"
_RING_FIRST: Final = f"""\
CASE WHEN waiters[1] IS NOT NULL THEN {queue.tell("waiters[1]", queue.ASK_NOW)} END,
    CASE WHEN waiters[2] IS NOT NULL THEN {queue.tell("waiters[2]", queue.WATCH)} END"""

#: id, channel, owner, name -> whether it held. The owner is refused from then on.
#:
#: It writes the row even if nothing is held: a late request that has begun already finds a changed
#: row, or a row where there was none, and judges by that. If it made the row at this moment, it is
#: not in `before`: then this rings whether or not somebody waits. The first two waiters ask again,
#: and nothing is kept for them.
GIVE_BACK_UNSURE: Final = f"""
WITH before AS (
    SELECT id, owner, expires, waiting_until, freed_by FROM {TABLE} WHERE id {_EQ} {_ID}
    FOR NO KEY UPDATE
), freed AS (
    INSERT INTO {TABLE} AS t (id, name, owner, token, tokens, expires, refused)
    SELECT {_ID}, $4::pg_catalog.text, NULL, 0, 0, {_NOW},
        pg_catalog.jsonb_build_object({_OWNER}, {_EPOCH} {_PLUS} {TOMBSTONE})
    FROM (SELECT pg_catalog.count(*) FROM before) AS first
    ON CONFLICT (id) DO UPDATE SET
        owner = CASE WHEN {_OTHERS} THEN t.owner END,
        expires = CASE WHEN {_OTHERS} THEN t.expires ELSE {_NOW} END,
        waiting_until = CASE WHEN {_OTHERS} THEN t.waiting_until END,
        freed_by = CASE WHEN {_MINE} THEN t.owner ELSE t.freed_by END,
        refused = coalesce({queue.without("t", _OWNER)}, '{{}}'::pg_catalog.jsonb)
            {_CONCAT} excluded.refused
    RETURNING {queue.first_two("t")} AS waiters)
SELECT coalesce({_MINE} OR t.freed_by {_EQ} {_OWNER}, false) AS held,
    CASE WHEN t.id IS NULL OR t.waiting_until {_GT} {_NOW} AND {_OTHERS} IS NOT TRUE
        THEN {_NOTIFY}{_CHANNEL}, '') END,
    {_RING_FIRST}
FROM freed LEFT JOIN before AS t ON true"""

#: The holds of `RENEW` and `CONFIRM`. Arrays of text: for those of other types asyncpg asks the
#: server what they are, in SQL with bare names.
_ENTRIES: Final = """
(
    SELECT pg_catalog.decode(given.id, 'hex') AS id, given.owner,
        given.token::pg_catalog.int8 AS token, given.lease::pg_catalog.float8 AS lease,
        given.seen::pg_catalog.int8 AS seen
    FROM ROWS FROM (
        pg_catalog.unnest($1::pg_catalog.text[]), pg_catalog.unnest($2::pg_catalog.text[]),
        pg_catalog.unnest($3::pg_catalog.text[]), pg_catalog.unnest($4::pg_catalog.text[]),
        pg_catalog.unnest($5::pg_catalog.text[])
    ) AS given (id, owner, token, lease, seen)
) AS entry"""
_SAME_HOLD: Final = f"""
t.id {_EQ} entry.id AND t.owner {_EQ} entry.owner AND t.token {_EQ} entry.token
AND t.expires {_GT} {_NOW}"""
_END: Final = f"(extract(epoch FROM t.expires) {_TIMES} 1000000)::pg_catalog.int8"
_KEPT: Final = f"t.id, t.owner, t.token, {_REMAINING} AS remaining, {_END} AS seen"

#: ids in hexadecimal, owners, tokens, leases, ends, all as text -> the holds that are there, with
#: what remains and their ends.
#:
#: With an end that was seen the lease is set, longer or shorter, unless that has changed since:
#: then there is no row. So a request that comes late undoes none that was made after it.
RENEW: Final = f"""
UPDATE {TABLE} AS t
SET expires = CASE WHEN entry.seen IS NULL
    THEN greatest(t.expires, {_in("entry.lease")}) ELSE {_in("entry.lease")} END
FROM {_ENTRIES} WHERE {_SAME_HOLD} AND {_END} {_EQ} coalesce(entry.seen, {_END})
RETURNING {_KEPT}"""

#: The same without a change, whatever is given as leases and ends.
CONFIRM: Final = f"""
SELECT {_KEPT}
FROM {_ENTRIES} JOIN {TABLE} AS t ON {_SAME_HOLD}"""

#: id -> the holder, if it is held, and who waits, in order.
LOOK: Final = f"""
SELECT owner, token, {_REMAINING} AS remaining,
    owner IS NOT NULL AND expires {_GT} {_NOW} AS held, {queue.waiting(TABLE)} AS waiters
FROM {TABLE} WHERE id {_EQ} {_ID}"""

#: id -> the holder, if it is held, and what is published of it.
LEADER: Final = f"""
SELECT owner, token, {_REMAINING} AS remaining, value
FROM {TABLE} WHERE id {_EQ} {_ID} AND owner IS NOT NULL AND expires {_GT} {_NOW}"""

#: id, channel, owner, value -> a row if it leads. Values of one owner begin alike, then comes a
#: number that grows: so one that comes late changes nothing.
PROCLAIM: Final = f"""
UPDATE {TABLE} AS t SET value = greatest(t.value, $4::pg_catalog.bytea)
WHERE t.id {_EQ} {_ID} AND {_MINE}
RETURNING {_NOTIFY}{_CHANNEL}, '')"""

#: id, owner, token -> a row if they hold it. In the user's transaction.
GUARD: Final = f"""
SELECT 1 FROM {TABLE}
WHERE id {_EQ} {_ID} AND owner {_EQ} $2::pg_catalog.text AND token {_EQ} $3::pg_catalog.int8
    AND expires {_GT} pg_catalog.clock_timestamp()
FOR KEY SHARE"""

#: id, channel -> has those ask again that know another end of the hold.
RING: Final = f"""
SELECT CASE WHEN waiting_until {_GT} {_NOW} THEN {_NOTIFY}{_CHANNEL}, '') END, {_RING_FIRST}
FROM (
    SELECT waiting_until, {queue.first_two(TABLE)} AS waiters FROM {TABLE}
    WHERE id {_EQ} {_ID}
) AS t"""

#: channel, message -> sends it.
NOTIFY: Final = "SELECT pg_catalog.pg_notify($1::pg_catalog.text, $2::pg_catalog.text)"

#: -> a row if the queue for notifications is half full, when PostgreSQL itself warns. To ask makes
#: room in it: a queue that was full stays full when all have read it, until somebody asks.
IS_CROWDED: Final = f"SELECT 1 WHERE pg_catalog.pg_notification_queue_usage() {_GT} 0.5"
