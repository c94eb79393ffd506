"""The table, and every statement on it, for MySQL 8 and MariaDB 10.5 and newer alike.

Names, owners and their hashes are written as hexadecimal literals, so no setting of the server
(`sql_mode`, character sets) changes what they mean. All else in a statement is a number.

Several statements go as one query where the answer must be read back: MySQL has no `RETURNING`.
Each commits on its own. Every moment is the server's, in microseconds since 1970: `UTC_TIMESTAMP`
knows no time zone, and is the same on a replica that carries the statement out again. It is the
moment at which the statement began. One that waited for a row is therefore late by its own clock:
it takes an expired hold later, and promises a lease that ends sooner.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from redisson_py._stores.contract import Renewal
from redisson_py._stores.mysql import queue

TABLE = "redisson_py_locks"

#: Seconds for which an owner that gave back without knowing whether it held is refused, at least.
TOMBSTONE_TIME = 60.0

#: A hold that is renewed for more than ten years would not fit into the sum of two moments.
_MICRO = 1_000_000

_NOW = queue.NOW

CREATE = f"""\
CREATE TABLE IF NOT EXISTS {TABLE} (
  id BINARY(32) NOT NULL COMMENT 'SHA-256 of the name',
  name VARCHAR(4096) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  owner VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NULL COMMENT 'NULL: free',
  token BIGINT NOT NULL COMMENT 'first fencing token of the hold',
  last_token BIGINT NOT NULL COMMENT 'its last one; the next hold gets greater ones',
  expires BIGINT NOT NULL COMMENT 'end of the lease, in microseconds since 1970 (UTC); 0: free',
  released VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT ' '
    COMMENT 'owners that gave back lately, the newest first',
  refused TEXT CHARACTER SET ascii COLLATE ascii_bin NULL
    COMMENT 'owners that wait, and owners whose requests are refused if they come late',
  refused_until BIGINT NOT NULL DEFAULT 0 COMMENT 'then refused may be emptied',
  value LONGBLOB NULL COMMENT 'of an election: who led last, a NUL, 8 bytes, what it published',
  PRIMARY KEY (id)
) ENGINE=InnoDB COMMENT='Locks of redisson_py. A row whose expires and refused_until \
have passed may be deleted at any time.'"""

#: Sent on each new connection; the answer is how long a query may be. `READ COMMITTED` would not
#: work with a binary log of statements.
SETTINGS = (
    "SET SESSION autocommit = 1, sql_mode = 'STRICT_ALL_TABLES', innodb_lock_wait_timeout = 1,"
    " lock_wait_timeout = 1, sql_select_limit = 18446744073709551615,"
    " character_set_results = utf8mb4;"
    " SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE;"
    " SELECT GREATEST(@@SESSION.max_allowed_packet, @@SESSION.net_buffer_length)"
)

PING = "SELECT 1"

#: A row if a view has the name of the table: it runs its creator's functions, with the
#: user's rights, even if that reads no row.
IS_VIEW = f"""\
SELECT 1 FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name = '{TABLE}' AND table_type <> 'BASE TABLE'"""

#: Whether the table is there, with all its columns, and may be read.
CHECK = (
    "SELECT id, name, owner, token, last_token, expires, released, refused, refused_until"
    f" FROM {TABLE} LIMIT 0"
)

#: Fails if the table was made before there were elections. Locks do without the column.
CHECK_VALUE = f"SELECT value FROM {TABLE} LIMIT 0"
#: What elections need in such a table.
ADD_VALUE = f"ALTER TABLE {TABLE} ADD COLUMN value LONGBLOB NULL"

# A hold is free when `expires` has passed: that decides, and `owner` is for the holder. The server
# assigns from left to right, and each value may be that of before or after. So `expires` is
# assigned after all that depends on it, and nothing else depends on what is assigned before it.
_IS_FREE = f"expires <= {_NOW} AND {{is_open}}"

_ASK = f"""\
INSERT INTO {TABLE} (id, name, owner, token, last_token, expires{{column}})
VALUES ({{id}}, {{name}}, {{owner}}, {_NOW}, {_NOW} + {{more}}, {_NOW} + {{lease}}{{given}})
ON DUPLICATE KEY UPDATE
{{published}}  token = IF({_IS_FREE}, GREATEST(last_token + 1, {_NOW}), token),
  last_token = IF({_IS_FREE}, GREATEST(last_token + 1, {_NOW}) + {{more}}, last_token),
  owner = IF({_IS_FREE}, {{owner}}, owner),
  expires = IF({_IS_FREE}, {_NOW} + {{lease}}, expires);
SELECT {{answer}} FROM {TABLE} WHERE id = {{id}}"""

_ANSWER = f"""\
owner <=> {{owner}}, expires - {_NOW}, token, last_token - token + 1, refused IS NOT NULL"""

_MAY_TAKE = (
    f"expires <= {_NOW} AND {{reserved}} = 0 AND COALESCE(LOCATE({{entry}}, refused), 0) = 0"
)

# Here the queue is assigned last: it looks at the owner that holds the name then.
_ASK_IN_QUEUE = f"""\
UPDATE {TABLE} SET
{{published}}  token = IF({_MAY_TAKE}, GREATEST(last_token + 1, {_NOW}), token),
  last_token = IF({_MAY_TAKE}, GREATEST(last_token + 1, {_NOW}) + {{more}}, last_token),
  owner = IF({_MAY_TAKE}, {{owner}}, owner),
  expires = IF({_MAY_TAKE}, {_NOW} + {{lease}}, expires),
{{queue}}
WHERE id = {{id}};
SELECT {{answer}}, {{position}} FROM {TABLE} WHERE id = {{id}}"""

# The server lets many that wait for one row stand in each other's way.
_UNLESS_LOCKED = f"""\
SELECT 1 FROM {TABLE} WHERE id = {{id}} FOR UPDATE NOWAIT;
{{query}}"""

_POLL = f"""\
SELECT {{action}}, expires - {_NOW}, {{position}}, {{open_for}} FROM {TABLE} WHERE id = {{id}}"""

_GIVE_BACK = f"""\
UPDATE {TABLE}
SET owner = NULL, expires = 0, released = LEFT(CONCAT({{gone}}, released), 1024)
WHERE id = {{id}} AND owner = {{owner}} AND expires > {_NOW}"""

_HAS_RELEASED = f"SELECT LOCATE({{entry}}, released) > 0 FROM {TABLE} WHERE id = {{id}}"

_LEAVE = f"""\
UPDATE {TABLE} SET refused = NULLIF({{without}}, '') WHERE id = {{id}} AND {{waits}}"""

# `expires` and `released` look at the owner, which is assigned after them.
_GIVE_BACK_UNSURE = f"""\
INSERT INTO {TABLE} (id, name, owner, token, last_token, expires, refused, refused_until)
VALUES ({{id}}, {{name}}, NULL, 0, 0, 0, {{entry}}, {_NOW} + {{tombstone}})
ON DUPLICATE KEY UPDATE
  refused = IF(refused_until > {_NOW} AND refused IS NOT NULL,
    RIGHT(CONCAT({{without}}, {{entry}}), 65535), {{entry}}),
  refused_until = {_NOW} + {{tombstone}},
  released = IF(owner <=> {{owner}} AND expires > {_NOW},
    LEFT(CONCAT({{gone}}, released), 1024), released),
  expires = IF(owner <=> {{owner}}, 0, expires),
  owner = NULLIF(owner, {{owner}});
{_HAS_RELEASED}"""

_RENEW = f"""\
UPDATE {TABLE} SET expires = CASE {{changes}} ELSE expires END
WHERE id IN ({{ids}}) AND (id, owner, token) IN ({{holds}}) AND expires > {_NOW}"""

_SET_LEASE = f"""\
UPDATE {TABLE} SET expires = {_NOW} + {{lease}}
WHERE id = {{id}} AND owner = {{owner}} AND token = {{token}}
  AND expires = {{end}} AND expires > {_NOW}"""

_STILL_THERE = f"""\
SELECT id, owner, token, expires - {_NOW}, expires FROM {TABLE}
WHERE id IN ({{ids}}) AND (id, owner, token) IN ({{holds}}) AND expires > {_NOW}"""

_LOOK = f"""\
SELECT IF(expires > {_NOW}, owner, NULL), expires - {_NOW}, token, {queue.QUEUE}, {_NOW}
FROM {TABLE} WHERE id = {{id}}"""

_FORCE_RELEASE = f"""\
UPDATE {TABLE} SET owner = NULL, expires = 0
WHERE id = {{id}} AND token = {{token}} AND owner = {{owner}}"""

_LEADER = f"""\
SELECT owner, expires - {_NOW}, token, value FROM {TABLE}
WHERE id = {{id}} AND owner IS NOT NULL AND expires > {_NOW}"""

_PROCLAIM = f"""\
UPDATE {TABLE} SET value = IF(value > {{value}}, value, {{value}})
WHERE id = {{id}} AND owner = {{owner}} AND expires > {_NOW};
SELECT 1 FROM {TABLE} WHERE id = {{id}} AND owner = {{owner}} AND expires > {_NOW}"""


def ask(
    name: str,
    owner: str,
    lease: float,
    tokens: int,
    crowded: bool = False,
    value: bytes | None = None,
) -> str:
    """Return the query that takes a hold if it is free and nobody waits or is refused.

    `crowded`: somebody probably does. It is taken also where one that comes may go before them.
    `value`: what a candidate of an election publishes.

    Its second result is a row: whether this owner holds it, the microseconds that are left to its
    holder, the first token of its holder, the number of them, and whether somebody waits or is
    refused. No row: it was deleted just now.
    """
    is_open = queue.is_open(owner) if crowded else "refused IS NULL"
    return _ASK.format(
        id=key(name),
        name=_name(name),
        owner=queue.text(owner),
        lease=_micro(lease),
        more=tokens - 1,
        is_open=is_open,
        answer=_answer(owner),
        column="" if value is None else ", value",
        given="" if value is None else f", {_hexadecimal(value)}",
        published=_publishes(_IS_FREE.format(is_open=is_open), value),
    )


def ask_in_queue(
    name: str,
    owner: str,
    lease: float,
    tokens: int,
    patience: tuple[float, float] | None,
    value: bytes | None = None,
) -> str:
    """Return the query that takes a hold if it is free, and nobody goes first.

    With a patience, the seconds for which a free name waits for this owner once it is the first, it
    joins the queue if it does not get the hold: see `queue.after_ask`. The second result is that of
    `ask`, with how many come before it in the queue (null: it is not there).
    """
    entry, reserved = queue.tombstone(owner), queue.is_reserved(owner)
    return _ASK_IN_QUEUE.format(
        id=key(name),
        owner=queue.text(owner),
        entry=entry,
        reserved=reserved,
        published=_publishes(_MAY_TAKE.format(entry=entry, reserved=reserved), value),
        queue=queue.after_ask(owner, patience),
        lease=_micro(lease),
        more=tokens - 1,
        answer=_answer(owner),
        position=queue.position(owner),
    )


def unless_locked(name: str, query: str) -> str:
    """Return a query that is refused at once while another writes the row of the name."""
    return _UNLESS_LOCKED.format(id=key(name), query=query)


def poll(name: str, owner: str, patience: float) -> str:
    """Return the statement that tells a waiter whether to ask. It changes and locks nothing.

    Its row: whether an ask would change anything, the microseconds that are left to the holder, how
    many come before the waiter, and for how many microseconds those that come may.
    """
    return _POLL.format(
        id=key(name),
        action=queue.calls_for_action(owner, patience),
        position=queue.position(owner),
        open_for=queue.open_for(owner),
    )


def leave(name: str, owner: str) -> str:
    """Return the statement that takes an owner that does not hold out of the queue."""
    return _LEAVE.format(
        id=key(name), without=queue.without("refused", owner), waits=queue.is_waiter(owner)
    )


def give_back(name: str, owner: str) -> str:
    """Return the statement that ends a hold; it changes one row if there was one."""
    return _GIVE_BACK.format(id=key(name), owner=queue.text(owner), gone=_gone(owner))


def leave_or_released(name: str, owner: str) -> str:
    """Return the query of `leave` that tells in the end whether the owner gave back lately."""
    released = _HAS_RELEASED.format(id=key(name), entry=queue.tombstone(owner))
    return f"{leave(name, owner)};\n{released}"


def give_back_unsure(name: str, owner: str) -> str:
    """Return the query that ends a hold and refuses later requests of its owner.

    Its second result is whether the owner gave back a hold, now or lately.
    """
    return _GIVE_BACK_UNSURE.format(
        id=key(name),
        name=_name(name),
        owner=queue.text(owner),
        entry=queue.tombstone(owner),
        gone=_gone(owner),
        without=queue.without("refused", owner),
        tombstone=_micro(TOMBSTONE_TIME),
    )


def still_there(batch: Sequence[Renewal]) -> str:
    """Return the statement that looks for holds.

    It has a row for each that is there: id, owner, token, microseconds left, the end by the clock.
    """
    return _STILL_THERE.format(ids=_ids(batch), holds=_holds(batch))


def renew(batch: Sequence[Renewal]) -> str:
    """Return the query that renews holds, none of them exactly; its last result: `still_there`."""
    changed = [each for each in batch if each.lease > 0]
    if not changed:
        return still_there(batch)
    update = _RENEW.format(
        changes=" ".join(map(_change, changed)), ids=_ids(changed), holds=_holds(changed)
    )
    return f"{update};\n{still_there(batch)}"


def set_lease(renewal: Renewal, end: int) -> str:
    """Return the query that sets an exact lease in the place of the one that ends at `end`.

    It changes one row if there was one. Late, it replaces no later lease. Its last result is
    `still_there`.
    """
    update = _SET_LEASE.format(
        id=key(renewal.name),
        owner=queue.text(renewal.owner),
        token=int(renewal.token),
        end=int(end),
        lease=_micro(renewal.lease),
    )
    return f"{update};\n{still_there([renewal])}"


def look(name: str) -> str:
    """Return the statement that finds a holder, and who waits.

    It has a row: the owner of the hold (null: none), the microseconds left, its token, the queue,
    and the server's clock. No row: it was never locked.
    """
    return _LOOK.format(id=key(name))


def force_release(name: str, owner: str, token: int) -> str:
    """Return the statement that ends the hold of an owner. Late, it ends no other.

    A token alone may repeat, if its row was deleted and the server's clock set back.
    """
    return _FORCE_RELEASE.format(id=key(name), owner=queue.text(owner), token=int(token))


def leader(name: str) -> str:
    """Return the statement that finds a leader.

    It has a row, if it is held: the owner, the microseconds left, its token, and what is published.
    """
    return _LEADER.format(id=key(name))


def proclaim(name: str, owner: str, value: bytes) -> str:
    """Return the query that publishes something else of a leader; its last result: it leads.

    Of what one owner published the greater is the later one: see `published`.
    """
    return _PROCLAIM.format(id=key(name), owner=queue.text(owner), value=_hexadecimal(value))


def _publishes(is_taken: str, value: bytes | None) -> str:
    """Return what a grant assigns for a candidate, before anything that it looks at."""
    if value is None:
        return ""
    return f"  value = IF({is_taken}, {_hexadecimal(value)}, value),\n"


def hash_of(name: str) -> bytes:
    """Return the primary key of a name."""
    return hashlib.sha256(name.encode()).digest()


def key(name: str) -> str:
    """Return the primary key of a name as SQL."""
    return _hexadecimal(hash_of(name))


def _change(renewal: Renewal) -> str:
    until = f"GREATEST(expires, {_NOW} + {_micro(renewal.lease)})"
    return f"WHEN id = {key(renewal.name)} AND token = {int(renewal.token)} THEN {until}"


def _ids(batch: Sequence[Renewal]) -> str:
    return ", ".join(key(each.name) for each in batch)


def _holds(batch: Sequence[Renewal]) -> str:
    return ", ".join(
        f"({key(each.name)}, {queue.text(each.owner)}, {int(each.token)})" for each in batch
    )


def _micro(seconds: float) -> int:
    return max(1, round(seconds * _MICRO))


def _name(name: str) -> str:
    return f"_utf8mb4 {_hexadecimal(name.encode())}"


def _gone(owner: str) -> str:
    """Return an owner as it is put in front of a list."""
    return queue.text(f" {owner}")


def _answer(owner: str) -> str:
    return _ANSWER.format(owner=queue.text(owner))


def _hexadecimal(data: bytes) -> str:
    return f"x'{data.hex()}'"
