"""The short way that begins a script does what the rest of it does, and costs few commands.

A leading zero is a number to the rest, and not plain: a script that is given one goes the long way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from hashlib import blake2b
from typing import Any, Protocol

import pytest
from redis.asyncio import Redis

from redisson_py._redis.scripts.source import Arg
from tests.lua.test_golden_vectors import Listener, listening
from tests.support.counting import Counted
from tests.support.scripts.calls import TOMBSTONE, A, B, C, Scripts, ask
from tests.support.scripts.expirable import ExpirableScripts
from tests.support.scripts.fair import FairScripts
from tests.support.scripts.lock import LockScripts
from tests.support.scripts.permits import SemaphoreScripts
from tests.support.scripts.read_write import ReadWriteScripts

#: So long that what is left of it is the same number of hundred seconds at each look.
LEASE = 1_000_000
HUNDRED_SECONDS = 100_000


class Subject(Protocol):
    """What the steps below are taken with."""

    channel: bytes
    zeros: str
    lease: Arg

    async def acquire(self, owner: str = A, count: Any = 1, /) -> int | None: ...
    async def release(self, owner: str = A, count: Any = 0, tombstone_ms: int = 0, /) -> Any: ...


class _Lock:
    """A lock of any kind, by one of the ways."""

    def __init__(self, lock: Any, channel: bytes, *, short: bool) -> None:
        self._lock = lock
        self.channel = channel
        self.zeros = "" if short else "00"
        self.lease: Arg = f"{self.zeros}{LEASE}"

    async def acquire(self, owner: str = A, count: Any = 1, /) -> int | None:
        reply: int | None = await self._lock.acquire(owner, count, self.lease)
        return reply

    async def release(self, owner: str = A, count: Any = 0, tombstone_ms: int = 0, /) -> Any:
        return await self._lock.release(owner, count, self.lease, tombstone_ms)


class _Semaphore:
    """A semaphore that the first acquire makes, by one of the ways."""

    def __init__(self, semaphore: SemaphoreScripts, start_units: int, *, short: bool) -> None:
        self._semaphore = semaphore
        self._start_units = start_units
        self._had: dict[str, int] = {}
        self.channel = semaphore.channel
        self.zeros = "" if short else "00"
        self.lease: Arg = f"{self.zeros}{LEASE}"

    async def acquire(self, owner: str = A, count: Any = 1, /) -> int | None:
        self._had[owner] = count
        return await self._semaphore.acquire(
            owner, count, lease_ms=self.lease, start_units=self._start_units
        )

    async def release(self, owner: str = A, count: Any = 0, tombstone_ms: int = 0, /) -> Any:
        had = self._had.get(owner, 1)
        return await self._semaphore.release(
            owner, count, had=had, tombstone_ms=f"{self.zeros}{tombstone_ms}"
        )


class _Expirable:
    """The same of permits with ids: those of one owner are consecutive."""

    def __init__(self, semaphore: ExpirableScripts, start_units: int, *, short: bool) -> None:
        self._semaphore = semaphore
        self._start_units = start_units
        self._had: dict[str, int] = {}
        self.channel = semaphore.channel
        self.zeros = "" if short else "00"
        self.lease: Arg = f"{self.zeros}{LEASE}"

    async def acquire(self, owner: str = A, count: Any = 1, /) -> int | None:
        self._had[owner] = count
        return await self._semaphore.acquire(
            ids(owner, range(count)), lease_ms=self.lease, start_units=self._start_units
        )

    async def release(self, owner: str = A, count: Any = 0, tombstone_ms: int = 0, /) -> Any:
        there = ids(owner, range(count, max(count + 1, self._had.get(owner, 1))))
        return await self._semaphore.release(
            there, tombstone_ms=f"{self.zeros}{tombstone_ms}", receipt_ms=f"{self.zeros}{TOMBSTONE}"
        )


def ids(owner: str, indices: Iterable[int]) -> bytes:
    """Return the ids of some of an owner's permits."""
    first = blake2b(owner.encode(), digest_size=15).digest()
    return b"".join(first + bytes([index]) for index in indices)


Make = Callable[[Scripts, bool], Subject]


def fair(scripts: Scripts, short: bool) -> _Lock:
    lock = FairScripts(scripts)
    return _Lock(lock, lock.channel_of(B), short=short)


def side(name: str) -> Callable[[Scripts, bool], _Lock]:
    def make(scripts: Scripts, short: bool) -> _Lock:
        half = getattr(ReadWriteScripts(scripts, b"k"), name)
        return _Lock(half, half.channel, short=short)

    return make


def semaphore(start_units: int) -> Make:
    return lambda scripts, short: _Semaphore(SemaphoreScripts(scripts), start_units, short=short)


def plain(scripts: Scripts, short: bool) -> _Lock:
    lock = LockScripts(scripts)
    return _Lock(lock, lock.channel, short=short)


def expirable(start_units: int) -> Make:
    return lambda scripts, short: _Expirable(ExpirableScripts(scripts), start_units, short=short)


LOCKS = {"plain": plain, "fair": fair, "read": side("read"), "write": side("write")}
KINDS: dict[str, Make] = {
    **LOCKS,
    "semaphore of 1": semaphore(1),
    "semaphore of 3": semaphore(3),
    "no semaphore": semaphore(-1),
    "expirable of 1": expirable(1),
    "expirable of 3": expirable(3),
    "no expirable": expirable(-1),
}
each_kind = pytest.mark.parametrize("kind", KINDS)

Step = Callable[[Subject, Redis], Awaitable[Any]]


def acquire(owner: str, count: int = 1, leases: int = 1) -> Step:
    async def take(subject: Subject, redis: Redis) -> Any:
        subject.lease = f"{subject.zeros}{leases * LEASE}"
        return await subject.acquire(owner, count)

    return take


def release(owner: str, count: int = 0, tombstone_ms: int = 0) -> Step:
    return lambda subject, redis: subject.release(owner, count, tombstone_ms)


def expire(key: str) -> Step:
    return lambda subject, redis: redis.pexpire(key, 2 * LEASE)


def send(*command: Arg) -> Step:
    return lambda subject, redis: ask(redis, *command)


def ends(key: str, member: Arg, leases: int) -> Step:
    """Change a moment in a sorted set; one in the past is long over."""

    async def take(subject: Subject, redis: Redis) -> Any:
        seconds, _ = await ask(redis, "TIME")
        return await ask(redis, "ZADD", key, int(seconds) * 1000 + leases * LEASE, member)

    return take


async def java_waits(subject: Subject, redis: Redis) -> None:
    """Have B wait for a fair lock as Redisson does: it is in two keys, and not in ours."""
    seconds, _ = await ask(redis, "TIME")
    await ask(redis, "RPUSH", "redisson_lock_queue:{k}", B)
    await ask(redis, "ZADD", "redisson_lock_timeout:{k}", int(seconds) * 1000 + 2 * LEASE, B)


COUNTERS = "semaphore", "{semaphore}:redisson_py:units"
PERMITS = "{semaphore}:redisson_py:permits", "{semaphore}:timeout"
READER = "{k}:client-a:1:rwlock_timeout:1"
CROWD = [word for number in range(13) for word in (f"reader-{number}", 1)]


def has_ended(owner: str) -> list[Step]:
    """Return the end of the lease of an owner, long ago."""
    return [ends(PERMITS[0], owner, -1), ends(PERMITS[1], ids(owner, [0]), -1)]


HISTORIES: dict[str, list[Step]] = {
    "alone": [acquire(A), release(A)] * 2,
    "run twice": [acquire(A), acquire(A), release(A), release(A)],
    "two": [acquire(A), acquire(B), release(A), acquire(B), release(B), acquire(A), release(A)],
    "three": [acquire(A), acquire(B), acquire(C), release(B), release(A), acquire(A), release(C)],
    "several": [acquire(A, 2), acquire(B, 2), release(A), release(B), acquire(A, 4), release(A)],
    "in part": [acquire(A), acquire(A, 2), release(A, 1), release(A)],
    "two holds at once": [acquire(A), acquire(A, 2), release(A), acquire(B), release(B)],
    "a stranger": [acquire(A), release(B), release(A), release(A)],
    "undone before": [release(A, 0, TOMBSTONE), acquire(A), acquire(B), release(B)],
    "undone after": [acquire(A), release(A, 0, TOMBSTONE), acquire(A), release(A)],
    "deleted": [acquire(A), send("DEL", "k", "semaphore"), release(A), acquire(B), release(B)],
    "below zero": [acquire(A), send("SET", "semaphore", "-2"), release(A), acquire(A)],
    "many": [acquire(A), send("SET", "semaphore", "5000000"), release(A), acquire(B), release(B)],
    "too many": [acquire(A), send("SET", "semaphore", 2**32), release(A), acquire(B), release(B)],
    "Java waits": [acquire(A), java_waits, release(A), acquire(A), acquire(B), release(B)],
    "one is over": [acquire(A), *has_ended(A), acquire(B), release(B)],
    "over itself": [acquire(B), acquire(A), *has_ended(A), release(A), acquire(A), release(B)],
    "no lease": [acquire(A), send("ZREM", PERMITS[0], A), acquire(B), release(B), release(A)],
    "no units": [acquire(A), send("HDEL", COUNTERS[1], A), acquire(B), release(B), release(A)],
    "records expire": [acquire(A), *map(expire, PERMITS), acquire(B), release(B), release(A)],
    "it expires": [acquire(A), expire("semaphore"), acquire(B), release(B), release(A)],
    "undone beside": [acquire(B), release(A, 0, TOMBSTONE), acquire(A), acquire(C), release(B)],
    "again beside": [acquire(B), acquire(A), acquire(A, 2), acquire(A), release(A, 1), release(A)],
    "another writes": [send("HSET", "k", "mode", "write", "x:write", 1), acquire(A), release(A)],
    "longest leaves": [acquire(B), acquire(C), acquire(A, 1, 3), release(A), release(B)],
    "longest stays": [acquire(B), acquire(A, 1, 3), release(B), acquire(C), release(C)],
    "cut off": [acquire(A), acquire(B), send("PEXPIRE", "k", LEASE // 2), release(B), release(A)],
    "no end": [acquire(A), acquire(B), send("PERSIST", "k"), release(B), acquire(C), release(A)],
    "key lost": [acquire(A), acquire(B), send("DEL", READER), release(B), release(A), acquire(A)],
    "nobody lives": [acquire(A), acquire(B), send("DEL", READER), acquire(A), release(B)],
    "a crowd": [acquire(A), send("HSET", "k", *CROWD), acquire(B), acquire(C), release(B)],
    "an expiry": [acquire(A), release(A), expire("semaphore"), acquire(A), release(A), acquire(A)],
}


async def state(redis: Redis) -> dict[str, Any]:
    """Return the content of every key, times in hundreds of seconds from now."""
    reads = {"hash": ("HGETALL",), "string": ("GET",), "list": ("LRANGE", 0, -1)}
    seconds, _ = await ask(redis, "TIME")
    found: dict[str, Any] = {}
    for key in sorted(await ask(redis, "KEYS", "*")):
        kind = (await ask(redis, "TYPE", key)).decode()
        if kind == "zset":
            rows = await ask(redis, "ZRANGE", key, 0, -1, "WITHSCORES")
            ends = {who: min(float(end) / 1000, 1e15) - int(seconds) for who, end in rows}
            found[key] = {who: round(left / 100) for who, left in ends.items()}
        else:
            command, *arguments = reads[kind]
            found[key] = await ask(redis, str(command), key, *arguments)
        left = await ask(redis, "PTTL", key)
        found[key] = kind, found[key], round(left / HUNDRED_SECONDS)
    return found


async def settle(redis: Redis) -> None:
    """Round all expiries: of equal leases none then ends first, however slow we are."""
    left = {key: await ask(redis, "PTTL", key) for key in await ask(redis, "KEYS", "*")}
    async with redis.pipeline(transaction=True) as pipe:
        for key, ms in left.items():
            if (hundreds := round(ms / HUNDRED_SECONDS)) > 0:
                pipe.pexpire(key, hundreds * HUNDRED_SECONDS)
        await pipe.execute()


async def trace(subject: Subject, redis: Redis, steps: list[Step], listener: Listener) -> list[Any]:
    """Take the steps; return what each answered, left behind and told."""
    seen: list[Any] = []
    for step in steps:
        reply = await step(subject, redis)
        await settle(redis)
        if isinstance(reply, int) and reply > 1000:
            reply = "busy", round(reply / HUNDRED_SECONDS)
        seen.append((reply, await state(redis), await listener.heard()))
    await redis.flushdb()
    return seen


@each_kind
@pytest.mark.parametrize("history", HISTORIES)
async def test_both_ways_answer_leave_and_tell_the_same(
    scripts: Scripts, redis: Redis, kind: str, history: str
) -> None:
    make, steps = KINDS[kind], HISTORIES[history]
    async with listening(redis, make(scripts, True).channel) as listener:
        short = await trace(make(scripts, True), redis, steps, listener)
        long = await trace(make(scripts, False), redis, steps, listener)
    assert short == long


@pytest.mark.parametrize(
    ("kind", "commands"),
    [
        ("fair", {"exists": 2, "hincrby": 1, "pexpire": 1, "hget": 1, "del": 1}),
        (
            "read",
            {"exists": 1, "set": 1, "hset": 1, "pexpire": 1}
            | {"hmget": 1, "hlen": 1, "zrange": 1, "publish": 1, "del": 1},
        ),
        (
            "write",
            {"exists": 1, "hset": 1, "pexpire": 1}
            | {"hget": 1, "hlen": 1, "zrange": 1, "publish": 1, "del": 1},
        ),
        (
            "semaphore of 3",
            {"exists": 2, "pttl": 1, "time": 1, "incrby": 2, "zadd": 1, "hset": 1}
            | {"hget": 1, "publish": 1, "hdel": 1, "zrem": 1},
        ),
        (
            "expirable of 3",
            {"get": 2, "exists": 2, "pttl": 1, "time": 2, "incrby": 2, "zadd": 1, "zscore": 1}
            | {"publish": 1, "zrem": 1},
        ),
    ],
)
async def test_a_plain_pair_costs_these_commands(
    scripts: Scripts, redis: Redis, kind: str, commands: dict[str, int]
) -> None:
    subject = KINDS[kind](scripts, True)
    # The first acquire makes a semaphore, and the first run loads a script.
    for _ in range(2):
        async with Counted(redis) as counted:
            assert await subject.acquire() is None
            assert await subject.release() == 1
    assert counted.calls == {"evalsha": 2, **commands}
    await redis.flushdb()


@pytest.mark.parametrize(
    ("kind", "commands"),
    [
        (
            "read",
            {"exists": 1, "hmget": 2, "hlen": 2, "pttl": 4, "set": 1, "pexpire": 1, "hset": 1}
            | {"hgetall": 1, "del": 1, "hdel": 1, "zrem": 1},
        ),
        (
            "semaphore of 3",
            {"get": 1, "exists": 2, "pttl": 2, "hexists": 1, "zcard": 1, "hlen": 1, "time": 1}
            | {"zrangebyscore": 1, "incrby": 2, "zadd": 1, "hset": 1}
            | {"hget": 1, "publish": 1, "hdel": 1, "zrem": 1},
        ),
        (
            "expirable of 3",
            {"get": 2, "exists": 2, "pttl": 2, "zscore": 2, "time": 2, "zrangebyscore": 1}
            | {"incrby": 2, "zadd": 1, "publish": 1, "zrem": 1},
        ),
    ],
)
async def test_a_plain_pair_beside_another_holder_costs_these_commands(
    scripts: Scripts, redis: Redis, kind: str, commands: dict[str, int]
) -> None:
    subject = KINDS[kind](scripts, True)
    assert await subject.acquire(B) is None
    assert await subject.acquire() is None
    free = 0 if kind == "read" else 1
    assert await subject.release() == free
    await subject.acquire(B)
    async with Counted(redis) as counted:
        assert await subject.acquire() is None
        assert await subject.release() == free
    assert counted.calls == {"evalsha": 2, **commands}
    await redis.flushdb()
