"""What a client names of a semaphore, a latch or a lock, and others do not: said once, if known."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import (
    CountDownLatch,
    LeaseLostError,
    PermitExpirableSemaphore,
    Redisson,
    ScriptError,
    Semaphore,
)
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import Permit
from tests.support.waiting import until_async, until_waiting

NAME = "semaphore"

SAYS = "an existing semaphore keeps its number. To change it, call"

AnySemaphore = Semaphore | PermitExpirableSemaphore

Make = Callable[[Redisson, int | None], AnySemaphore]


def plain(client: Redisson, permits: int | None) -> Semaphore:
    return client.get_semaphore(NAME, permits)


def expirable(client: Redisson, permits: int | None) -> PermitExpirableSemaphore:
    return client.get_permit_expirable_semaphore(NAME, permits)


either = pytest.mark.parametrize("make", [plain, expirable])


async def by_acquire(semaphore: AnySemaphore) -> None:
    await (await semaphore.acquire()).release()


async def by_try_acquire(semaphore: AnySemaphore) -> None:
    permit = await semaphore.try_acquire()
    assert permit is not None
    await permit.release()


async def by_timeout(semaphore: AnySemaphore) -> None:
    await (await semaphore.acquire(timeout=60)).release()


async def by_block(semaphore: AnySemaphore) -> None:
    async with semaphore:
        pass


async def by_hold(semaphore: AnySemaphore) -> None:
    async with semaphore.hold(timeout=60):
        pass


async def by_available(semaphore: AnySemaphore) -> None:
    await semaphore.available()


async def by_try_set_permits(semaphore: AnySemaphore) -> None:
    assert not await semaphore.try_set_permits(10)


FIRST_USES = [
    by_acquire,
    by_try_acquire,
    by_timeout,
    by_block,
    by_hold,
    by_available,
    by_try_set_permits,
]

Use = Callable[[AnySemaphore], Awaitable[None]]


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings about numbers of permits that were logged."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno == logging.WARNING and SAYS in record.getMessage()
    ]


def warning(semaphore: AnySemaphore, found: int, named: int) -> str:
    """Return the warning of a semaphore with `found` permits where a client named others."""
    permits = "permit" if found == 1 else "permits"
    return (
        f"{semaphore.kind} 'semaphore' has {found} {permits}, not {named}: {SAYS}"
        f" set_permits({named}) or add_permits({named - found})"
    )


@either
@pytest.mark.parametrize("use", FIRST_USES)
@pytest.mark.parametrize("made", [2, 12])
async def test_the_first_use_says_both_numbers(
    make: Make, use: Use, made: int, clients: ClientFactory, caplog: pytest.LogCaptureFixture
) -> None:
    await by_acquire(make(clients(), made))
    semaphore = make(clients(), 10)
    await use(semaphore)
    assert warned(caplog) == [warning(semaphore, made, 10)]


@either
async def test_so_does_one_that_has_to_wait(
    make: Make, clients: ClientFactory, caplog: pytest.LogCaptureFixture
) -> None:
    permit = await make(clients(), 1).acquire()
    semaphore = make(clients(), 10)
    assert await semaphore.try_acquire() is None
    assert warned(caplog) == [warning(semaphore, 1, 10)]
    await permit.release()
    await by_acquire(semaphore)
    assert len(warned(caplog)) == 1


@either
async def test_it_is_said_once_for_a_client_and_a_name(
    make: Make, clients: ClientFactory, caplog: pytest.LogCaptureFixture
) -> None:
    await make(clients(), None).try_set_permits(7)
    for client in (clients(), clients()):
        for use in FIRST_USES[:-1]:
            await asyncio.gather(*[use(make(client, 5)) for _ in range(5)])
            await use(make(client, 6))
    assert len(warned(caplog)) == 2


@either
async def test_permits_that_agree_are_no_news(
    make: Make, clients: ClientFactory, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever holds them, and whether their leases are over."""
    held = [await make(clients(), 5).acquire() for _ in range(3)]
    for use in FIRST_USES[:-2]:
        await use(make(clients(), 5))
    leases = "{semaphore}:redisson_py:permits" if make is plain else "{semaphore}:timeout"
    ended: Any = dict.fromkeys(await redis.zrange(leases, 0, -1), 1000)
    assert await redis.zadd(leases, ended, xx=True, ch=True) == 3
    for use in FIRST_USES[:-1]:
        await use(make(clients(), 5))
    assert warned(caplog) == []
    for permit in held:
        with pytest.raises(LeaseLostError):
            await permit.release()


@either
@pytest.mark.parametrize("how", ["added", "set", "replaced"])
async def test_a_number_that_this_client_has_changed_is_no_news(
    make: Make, client: Redisson, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    semaphore = make(client, 5)
    if how == "added":
        await semaphore.add_permits(2)
    elif how == "set":
        assert await semaphore.try_set_permits(7)
    else:
        await semaphore.set_permits(7)
    assert await semaphore.available() == 7
    await by_acquire(semaphore)
    assert warned(caplog) == []


class TestBesideRedisson:
    """Its `acquire` of a plain semaphore leaves a smaller number, and nothing else."""

    @pytest.mark.parametrize("change", ["reduced", "deleted"])
    async def test_a_note_that_it_left_behind_is_not_believed(
        self, clients: ClientFactory, redis: Redis, caplog: pytest.LogCaptureFixture, change: str
    ) -> None:
        await by_acquire(plain(clients(), 10))
        if change == "reduced":
            # As its `addPermits(-7)` does.
            await redis.decrby(NAME, 7)
        else:
            # As its `delete` and its `trySetPermits` do.
            await redis.delete(NAME)
            await redis.set(NAME, 3)
        await redis.decr(NAME)
        for use in FIRST_USES[:-1]:
            await use(plain(clients(), 3))
        assert warned(caplog) == []


@pytest.mark.parametrize("command", ["hvals", "pttl"])
async def test_a_user_who_may_not_count_or_keep_the_note_does_without(
    clients: ClientFactory, redis: Redis, allow: Permit, command: str
) -> None:
    """What is refused is never half done: only Redis 6.2 lets a script find that out midway."""
    client = clients(url=await allow(command))
    if command == "hvals":
        assert await plain(clients(), None).try_set_permits(2)
    try:
        permit = await plain(client, 5).acquire()
    except ScriptError:
        assert command == "pttl"
        assert not await redis.exists(NAME)
    else:
        await permit.release()


def messages(caplog: pytest.LogCaptureFixture, level: int, words: str) -> list[str]:
    """Return the records of a level that have these words."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno == level and words in record.getMessage()
    ]


async def by_count(latch: CountDownLatch) -> None:
    await latch.count()


async def by_count_down(latch: CountDownLatch) -> None:
    await latch.count_down(2)


async def by_wait(latch: CountDownLatch) -> None:
    with pytest.raises(TimeoutError):
        await latch.wait(timeout=0)


LatchUse = Callable[[CountDownLatch], Awaitable[None]]

latch_uses = pytest.mark.parametrize("use", [by_count, by_count_down, by_wait])


class TestLatch:
    SAYS = "a latch that is set keeps its count. To change it, call delete() and try_set_count(10)"

    @latch_uses
    async def test_a_greater_count_is_another(
        self, use: LatchUse, clients: ClientFactory, caplog: pytest.LogCaptureFixture
    ) -> None:
        await clients().get_latch("k").try_set_count(12)
        client = clients()
        for _ in range(2):
            await use(client.get_latch("k", 10))
        assert messages(caplog, logging.WARNING, "latch") == [
            f"latch 'k' has a count of 12, not 10: {self.SAYS}"
        ]
        await client.get_latch("k").delete()

    async def test_a_wait_that_returns_at_once_says_why(
        self, client: Redisson, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG, "redisson_py")
        for name in ("unset", "unset", "counted"):
            if name == "counted":
                await client.get_latch(name, 1).count_down()
            await client.get_latch(name).wait()
        assert messages(caplog, logging.DEBUG, "is open") == [
            f"latch {name!r} is open, so wait() returned at once: nobody has set it, or it was"
            " counted down to zero"
            for name in ("unset", "counted")
        ]
        assert [each for each in caplog.records if each.levelno > logging.DEBUG] == []


class TestPrefer:
    SAYS = (
        "read-write lock 'k' is used with prefer='readers' and with prefer='writers': readers with"
        " 'readers' do not let a waiting writer go first. Use one value for a name"
    )

    async def test_one_client_that_says_both(
        self, client: Redisson, caplog: pytest.LogCaptureFixture
    ) -> None:
        for _ in range(2):
            client.get_read_write_lock("k")
            client.get_read_write_lock("k", prefer="writers")
        client.get_read_write_lock("other", prefer="writers")
        assert messages(caplog, logging.WARNING, "prefer") == [self.SAYS]

    @pytest.mark.parametrize("block", [True, False])
    async def test_a_reader_that_meets_a_writer_of_the_other_kind(
        self, block: bool, clients: ClientFactory, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It is let in all the same."""
        reader, writer, other = clients(), clients(), clients()
        async with reader.get_read_write_lock("k").read_lock():
            task = asyncio.create_task(
                writer.get_read_write_lock("k", prefer="writers").write_lock().acquire()
            )
            await until_waiting(writer, 1)
            await until_async(lambda: _keeps_readers_out(writer))
            for _ in range(2):
                lock = other.get_read_write_lock("k").read_lock()
                if block:
                    async with lock:
                        pass
                else:
                    lease = await lock.try_acquire()
                    assert lease is not None
                    await lease.release()
        await (await task).release()
        assert messages(caplog, logging.WARNING, "prefer") == [self.SAYS]


async def _keeps_readers_out(client: Redisson) -> bool:
    key = b"{k}:redisson_py:writers"
    return await client._executor.exists(key)
