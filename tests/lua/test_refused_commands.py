"""A user that lacks a command or a channel gets an error, and then nothing has changed."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.lua.conftest import Forbid
from tests.support.scripts.any_lock import LOCKS
from tests.support.scripts.calls import TOMBSTONE, A, B, C, Scripts, everything
from tests.support.scripts.expirable import ExpirableScripts
from tests.support.scripts.fair import FairScripts
from tests.support.scripts.permits import SemaphoreScripts
from tests.support.scripts.read_write import ReadWriteScripts

P, Q, R = (bytes([n]) * 16 for n in b"pqr")


async def refused(redis: Redis, call: Awaitable[Any]) -> None:
    """Fail unless a call is refused and changes nothing."""
    before = await everything(redis)
    with pytest.raises(ResponseError, match=r"(?i)permission|NOPERM|can't (run|publish)"):
        await call
    assert await everything(redis) == before


each_lock = pytest.mark.parametrize("kind", LOCKS)


class TestLocks:
    @each_lock
    @pytest.mark.parametrize("tombstone_ms", [0, TOMBSTONE])
    async def test_a_release_nobody_may_be_told_of(
        self, poor_scripts: Scripts, redis: Redis, forbid: Forbid, kind: str, tombstone_ms: int
    ) -> None:
        lock = LOCKS[kind](poor_scripts)
        await lock.acquire(A)
        if kind == "fair":
            await lock.acquire(B)
        await forbid("resetchannels")
        await refused(redis, lock.release(A, tombstone_ms=tombstone_ms))
        await refused(redis, lock.force_release())

    @each_lock
    @pytest.mark.parametrize("command", ["-del", "-set"])
    async def test_an_undo_without_a_command(
        self, poor_scripts: Scripts, redis: Redis, forbid: Forbid, kind: str, command: str
    ) -> None:
        lock = LOCKS[kind](poor_scripts)
        await lock.acquire(A)
        await forbid(command)
        if command == "-set":
            await refused(redis, lock.release(A, tombstone_ms=TOMBSTONE))
            await refused(redis, lock.force_release())
        else:
            await refused(redis, lock.release(A))

    @pytest.mark.parametrize(
        ("kind", "command"),
        [
            *((kind, "-hincrby") for kind in ("plain", "fenced", "fair")),
            *((kind, "-pexpire") for kind in ("plain", "fenced", "fair", "write")),
            ("write", "-hset"),
        ],
    )
    async def test_a_re_entry_and_a_partial_release_without_a_command(
        self, poor_scripts: Scripts, redis: Redis, forbid: Forbid, kind: str, command: str
    ) -> None:
        lock = LOCKS[kind](poor_scripts)
        await lock.acquire(A)
        await lock.acquire(A, 2)
        await forbid(command)
        await refused(redis, lock.acquire(A, 3, 1_000_000))
        if kind != "write":
            await refused(redis, lock.release(A, 1))

    @pytest.mark.parametrize("tombstone_ms", [0, TOMBSTONE])
    async def test_a_reader_that_is_not_the_last_needs_no_channel(
        self, poor_scripts: Scripts, redis: Redis, forbid: Forbid, tombstone_ms: int
    ) -> None:
        rw = ReadWriteScripts(poor_scripts, b"k")
        await rw.read.acquire(A)
        await rw.read.acquire(B)
        await forbid("resetchannels")
        assert await rw.read.release(A, tombstone_ms=tombstone_ms) == 0
        await refused(redis, rw.read.release(B, tombstone_ms=tombstone_ms))

    @pytest.mark.parametrize("tombstone_ms", [0, TOMBSTONE])
    @pytest.mark.parametrize(
        ("kind", "command"),
        [
            # A fenced lock may have used up a token.
            *((kind, "-pexpire") for kind in LOCKS if kind != "fenced"),
            *((kind, "-hincrby") for kind in ("plain", "fair")),
            *((kind, "-hset") for kind in ("read", "write")),
            ("read", "-set"),
        ],
    )
    async def test_a_first_acquire_without_a_command(
        self,
        poor_scripts: Scripts,
        redis: Redis,
        forbid: Forbid,
        kind: str,
        command: str,
        tombstone_ms: int,
    ) -> None:
        lock = LOCKS[kind](poor_scripts)
        await lock.release(B, tombstone_ms=tombstone_ms)
        await forbid(command)
        await refused(redis, lock.acquire(A))

    async def test_a_downgrade_nobody_may_be_told_of(
        self, poor_scripts: Scripts, redis: Redis, forbid: Forbid
    ) -> None:
        rw = ReadWriteScripts(poor_scripts, b"k")
        await rw.write.acquire(A)
        await rw.read.acquire(A)
        await forbid("resetchannels")
        await refused(redis, rw.write.release(A, tombstone_ms=TOMBSTONE))

    async def test_a_dead_head_whose_heir_may_not_be_told(
        self, poor_scripts: Scripts, redis: Redis, forbid: Forbid
    ) -> None:
        fair = FairScripts(poor_scripts)
        await fair.acquire(A)
        await fair.acquire(B)
        await fair.acquire(C)
        await fair.die(B)
        await fair.end_lease()
        await forbid("resetchannels")
        await refused(redis, fair.acquire("client-d:1"))
        await refused(redis, fair.release("client-d:1", tombstone_ms=TOMBSTONE))
        await refused(redis, fair.force_release())


class TestSemaphores:
    """Five permits, of which three went to holders whose leases are over."""

    @pytest_asyncio.fixture
    async def plain(self, poor_scripts: Scripts) -> SemaphoreScripts:
        semaphore = SemaphoreScripts(poor_scripts)
        await semaphore.start(5)
        await semaphore.acquire(A, 3)
        await semaphore.acquire(C, 2)
        await semaphore.release(C, 1)
        return semaphore

    @pytest_asyncio.fixture
    async def permits(self, poor_scripts: Scripts) -> ExpirableScripts:
        semaphore = ExpirableScripts(poor_scripts)
        await semaphore.start(5)
        await semaphore.acquire(P + Q)
        await semaphore.acquire(R)
        return semaphore

    COMMANDS = ("resetchannels", "-incrby", "-zadd", "-hset", "-zrem", "-hdel")

    @pytest_asyncio.fixture
    async def alone(self, poor_scripts: Scripts) -> SemaphoreScripts:
        """A semaphore of which one owner has units."""
        semaphore = SemaphoreScripts(poor_scripts)
        await semaphore.start(5)
        await semaphore.acquire(A, 2)
        return semaphore

    @pytest.mark.parametrize(
        "rules",
        [["resetchannels"], ["-incrby"], ["-zrem"], ["-hdel"], ["-@write"]],
    )
    @pytest.mark.parametrize("tombstone_ms", [0, TOMBSTONE])
    @pytest.mark.parametrize("had", [2, "02"], ids=["short", "long"])
    async def test_the_only_owner_gives_nothing_back(
        self,
        alone: SemaphoreScripts,
        redis: Redis,
        forbid: Forbid,
        rules: list[str],
        tombstone_ms: int,
        had: int | str,
    ) -> None:
        await forbid(*rules)
        await refused(redis, alone.release(A, had=had, tombstone_ms=tombstone_ms))

    @pytest.mark.parametrize("rule", ["-del", "-zadd", "-hset"])
    async def test_the_only_owner_can_do_without_a_command(
        self, alone: SemaphoreScripts, redis: Redis, forbid: Forbid, rule: str
    ) -> None:
        await forbid(rule)
        assert await alone.release(A) == 1
        assert await alone.value() == 5
        assert list(await everything(redis)) == [alone.key]

    @pytest.mark.parametrize("rule", ["-incrby", "-zadd", "-hset", "-time", "-pttl"])
    async def test_the_first_owner_gets_nothing(
        self, poor_scripts: Scripts, redis: Redis, forbid: Forbid, rule: str
    ) -> None:
        semaphore = SemaphoreScripts(poor_scripts)
        await semaphore.start(5)
        await forbid(rule)
        await refused(redis, semaphore.acquire(A, 2))

    @pytest.mark.parametrize("rule", COMMANDS)
    async def test_a_plain_one(
        self, plain: SemaphoreScripts, redis: Redis, forbid: Forbid, rule: str
    ) -> None:
        await forbid(rule)
        if rule in ("-incrby", "-zadd", "-hset"):
            await refused(redis, plain.acquire(B))
        if rule in ("-incrby", "-hset", "resetchannels"):
            await refused(redis, plain.release(A, 1))
        if rule != "-zadd" and rule != "-hset":
            await refused(redis, plain.release(A))
            await refused(redis, plain.release(A, tombstone_ms=TOMBSTONE))

    @pytest.mark.parametrize("rule", COMMANDS)
    async def test_giving_back_what_is_over(
        self, plain: SemaphoreScripts, redis: Redis, forbid: Forbid, rule: str
    ) -> None:
        await plain.end(A)
        await forbid(rule)
        if rule not in ("-zadd", "-hset"):
            await refused(redis, plain.available())
            await refused(redis, plain.acquire(B))
        if rule not in ("-zadd", "-hset", "resetchannels"):
            await refused(redis, plain.drain())

    @pytest.mark.parametrize("rule", ["-zadd", "-hset"])
    async def test_what_was_over_is_given_back_once(
        self, plain: SemaphoreScripts, redis: Redis, forbid: Forbid, rule: str
    ) -> None:
        await plain.end(A)
        await forbid(rule)
        for _ in range(3):
            with pytest.raises(ResponseError, match=r"(?i)permission|NOPERM|can't (run|publish)"):
                await plain.acquire(B)
        assert await plain.value() == 4
        assert await plain.held() == {C: 1}

    @pytest.mark.parametrize("rule", ["resetchannels", "-incrby"])
    async def test_changing_the_number(
        self, plain: SemaphoreScripts, redis: Redis, forbid: Forbid, rule: str
    ) -> None:
        await forbid(rule)
        await refused(redis, plain.add(2))
        if rule == "-incrby":
            await refused(redis, plain.drain())

    async def test_making_one_nobody_may_be_told_of(
        self, poor_scripts: Scripts, redis: Redis, forbid: Forbid
    ) -> None:
        await forbid("resetchannels")
        await refused(redis, SemaphoreScripts(poor_scripts).set(3))
        await refused(redis, SemaphoreScripts(poor_scripts).acquire(start_units=3))
        await refused(redis, ExpirableScripts(poor_scripts).set(3))
        await refused(redis, ExpirableScripts(poor_scripts).acquire(P, start_units=3))

    @pytest.mark.parametrize("rule", ["resetchannels", "-incrby", "-zrem", "-zadd"])
    async def test_permits_with_ids(
        self, permits: ExpirableScripts, redis: Redis, forbid: Forbid, rule: str
    ) -> None:
        await forbid(rule)
        if rule in ("-incrby", "-zadd"):
            await refused(redis, permits.acquire(b"n" * 16))
        if rule != "-zadd":
            await refused(redis, permits.release(R))
            await refused(redis, permits.release(R, tombstone_ms=TOMBSTONE))
            await refused(redis, permits.release_all(P + Q))
        if rule in ("-incrby", "resetchannels"):
            await refused(redis, permits.add(2))
            await refused(redis, permits.set(9, replaces=1))

    @pytest.mark.parametrize("rule", ["resetchannels", "-incrby", "-zrem"])
    async def test_giving_back_ids_that_are_over(
        self, permits: ExpirableScripts, redis: Redis, forbid: Forbid, rule: str
    ) -> None:
        await permits.end(P, Q)
        await forbid(rule)
        await refused(redis, permits.acquire(b"n" * 16))
        await refused(redis, permits.available())
        await refused(redis, permits.lease_left(R))
        await refused(redis, permits.update_lease(R))
