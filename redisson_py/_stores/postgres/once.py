"""The table of what is done once, and a statement for each question; the rules are those of `sql`.

Who runs it holds a lock of its own in the table of locks, whose row has the same id. A record is
written in one statement with a look at that lock, which it locks FOR KEY SHARE: until the
transaction of the record has ended, nobody else is granted the lock, and who is granted it then
sees the record. A record whose `expires` is past is none. It is kept all the same: a repetition of
the statement that wrote it must find that it was written, also if it was forgotten meanwhile.
"""

from __future__ import annotations

from typing import Final

from redisson_py._stores.postgres import operators, sql

TABLE: Final = "redisson_py_once"

_COMMENT: Final = """
What redisson_py has done once. One row for each name that was ever done; rows whose expires is more
than a day past may be deleted at any time."""

CREATE: Final = f"""\
CREATE TABLE IF NOT EXISTS {TABLE} (
    id pg_catalog.bytea PRIMARY KEY,
    name pg_catalog.text NOT NULL,
    owner pg_catalog.text NOT NULL,
    token pg_catalog.int8 NOT NULL,
    result pg_catalog.bytea NOT NULL,
    is_text pg_catalog.bool NOT NULL,
    expires pg_catalog.timestamptz NOT NULL
);
COMMENT ON TABLE {TABLE} IS '{" ".join(_COMMENT.split())}';"""

#: Fails if the table is missing, is another one, or must not be read.
CHECK: Final = f"SELECT id, name, owner, token, result, is_text, expires FROM {TABLE} WHERE false"

_EQ, _NE, _LE, _GT = operators.EQ, operators.NE, operators.LE, operators.GT
_PLUS, _MINUS = operators.PLUS, operators.MINUS
_NOW: Final = operators.NOW
_ID: Final = "$1::pg_catalog.bytea"
_OWNER: Final = "$3::pg_catalog.text"
_TOKEN: Final = "$4::pg_catalog.int8"

#: Another result that was recorded before, and whether it is text.
_OTHER: Final = f"""
CASE WHEN t.result {_NE} (SELECT result FROM given) OR t.is_text {_NE} (SELECT is_text FROM given)
    THEN t.result END AS other, t.is_text"""

_SAME: Final = f"(t.token {_EQ} excluded.token AND t.owner {_EQ} excluded.owner)"

#: id -> the record, if it is done.
FIND: Final = f"""
SELECT token, result, is_text FROM {TABLE} WHERE id {_EQ} {_ID} AND expires {_GT} {_NOW}"""

#: id -> what `inspect` shows of the record, if it is done.
LOOK: Final = f"""
SELECT token, pg_catalog.octet_length(result) AS size,
    extract(epoch FROM expires {_MINUS} {_NOW})::pg_catalog.float8 AS kept
FROM {TABLE} WHERE id {_EQ} {_ID} AND expires {_GT} {_NOW}"""

#: id, name, owner, token, result, is_text, keep -> a row, if it is recorded now or
#: was by an earlier copy of this; no row: the owner does not run it. In the row is the result that
#: an earlier request of this owner recorded, if it is another one.
#:
#: A copy that runs beside the first one waits for it, and finds a row of its own owner, which it
#: leaves as it is.
COMPLETE: Final = f"""
WITH given AS (
    SELECT $5::pg_catalog.bytea AS result, $6::pg_catalog.bool AS is_text
), running AS (
    SELECT id FROM {sql.TABLE}
    WHERE id {_EQ} {_ID} AND owner {_EQ} {_OWNER} AND token {_EQ} {_TOKEN}
        AND expires {_GT} pg_catalog.clock_timestamp()
    FOR KEY SHARE
), recorded AS (
    INSERT INTO {TABLE} AS t (id, name, owner, token, result, is_text, expires)
    SELECT {_ID}, $2::pg_catalog.text, {_OWNER}, {_TOKEN}, given.result, given.is_text,
        {_NOW} {_PLUS} pg_catalog.make_interval(secs => $7::pg_catalog.float8)
    FROM running, given
    ON CONFLICT (id) DO UPDATE SET
        name = excluded.name, owner = excluded.owner, token = excluded.token,
        result = CASE WHEN {_SAME} THEN t.result ELSE excluded.result END,
        is_text = CASE WHEN {_SAME} THEN t.is_text ELSE excluded.is_text END,
        expires = CASE WHEN {_SAME} THEN t.expires ELSE excluded.expires END
    WHERE t.expires {_LE} {_NOW} OR {_SAME}
    RETURNING {_OTHER}
)
SELECT other, is_text FROM recorded
UNION ALL
SELECT {_OTHER} FROM {TABLE} AS t
WHERE id {_EQ} {_ID} AND owner {_EQ} {_OWNER} AND token {_EQ} {_TOKEN}
    AND NOT EXISTS (SELECT FROM recorded)"""

#: id, token -> a row, if it was done with this token and is forgotten now.
FORGET: Final = f"""
UPDATE {TABLE} SET expires = {_NOW}
WHERE id {_EQ} {_ID} AND token {_EQ} $2::pg_catalog.int8 AND expires {_GT} {_NOW}
RETURNING 1"""
