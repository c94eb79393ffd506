"""The table of what several may hold at once, and one statement for each question.

Read-write locks and semaphores: a row for each, with who holds it and who waits. The rules of `sql`
hold here too. What they add:

- A statement locks the row first (`found`) and reads nothing else. So it decides on the newest
  version, and writes it whole. The row must be there: `MAKE` makes it.
- Everything in the row has an end by the server's clock: holds, waiters, calls, tombstones,
  receipts. Each statement drops what has ended before it decides.
- Who waits is served in order (`ahead`): a reader waits for a writer that came before it, and one
  who wants few permits for one who came before and wants many. So nobody starves.
- Each statement that changes something ends by calling all that may go on (`_CALLS`): they have
  `queue.CALL_TIME` to ask. One that does not is passed over from then on, until it asks again, in
  its place. The first that may not go on yet looks after that time whether that happened.
- A waiter without a station cannot be called: it polls, and has until its next poll.

The cost of a statement grows with the number of holders and waiters of its row.
"""

from __future__ import annotations

from typing import Final

from redisson_py._options import TOMBSTONE
from redisson_py._stores.postgres import operators, queue

SHARED_TABLE: Final = "redisson_py_shared"

#: Seconds after which a waiter that polls, and has not asked again, is no waiter any more.
_POLLER_TIME: Final = 5.0

_COMMENT: Final = """\
Read-write locks and semaphores of redisson_py. One row for each that was ever used; all moments
are microseconds of the epoch by the clock of this server."""

_COLUMN_COMMENTS: Final = {
    "id": "SHA-256 of the kind and the name in UTF-8",
    "name": "the name, for people",
    "kind": "read-write lock or semaphore",
    "total": "how many permits the semaphore has, taken ones included; null: it does not exist",
    "holds": "owner -> m: reads (r), writes (w), has permits (p); n: how many; e: its end; t: when"
    " it was granted; w: the writer under which it reads",
    "waits": "joined, station, owner -> m, n as in holds; e: until when it counts; c: it was"
    " called, and may take what is free until then",
    "refused": "owners that gave up without an answer, and until when they are refused",
    "receipts": "changes of total: r: the result; e: until when it is remembered",
}

CREATE: Final = "\n".join(
    [
        f"""\
CREATE TABLE IF NOT EXISTS {SHARED_TABLE} (
    id pg_catalog.bytea PRIMARY KEY,
    name pg_catalog.text NOT NULL,
    kind pg_catalog.text NOT NULL,
    total pg_catalog.int8,
    holds pg_catalog.jsonb NOT NULL DEFAULT '{{}}',
    waits pg_catalog.jsonb NOT NULL DEFAULT '{{}}',
    refused pg_catalog.jsonb NOT NULL DEFAULT '{{}}',
    receipts pg_catalog.jsonb NOT NULL DEFAULT '{{}}'
) WITH (fillfactor = 50);""",
        f"COMMENT ON TABLE {SHARED_TABLE} IS '{' '.join(_COMMENT.split())}';",
        *(
            f"COMMENT ON COLUMN {SHARED_TABLE}.{column} IS '{text}';"
            for column, text in _COLUMN_COMMENTS.items()
        ),
    ]
)

#: Fails if the table is missing, is another one, or must not be read.
CHECK: Final = f"""
SELECT id, name, kind, total, holds, waits, refused, receipts FROM {SHARED_TABLE} WHERE false"""

_EQ, _NE, _LT, _LE, _GT = (
    operators.EQ,
    operators.NE,
    operators.LT,
    operators.LE,
    operators.GT,
)
_GE: Final = "OPERATOR(pg_catalog.>=)"
_PLUS, _MINUS, _TIMES = operators.PLUS, operators.MINUS, operators.TIMES
_CONCAT, _HAS_KEY, _GET = operators.CONCAT, operators.HAS_KEY, operators.GET
_NOW: Final = operators.microseconds(operators.EPOCH)

_ID: Final = "$1::pg_catalog.bytea"
_OWNER: Final = "$2::pg_catalog.text"
_NONE: Final = "'{}'::pg_catalog.jsonb"


def _in(seconds: str) -> str:
    """Return the moment in that many seconds."""
    return f"({_NOW} {_PLUS} pg_catalog.floor({seconds} {_TIMES} 1000000)::pg_catalog.int8)"


def _text(value: str, key: str) -> str:
    return f"({value} {_GET} '{key}'::pg_catalog.text)"


def _number(value: str, key: str) -> str:
    return f"{_text(value, key)}::pg_catalog.int8"


def _is(mode: str, which: str) -> str:
    return f"{mode} {_EQ} '{which}'::pg_catalog.text"


#: Seconds that a called waiter has, from its station.
_CALL_TIME: Final = f"""\
CASE WHEN station {_EQ} ''::pg_catalog.text THEN {2 * queue.POLL_SECONDS}::pg_catalog.float8
    ELSE {queue.CALL_TIME}::pg_catalog.float8 END"""

#: The row, locked; its holds and waiters that have not ended.
_FOUND: Final = f"""
WITH found AS (
    SELECT id, total, holds, waits, refused, receipts FROM {SHARED_TABLE} WHERE id {_EQ} {_ID}
    FOR NO KEY UPDATE
), hold AS (
    SELECT each.key AS owner, {_text("each.value", "m")} AS mode,
        {_number("each.value", "n")} AS units, {_number("each.value", "e")} AS ends,
        {_number("each.value", "t")} AS token, {_text("each.value", "w")} AS under, each.value
    FROM found, pg_catalog.jsonb_each(found.holds) AS each
    WHERE {_number("each.value", "e")} {_GT} {_NOW}
), wait AS (
    SELECT each.key COLLATE pg_catalog."C" AS key,
        pg_catalog.split_part(each.key, ' '::pg_catalog.text, 2) AS station,
        pg_catalog.split_part(each.key, ' '::pg_catalog.text, 3) AS owner,
        {_text("each.value", "m")} AS mode, {_number("each.value", "n")} AS units,
        {_number("each.value", "e")} AS ends, {_number("each.value", "c")} AS called
    FROM found, pg_catalog.jsonb_each(found.waits) AS each
    WHERE {_number("each.value", "e")} {_GT} {_NOW}
)"""

#: Of `kept_hold`, `kept_wait` and the `total` of `verdict`: who may go on, in order. A waiter that
#: was called in vain counts no more.
_CALLS: Final = f"""
counting AS (
    SELECT key, station, owner, mode, units, called,
        pg_catalog.sum(units) OVER ahead AS wanted,
        pg_catalog.row_number() OVER ahead AS nth,
        pg_catalog.count(*) FILTER (WHERE {_is("mode", "w")}) OVER ahead AS writers
    FROM kept_wait WHERE called IS NULL OR called {_GT} {_NOW}
    WINDOW ahead AS (ORDER BY key)
), judged AS (
    SELECT counting.*, coalesce(
        CASE WHEN {_is("mode", "r")} THEN writers {_EQ} 0 AND NOT EXISTS (
                SELECT FROM kept_hold WHERE {_is("kept_hold.mode", "w")})
            WHEN {_is("mode", "w")} THEN nth {_EQ} 1 AND NOT EXISTS (SELECT FROM kept_hold)
            ELSE wanted {_LE} ((SELECT verdict.total FROM verdict)
                {_MINUS} coalesce((SELECT pg_catalog.sum(units) FROM kept_hold), 0))
        END, false) AS free
    FROM counting
), calling AS (
    SELECT key, station, owner FROM judged WHERE free AND called IS NULL
), watcher AS (
    SELECT key, station, owner FROM judged WHERE NOT free ORDER BY key LIMIT 1
), changed AS (
    SELECT
        coalesce((SELECT pg_catalog.jsonb_object_agg(owner, value) FROM kept_hold), {_NONE})
            AS holds,
        coalesce((
            SELECT pg_catalog.jsonb_object_agg(key, pg_catalog.jsonb_build_object(
                'm', mode, 'n', units, 'e', ends, 'c',
                CASE WHEN EXISTS (SELECT FROM calling WHERE calling.key {_EQ} kept_wait.key)
                    THEN {_in(_CALL_TIME)} ELSE called END))
            FROM kept_wait), {_NONE}) AS waits,
        coalesce((
            SELECT pg_catalog.jsonb_object_agg(each.key, each.value)
            FROM found, pg_catalog.jsonb_each(found.refused) AS each
            WHERE each.value::pg_catalog.int8 {_GT} {_NOW}), {_NONE}) AS refused,
        coalesce((
            SELECT pg_catalog.jsonb_object_agg(each.key, each.value)
            FROM found, pg_catalog.jsonb_each(found.receipts) AS each
            WHERE {_number("each.value", "e")} {_GT} {_NOW}), {_NONE}) AS receipts
)"""


def _tell(source: str, message: str) -> str:
    """Return the sending of a message to each waiter of a table expression."""
    return f"""(
        SELECT pg_catalog.count(pg_catalog.pg_notify(
            pg_catalog.concat('{queue.CHANNEL}', station), pg_catalog.concat('{message}',
            pg_catalog.encode({_ID}, 'hex'::pg_catalog.text), ' ', owner))::pg_catalog.text)
        FROM {source} AS waiter WHERE station {_NE} ''::pg_catalog.text)"""


_TELL: Final = f"""
    {_tell("calling", queue.ASK_NOW)} AS rang,
    CASE WHEN EXISTS (SELECT FROM calling) THEN {_tell("watcher", queue.WATCH)} END AS watching"""

#: id, name, kind -> makes the row unless it is there.
MAKE: Final = f"""
INSERT INTO {SHARED_TABLE} (id, name, kind)
VALUES ({_ID}, $2::pg_catalog.text, $3::pg_catalog.text) ON CONFLICT (id) DO NOTHING"""

_MODE: Final = "$3::pg_catalog.text"
_UNITS: Final = "$4::pg_catalog.int8"
_STATION: Final = "$6::pg_catalog.text"
_UNDER: Final = "$7::pg_catalog.text"
_ASKER: Final = f"""\
pg_catalog.concat(coalesce(
    (SELECT pg_catalog.min(pg_catalog.split_part(key, ' '::pg_catalog.text, 1))
        FROM wait WHERE owner {_EQ} {_OWNER}),
    {_NOW}::pg_catalog.text), ' ', {_STATION}, ' ', {_OWNER})"""

#: id, owner, mode, units, lease, station, under, permits, compares -> what came of it; no row:
#: there is none.
#:
#: With a station it waits if it is not granted; the station '' is that of one who polls. Who does
#: not wait comes after all who do.
ASK: Final = f"""{_FOUND}, me AS (
    SELECT (CASE WHEN {_STATION} IS NULL THEN '~' ELSE {_ASKER} END) COLLATE pg_catalog."C" AS key,
        EXISTS (SELECT FROM hold WHERE owner {_EQ} {_OWNER}) AS had,
        coalesce((found.refused {_GET} {_OWNER})::pg_catalog.int8
            {_GT} {_NOW}, false) AS refused,
        coalesce(found.total, $8::pg_catalog.int8) AS total,
        coalesce($9::pg_catalog.bool AND found.total {_NE} $8::pg_catalog.int8, false) AS disagrees
    FROM found
), ahead AS (
    SELECT wait.* FROM wait, me
    WHERE wait.owner {_NE} {_OWNER} AND wait.key {_LT} me.key
        AND (called IS NULL OR called {_GT} {_NOW})
), verdict AS (
    SELECT me.*, NOT me.had AND NOT me.refused AND NOT me.disagrees AND coalesce(
        CASE WHEN {_is(_MODE, "r")} THEN
                EXISTS (SELECT FROM hold WHERE owner {_EQ} {_UNDER} AND {_is("mode", "w")})
                OR NOT EXISTS (SELECT FROM hold WHERE {_is("mode", "w")})
                    AND NOT EXISTS (SELECT FROM ahead WHERE {_is("mode", "w")})
            WHEN {_is(_MODE, "w")} THEN
                NOT EXISTS (SELECT FROM hold) AND NOT EXISTS (SELECT FROM ahead)
            ELSE {_UNITS} {_LE} (me.total
                {_MINUS} coalesce((SELECT pg_catalog.sum(units) FROM hold), 0)
                {_MINUS} coalesce((SELECT pg_catalog.sum(units) FROM ahead), 0))
        END, false) AS granted
    FROM me
), kept_hold AS (
    SELECT owner, mode, units, ends, value FROM hold
    UNION ALL
    SELECT {_OWNER}, {_MODE}, {_UNITS}, {_in("$5::pg_catalog.float8")},
        pg_catalog.jsonb_build_object('m', {_MODE}, 'n', {_UNITS},
            'e', {_in("$5::pg_catalog.float8")}, 't', {_NOW}, 'w', {_UNDER})
    FROM verdict WHERE granted
), kept_wait AS (
    SELECT key, station, owner, mode, units, ends, called FROM wait WHERE owner {_NE} {_OWNER}
    UNION ALL
    SELECT key, {_STATION}, {_OWNER}, {_MODE}, {_UNITS},
        CASE WHEN {_STATION} {_EQ} ''::pg_catalog.text
            THEN {_in(f"{_POLLER_TIME}::pg_catalog.float8")}
            ELSE {_in(f"{queue.WAITER_TIME}::pg_catalog.float8")} END, NULL::pg_catalog.int8
    FROM verdict
    WHERE NOT granted AND NOT had AND NOT refused AND NOT disagrees AND {_STATION} IS NOT NULL
), {_CALLS}, written AS (
    UPDATE {SHARED_TABLE} AS t
    SET holds = changed.holds, waits = changed.waits, refused = changed.refused,
        receipts = changed.receipts, total = verdict.total
    FROM changed, verdict WHERE t.id {_EQ} {_ID}
        AND (granted OR {_STATION} IS NOT NULL AND NOT had OR EXISTS (SELECT FROM calling)
            OR t.total IS NULL AND verdict.total IS NOT NULL)
    RETURNING t.id
)
SELECT verdict.granted OR verdict.had AS granted, verdict.refused,
    verdict.total, verdict.disagrees,
    hold.token, (coalesce(hold.ends, {_in("$5::pg_catalog.float8")}) {_MINUS} {_NOW})
        ::pg_catalog.float8 AS remaining, {_NOW} AS moment,
    (SELECT nth FROM judged WHERE judged.key {_EQ} verdict.key) AS nth,
    coalesce(watcher.key {_EQ} verdict.key, false) AS first_blocked,
    EXISTS (SELECT FROM judged WHERE free) AS called,
    (SELECT (CASE WHEN {_is(_MODE, "p")} THEN pg_catalog.min(ends) ELSE pg_catalog.max(ends) END
        {_MINUS} {_NOW})::pg_catalog.float8
        FROM hold WHERE NOT {_is(_MODE, "r")} OR {_is("hold.mode", "w")}) AS held_for,{_TELL}
FROM verdict LEFT JOIN hold ON hold.owner {_EQ} {_OWNER} LEFT JOIN watcher ON true"""

#: What ends a change of the holds or the waiters.
_WRITE: Final = f"""
written AS (
    UPDATE {SHARED_TABLE} AS t
    SET holds = changed.holds, waits = changed.waits, receipts = changed.receipts,
        total = verdict.total, refused = changed.refused {_CONCAT} verdict.refuses
    FROM changed, verdict WHERE t.id {_EQ} {_ID} AND verdict.writes
    RETURNING t.id
)
SELECT verdict.result,{_TELL}
FROM verdict"""

#: id, owner, unsure -> whether it held; no row: there is none. If unsure it is refused then.
GIVE_BACK: Final = f"""{_FOUND}, verdict AS (
    SELECT EXISTS (SELECT FROM hold WHERE owner {_EQ} {_OWNER}) AS result, found.total,
        $3::pg_catalog.bool OR EXISTS (SELECT FROM hold WHERE owner {_EQ} {_OWNER})
            OR EXISTS (SELECT FROM wait WHERE owner {_EQ} {_OWNER}) AS writes,
        CASE WHEN $3::pg_catalog.bool THEN pg_catalog.jsonb_build_object(
            {_OWNER}, {_in(f"{TOMBSTONE}::pg_catalog.float8")}) ELSE {_NONE} END AS refuses
    FROM found
), kept_hold AS (
    SELECT owner, mode, units, value FROM hold WHERE owner {_NE} {_OWNER}
), kept_wait AS (
    SELECT key, station, owner, mode, units, ends, called FROM wait WHERE owner {_NE} {_OWNER}
), {_CALLS}, {_WRITE}"""

#: id, owner, units -> whether it is there. It has no more units than these afterwards.
LOWER: Final = f"""{_FOUND}, verdict AS (
    SELECT EXISTS (SELECT FROM hold WHERE owner {_EQ} {_OWNER}) AS result, found.total,
        EXISTS (SELECT FROM hold WHERE owner {_EQ} {_OWNER} AND units {_GT} $3::pg_catalog.int8)
            AS writes, {_NONE} AS refuses
    FROM found
), kept_hold AS (
    SELECT owner, mode, CASE WHEN owner {_EQ} {_OWNER}
            THEN least(units, $3::pg_catalog.int8) ELSE units END AS units,
        CASE WHEN owner {_EQ} {_OWNER} THEN value {_CONCAT} pg_catalog.jsonb_build_object(
            'n', least(units, $3::pg_catalog.int8)) ELSE value END AS value
    FROM hold
), kept_wait AS (SELECT * FROM wait), {_CALLS}, {_WRITE}"""

#: id, owners and the moments of their grants, as text -> whether any was there. Those holds end.
FORCE_RELEASE: Final = f"""{_FOUND}, ending AS (
    SELECT owner FROM hold
    WHERE pg_catalog.concat(owner, ' ', token) {_EQ} ANY ($2::pg_catalog.text[])
), verdict AS (
    SELECT EXISTS (SELECT FROM ending) AS result, found.total,
        EXISTS (SELECT FROM ending) AS writes, {_NONE} AS refuses
    FROM found
), kept_hold AS (
    SELECT owner, mode, units, value FROM hold
    WHERE NOT EXISTS (SELECT FROM ending WHERE ending.owner {_EQ} hold.owner)
), kept_wait AS (SELECT * FROM wait), {_CALLS}, {_WRITE}"""

_HELD_UNITS: Final = "coalesce((SELECT pg_catalog.sum(units) FROM hold), 0)::pg_catalog.int8"


def _when(verb: str) -> str:
    return f"$3::pg_catalog.text {_EQ} '{verb}'::pg_catalog.text"


#: id, request, verb, n, start -> the result; no row: there is none. Once for each request.
CHANGE: Final = f"""{_FOUND}, asked AS (
    SELECT found.*, found.receipts {_HAS_KEY} $2::pg_catalog.text AS done,
        CASE WHEN {_when("add")} OR {_when("drain")}
            THEN coalesce(found.total, $5::pg_catalog.int8, 0) ELSE found.total END AS before
    FROM found
), outcome AS (
    SELECT asked.done,
        CASE WHEN done THEN total
            WHEN {_when("make")} THEN coalesce(total, $4::pg_catalog.int8)
            WHEN {_when("set")} THEN $4::pg_catalog.int8
            WHEN {_when("add")} THEN before {_PLUS} $4::pg_catalog.int8
            WHEN {_when("drain")} THEN {_HELD_UNITS} END AS total,
        CASE WHEN done THEN {_number("(receipts OPERATOR(pg_catalog.->) $2::pg_catalog.text)", "r")}
            WHEN {_when("make")} THEN (total IS NULL)::pg_catalog.int4::pg_catalog.int8
            WHEN {_when("drain")} THEN greatest(before {_MINUS} {_HELD_UNITS}, 0)
            WHEN {_when("delete")} THEN (total IS NOT NULL)::pg_catalog.int4::pg_catalog.int8
            ELSE 0 END AS result
    FROM asked
), verdict AS (
    SELECT outcome.result, outcome.total, NOT outcome.done AS writes, {_NONE} AS refuses
    FROM outcome
), kept_hold AS (
    SELECT owner, mode, units, value FROM hold, outcome
    WHERE outcome.done OR NOT {_when("delete")}
), kept_wait AS (SELECT * FROM wait), {_CALLS}, written AS (
    UPDATE {SHARED_TABLE} AS t
    SET holds = changed.holds, waits = changed.waits, refused = changed.refused,
        total = verdict.total,
        receipts = changed.receipts {_CONCAT} pg_catalog.jsonb_build_object($2::pg_catalog.text,
            pg_catalog.jsonb_build_object('r', verdict.result,
                'e', {_in(f"{TOMBSTONE}::pg_catalog.float8")}))
    FROM changed, verdict WHERE t.id {_EQ} {_ID} AND verdict.writes
    RETURNING t.id
), void AS (
    SELECT key, station, owner FROM kept_wait WHERE {_when("delete")}
)
SELECT verdict.result,{_TELL}, {_tell("void", queue.ASK_NOW)} AS voided
FROM verdict"""

_ENTRIES: Final = """
    SELECT pg_catalog.decode(given.id, 'hex') AS id, given.owner,
        given.token::pg_catalog.int8 AS token, given.lease::pg_catalog.float8 AS lease,
        given.seen::pg_catalog.int8 AS seen
    FROM ROWS FROM (
        pg_catalog.unnest($1::pg_catalog.text[]), pg_catalog.unnest($2::pg_catalog.text[]),
        pg_catalog.unnest($3::pg_catalog.text[]), pg_catalog.unnest($4::pg_catalog.text[]),
        pg_catalog.unnest($5::pg_catalog.text[])
    ) AS given (id, owner, token, lease, seen)"""
_HOLD: Final = "(found.holds OPERATOR(pg_catalog.->) entry.owner)"
_END: Final = _number(_HOLD, "e")
_SAME_HOLD: Final = f"""\
{_END} {_GT} {_NOW} AND {_number(_HOLD, "t")} {_EQ} entry.token"""
_KEPT: Final = f"""\
SELECT id, owner, token,
    (ends {_MINUS} {_NOW})::pg_catalog.float8 {_TIMES} 0.000001::pg_catalog.float8 AS remaining,
    ends AS seen"""

#: As `sql.RENEW`. The rows are locked in one order: clients share them.
RENEW: Final = f"""
WITH entry AS ({_ENTRIES}
), found AS (
    SELECT t.id, t.holds FROM {SHARED_TABLE} AS t
    WHERE t.id {_EQ} ANY (ARRAY(SELECT entry.id FROM entry)) ORDER BY t.id FOR NO KEY UPDATE
), kept AS (
    SELECT found.id, entry.owner, entry.token, {_HOLD} AS value,
        CASE WHEN entry.seen IS NULL THEN greatest({_END}, {_in("entry.lease")})
            ELSE {_in("entry.lease")} END AS ends
    FROM entry JOIN found ON found.id {_EQ} entry.id
    WHERE {_SAME_HOLD} AND {_END} {_EQ} coalesce(entry.seen, {_END})
), written AS (
    UPDATE {SHARED_TABLE} AS t SET holds = fresh.holds
    FROM (
        SELECT found.id, found.holds {_CONCAT} (
            SELECT pg_catalog.jsonb_object_agg(kept.owner,
                kept.value {_CONCAT} pg_catalog.jsonb_build_object('e', kept.ends))
            FROM kept WHERE kept.id {_EQ} found.id) AS holds
        FROM found WHERE EXISTS (SELECT FROM kept WHERE kept.id {_EQ} found.id)
    ) AS fresh WHERE t.id {_EQ} fresh.id
    RETURNING t.id
)
{_KEPT} FROM kept"""

#: The same without a change.
CONFIRM: Final = f"""
WITH entry AS ({_ENTRIES}
), kept AS (
    SELECT found.id, entry.owner, entry.token, {_END} AS ends
    FROM entry JOIN {SHARED_TABLE} AS found ON found.id {_EQ} entry.id
    WHERE {_SAME_HOLD}
)
{_KEPT} FROM kept"""

#: id -> has the first two that wait ask again, because a hold ends sooner than they know.
RING: Final = f"""
WITH first AS (
    SELECT pg_catalog.split_part(each.key, ' '::pg_catalog.text, 2) AS station,
        pg_catalog.split_part(each.key, ' '::pg_catalog.text, 3) AS owner
    FROM {SHARED_TABLE} AS t, pg_catalog.jsonb_each(t.waits) AS each
    WHERE t.id {_EQ} {_ID}
    ORDER BY each.key COLLATE pg_catalog."C" LIMIT 2
)
SELECT {_tell("first", queue.ASK_NOW)} AS rang"""

#: id -> the number of permits, and a row for each holder and each waiter, in order.
LOOK: Final = f"""
WITH found AS (SELECT total, holds, waits FROM {SHARED_TABLE} WHERE id {_EQ} {_ID})
SELECT found.total, 'h' AS what, each.key AS owner, {_text("each.value", "m")} AS mode,
    {_number("each.value", "n")} AS units, {_number("each.value", "t")} AS token,
    {_text("each.value", "w")} AS under,
    ({_number("each.value", "e")} {_MINUS} {_NOW})::pg_catalog.float8
        {_TIMES} 0.000001::pg_catalog.float8 AS remaining, each.key AS nth
FROM found, pg_catalog.jsonb_each(found.holds) AS each
WHERE {_number("each.value", "e")} {_GT} {_NOW}
UNION ALL
SELECT found.total, 'w', pg_catalog.split_part(each.key, ' '::pg_catalog.text, 3),
    {_text("each.value", "m")}, {_number("each.value", "n")}, NULL, NULL, NULL, each.key
FROM found, pg_catalog.jsonb_each(found.waits) AS each
WHERE {_number("each.value", "e")} {_GT} {_NOW}
UNION ALL
SELECT found.total, 'n', NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM found
ORDER BY nth"""
