"""`permits=` that disagrees with an existing semaphore: one warning, at the client's first use."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import (
    LeaseLostError,
    PermitExpirableSemaphore,
    Redisson,
    ScriptError,
    Semaphore,
)
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import Permit
from tests.support.counting import Counted
from tests.support.streams import answered

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


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
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
    assert warnings(caplog) == [warning(semaphore, made, 10)]


@either
async def test_so_does_one_that_has_to_wait(
    make: Make, clients: ClientFactory, caplog: pytest.LogCaptureFixture
) -> None:
    permit = await make(clients(), 1).acquire()
    semaphore = make(clients(), 10)
    assert await semaphore.try_acquire() is None
    assert warnings(caplog) == [warning(semaphore, 1, 10)]
    await permit.release()
    await by_acquire(semaphore)
    assert len(warnings(caplog)) == 1


@either
async def test_it_is_said_once_for_a_client_and_a_name(
    make: Make, clients: ClientFactory, caplog: pytest.LogCaptureFixture
) -> None:
    await make(clients(), None).try_set_permits(7)
    for client in (clients(), clients()):
        for use in FIRST_USES[:-1]:
            await asyncio.gather(*[use(make(client, 5)) for _ in range(5)])
            await use(make(client, 6))
    assert len(warnings(caplog)) == 2


@either
async def test_permits_that_agree_are_no_news(
    make: Make, clients: ClientFactory, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever holds them, and whether their leases are over."""
    held = [await make(clients(), 5).acquire() for _ in range(3)]
    for use in FIRST_USES[:-2]:
        await use(make(clients(), 5))
    leases = "{semaphore}:redisson_py:permits" if make is plain else "{semaphore}:timeout"
    over: Any = dict.fromkeys(await redis.zrange(leases, 0, -1), 1000)
    assert await redis.zadd(leases, over, xx=True, ch=True) == 3
    for use in FIRST_USES[:-1]:
        await use(make(clients(), 5))
    assert warnings(caplog) == []
    for permit in held:
        with pytest.raises(LeaseLostError):
            await permit.release()


@either
async def test_another_number_that_was_tried_is_not_the_one_that_is_named(
    make: Make, clients: ClientFactory, caplog: pytest.LogCaptureFixture
) -> None:
    await by_acquire(make(clients(), 2))
    semaphore = make(clients(), 10)
    assert not await semaphore.try_set_permits(2)
    await by_acquire(semaphore)
    assert warnings(caplog) == [warning(semaphore, 2, 10)]


@either
async def test_what_others_have_changed_is_news(
    make: Make, clients: ClientFactory, caplog: pytest.LogCaptureFixture
) -> None:
    maker = make(clients(), 2)
    permit: Any = await maker.acquire()
    await maker.add_permits(5)
    semaphore = make(clients(), 2)
    await by_acquire(semaphore)
    await maker.add_permits(-4)
    less = make(clients(), 5)
    await by_acquire(less)
    await permit.release()
    assert warnings(caplog) == [warning(semaphore, 7, 2), warning(less, 3, 5)]


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
    assert warnings(caplog) == []


@either
async def test_it_costs_a_command_only_where_it_is_said(
    make: Make, clients: ClientFactory, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    await by_acquire(make(clients(), 2))
    for named, calls in ((2, 2), (10, 3)):
        client = clients()
        await answered(client)
        async with Counted(redis) as counted:
            await by_block(make(client, named))
        assert counted.calls["evalsha"] == calls
        async with Counted(redis) as counted:
            await by_block(make(client, named))
        assert counted.calls["evalsha"] == 2
    assert len(warnings(caplog)) == 1


class TestBesideRedisson:
    """Its `acquire` of a plain semaphore leaves a smaller number, and nothing else."""

    async def test_what_it_made_may_have_any_number_that_is_not_smaller(
        self, clients: ClientFactory, redis: Redis, caplog: pytest.LogCaptureFixture
    ) -> None:
        await redis.set(NAME, 2)
        for use in FIRST_USES[:-1]:
            await use(plain(clients(), 5))
        assert warnings(caplog) == []
        semaphore = plain(clients(), 1)
        await by_acquire(semaphore)
        assert warnings(caplog) == [warning(semaphore, 2, 1)]

    async def test_what_it_has_taken_counts(
        self, clients: ClientFactory, redis: Redis, caplog: pytest.LogCaptureFixture
    ) -> None:
        permit = await plain(clients(), 5).acquire()
        await redis.decrby(NAME, 3)
        for use in FIRST_USES[:-1]:
            await use(plain(clients(), 5))
        assert warnings(caplog) == []
        semaphore = plain(clients(), 9)
        await by_acquire(semaphore)
        assert warnings(caplog) == [warning(semaphore, 5, 9)]
        await permit.release()

    @pytest.mark.parametrize("change", ["added", "drained", "deleted"])
    async def test_the_note_is_kept(
        self, clients: ClientFactory, redis: Redis, caplog: pytest.LogCaptureFixture, change: str
    ) -> None:
        maker = plain(clients(), 5)
        await by_acquire(maker)
        if change == "added":
            await maker.add_permits(3)
        elif change == "drained":
            await maker.drain()
            await maker.add_permits(8)
        else:
            await maker.delete()
            await by_acquire(plain(clients(), 8))
        await redis.decrby(NAME, 6)
        await by_acquire(plain(clients(), 8))
        assert warnings(caplog) == []
        semaphore = plain(clients(), 9)
        await by_acquire(semaphore)
        assert warnings(caplog) == [warning(semaphore, 8, 9)]

    async def test_a_number_that_it_raised_is_not_known(
        self, clients: ClientFactory, redis: Redis, caplog: pytest.LogCaptureFixture
    ) -> None:
        await by_acquire(plain(clients(), 2))
        # As its `addPermits` does.
        await redis.set(NAME, 7)
        await by_acquire(plain(clients(), 9))
        assert warnings(caplog) == []

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
        assert warnings(caplog) == []


async def test_the_note_ends_with_the_semaphore(client: Redisson, redis: Redis) -> None:
    note = "{semaphore}:redisson_py:total"
    semaphore = plain(client, None)
    await semaphore.try_set_permits(2, lifetime=60)
    assert await redis.get(note) == b"2"
    assert 0 < await redis.pttl(note) <= 60_000
    await semaphore.delete()
    assert not await redis.exists(note)


async def test_the_note_lasts_as_long_as_an_idle_semaphore(
    clients: ClientFactory, redis: Redis
) -> None:
    client = clients(idle_lifetime=60)
    await by_acquire(plain(client, 2))
    note = "{semaphore}:redisson_py:total"
    await redis.pexpire(note, 1000)
    await by_acquire(plain(client, 2))
    assert 60_000 < await redis.pttl(note) <= 90_000


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
