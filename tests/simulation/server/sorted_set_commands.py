"""Commands for sorted sets."""

from __future__ import annotations

import math

from tests.simulation.server.database import Database
from tests.simulation.server.numbers import bound, integer, real
from tests.simulation.server.plain_commands import bounds
from tests.simulation.server.registry import command
from tests.simulation.server.replies import SYNTAX, ErrorReply, Reply, Scored, UnsupportedError
from tests.simulation.server.sorted_set import SortedSet

_FLAGS = (b"NX", b"XX", b"GT", b"LT", b"CH", b"INCR")


@command
def zadd(db: Database, key: bytes, first: bytes, second: bytes, *more: bytes) -> Reply:
    words, flags = [first, second, *more], []
    while words and words[0].upper() in _FLAGS:
        flags.append(words.pop(0).upper())
    if not words or len(words) % 2:
        raise ErrorReply(SYNTAX)
    if not {*flags} <= {b"XX", b"GT", b"CH"} and flags != [b"NX"]:
        raise UnsupportedError(f"ZADD with {flags}")
    pairs = [(real(words[i]), words[i + 1]) for i in range(0, len(words), 2)]
    if b"XX" in flags and db.typed(key, SortedSet) is None:
        return 0
    members = db.made(key, SortedSet)
    new = changed = 0
    for score, member in pairs:
        known = members.scores.get(member)
        if known is None and b"XX" not in flags:
            members.put(member, score)
            new += 1
        elif known is None or known == score or b"NX" in flags:
            continue
        elif score > known or b"GT" not in flags:
            members.put(member, score)
            changed += 1
    return new + changed if b"CH" in flags else new


@command
def zincrby(db: Database, key: bytes, change: bytes, member: bytes) -> Reply:
    more = real(change)
    members = db.made(key, SortedSet)
    score = members.scores.get(member, 0.0) + more
    if math.isnan(score):
        raise ErrorReply(b"ERR resulting score is not a number (NaN)")
    members.put(member, score)
    return score


@command
def zrem(db: Database, key: bytes, member: bytes, *more: bytes) -> Reply:
    members = db.typed(key, SortedSet)
    if members is None:
        return 0
    count = sum(members.remove(each) for each in (member, *more))
    db.tidy(key)
    return count


@command
def zcard(db: Database, key: bytes) -> Reply:
    return len(db.typed(key, SortedSet) or ())


@command
def zscore(db: Database, key: bytes, member: bytes) -> Reply:
    members = db.typed(key, SortedSet)
    return None if members is None else members.scores.get(member)


@command
def zrank(db: Database, key: bytes, member: bytes) -> Reply:
    members = db.typed(key, SortedSet)
    return None if members is None else members.rank(member)


@command
def zcount(db: Database, key: bytes, low: bytes, high: bytes) -> Reply:
    ends = bound(low), bound(high)
    begin, end = (db.typed(key, SortedSet) or SortedSet()).between(*ends)
    return max(0, end - begin)


@command
def zrange(db: Database, key: bytes, first: bytes, last: bytes, *options: bytes) -> Reply:
    scored = _options(options, limits=False)[0]
    ends = integer(first), integer(last)
    members = db.typed(key, SortedSet) or SortedSet()
    return _rows(members.rows[slice(*bounds(*ends, len(members)))], scored)


@command
def zrangebyscore(db: Database, key: bytes, low: bytes, high: bytes, *options: bytes) -> Reply:
    return _by_score(db, key, (low, high), options, reverse=False)


@command
def zrevrangebyscore(db: Database, key: bytes, high: bytes, low: bytes, *options: bytes) -> Reply:
    return _by_score(db, key, (low, high), options, reverse=True)


@command
def zremrangebyscore(db: Database, key: bytes, low: bytes, high: bytes) -> Reply:
    ends = bound(low), bound(high)
    members = db.typed(key, SortedSet) or SortedSet()
    begin, end = members.between(*ends)
    gone = members.rows[begin:end]
    for _, member in gone:
        members.remove(member)
    db.tidy(key)
    return len(gone)


def _by_score(
    db: Database,
    key: bytes,
    ends: tuple[bytes, bytes],
    options: tuple[bytes, ...],
    *,
    reverse: bool,
) -> Reply:
    scored, offset, count = _options(options, limits=True)
    low, high = bound(ends[0]), bound(ends[1])
    members = db.typed(key, SortedSet) or SortedSet()
    begin, end = members.between(low, high)
    rows = members.rows[begin:end]
    if reverse:
        rows.reverse()
    if offset < 0:
        rows = []
    return _rows(rows[offset : None if count < 0 else offset + count], scored)


def _options(options: tuple[bytes, ...], *, limits: bool) -> tuple[bool, int, int]:
    """Return whether scores are wanted, how many rows are passed over, and how many come."""
    words, scored, offset, count = [*options], False, 0, -1
    while words:
        word = words.pop(0).upper()
        if word == b"WITHSCORES":
            scored = True
        elif limits and word == b"LIMIT" and len(words) >= 2:
            offset, count = integer(words.pop(0)), integer(words.pop(0))
        elif word in (b"REV", b"BYSCORE", b"BYLEX", b"LIMIT"):
            raise UnsupportedError(f"a range with {options}")
        else:
            raise ErrorReply(SYNTAX)
    return scored, offset, count


def _rows(rows: list[tuple[float, bytes]], scored: bool) -> Reply:
    if scored:
        return Scored((member, score) for score, member in rows)
    return [member for _, member in rows]
