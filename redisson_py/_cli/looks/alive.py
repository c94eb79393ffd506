"""Which of the recorded holders and waiters count: a lease that has ended holds nothing.

Each function is a part of a look: it yields commands and is sent the replies.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from redisson_py import _keys
from redisson_py._cli.looks.asking import Command
from redisson_py._cli.looks.found import Party
from redisson_py._cli.looks.replies import lease_keys, milliseconds, pairs, seconds
from redisson_py._redis.inspecting import state_of

T = TypeVar("T")
Part = Generator[list[Command], list[Any], T]

#: The most members whose lease has ended that are read of one sorted set.
_MOST_ENDED = 10_000


class Leases(NamedTuple):
    """The members of a sorted set of leases, by their ends.

    Attributes:
        first: Those whose leases end first, and when; at most as many as wanted.
        total: How many have not ended.
        ended: Those that have ended.
    """

    first: list[tuple[bytes, float]]
    total: int
    ended: list[bytes]


def leases(
    key: bytes, ends: bytes, first: Any, total: int | None, time: list[bytes], most: int
) -> Part[Leases]:
    """Return what counts of a sorted set `ends`, of which the first `most` were read."""
    found, present = pairs(first or []), milliseconds(time)
    if not found or found[0][1] > present:
        return Leases(found, max(total or 0, len(found)), [])
    alive, count, ended = yield [
        (key, "ZRANGEBYSCORE", ends, f"({present}", "+inf", "WITHSCORES", "LIMIT", 0, most),
        (key, "ZCOUNT", ends, f"({present}", "+inf"),
        (key, "ZRANGEBYSCORE", ends, "-inf", present, "LIMIT", 0, _MOST_ENDED),
    ]
    found = pairs(alive or [])
    return Leases(found, max(count or 0, len(found)), ended or [])


def readers(key: bytes, listed: Sequence[Party], most: int) -> Part[tuple[list[Party], int]]:
    """Return holders of a lock, at most as many as wanted, and how many readers have ended."""
    alive: list[Party] = []
    ended = 0
    for start in range(0, len(listed), most):
        some = listed[start : start + most]
        keys_of = [lease_keys(key, party) for party in some]
        lefts = iter((yield [(key, "PTTL", each) for keys in keys_of for each in keys]))
        for party, keys in zip(some, keys_of, strict=True):
            left = max((seconds(next(lefts)) for _ in keys), default=party.seconds_left or 0)
            if left >= 0:
                alive.append(replace(party, seconds_left=left))
            elif party.holds > len(keys):
                # One of the other leases may go on.
                alive.append(replace(party, seconds_left=None))
            else:
                ended += 1
        if len(alive) >= most:
            break
    return alive[:most], ended


def holding(key: bytes, parties: Sequence[Party]) -> Part[list[Party]]:
    """Return the holders of a lock with how they have it."""
    owners = [each.owner.encode() for each in parties]
    marks = (yield [(key, "GET", _keys.tombstone(key, each)) for each in owners]) if owners else []
    return [
        replace(party, state=state_of(owner, mark))
        for party, owner, mark in zip(parties, owners, marks, strict=True)
    ]


def queued(
    key: bytes, queue: bytes, first: list[bytes], time: list[bytes], most: int
) -> Part[tuple[list[bytes], int]]:
    """Return who waits in the queue of a fair lock, and how many have died there.

    As in lua/fair_lock/inspect: one of ours is dead if it has not asked in time, one of Redisson's
    if its score has passed.
    """
    if not first:
        return [], 0
    present = milliseconds(time)
    ours = _keys.suffixed(key, b"redisson_py:waiters")
    timeouts = _keys.prefixed(b"redisson_lock_timeout", key)
    dead, late = yield [
        (key, "ZRANGEBYSCORE", ours, "-inf", present, "LIMIT", 0, _MOST_ENDED),
        (key, "ZRANGEBYSCORE", timeouts, "-inf", present, "LIMIT", 0, _MOST_ENDED),
    ]
    maybe = sorted({*(late or [])} - {*(dead or [])})
    known = (yield [(key, "ZSCORE", ours, each) for each in maybe]) if maybe else []
    ended = {*(dead or [])} | {each for each, end in zip(maybe, known, strict=True) if end is None}
    if ended.intersection(first):
        (first,) = yield [(key, "LRANGE", queue, 0, most + len(ended) - 1)]
    return [each for each in first or [] if each not in ended][:most], len(ended)
