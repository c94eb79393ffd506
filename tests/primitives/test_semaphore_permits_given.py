"""`permits=` that disagrees with an existing semaphore: a warning, once, where it is known."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from redis.asyncio import Redis

from redisson_py import PermitExpirableSemaphore, Redisson, Semaphore
from tests.fixtures.client import ClientFactory

NAME = "semaphore"
SAYS = "`permits` only counts where there is none yet"


def plain(client: Redisson, permits: int | None) -> Semaphore:
    return client.get_semaphore(NAME, permits)


def expirable(client: Redisson, permits: int | None) -> PermitExpirableSemaphore:
    return client.get_permit_expirable_semaphore(NAME, permits)


Make = Callable[[Redisson, int | None], Semaphore | PermitExpirableSemaphore]
either = pytest.mark.parametrize("make", [plain, expirable])


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings about numbers of permits that were logged."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno == logging.WARNING and SAYS in record.getMessage()
    ]


async def test_permits_with_ids_are_compared_while_another_client_holds_them(
    clients: ClientFactory, caplog: pytest.LogCaptureFixture
) -> None:
    holder, client = clients(), clients()
    permit = await expirable(holder, 2).acquire()
    assert await expirable(client, 5).permits() == 2
    assert warnings(caplog) == [
        f"permit expirable semaphore 'semaphore' has 2 permits, not 5: {SAYS}"
    ]
    await permit.release()


async def test_more_free_permits_than_given_are_a_disagreement(
    clients: ClientFactory, caplog: pytest.LogCaptureFixture
) -> None:
    maker, client = clients(), clients()
    await plain(maker, None).try_set_permits(7)
    assert await plain(client, 5).available() == 7
    assert warnings(caplog) == [f"semaphore 'semaphore' has 7 permits free, not 5: {SAYS}"]


async def test_fewer_free_permits_may_be_taken_by_redisson(
    client: Redisson, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    # What its `acquire` leaves behind is a smaller number, and nothing else.
    await redis.set(NAME, 2)
    assert await plain(client, 5).available() == 2
    assert warnings(caplog) == []


@either
async def test_it_is_said_once_for_a_name(
    make: Make, clients: ClientFactory, caplog: pytest.LogCaptureFixture
) -> None:
    await make(clients(), None).try_set_permits(7)
    client = clients()
    semaphore = make(client, 5)
    for _ in range(2):
        assert await semaphore.available() == 7
        assert await make(client, 5).available() == 7
    assert len(warnings(caplog)) == 1


@either
async def test_permits_that_agree_are_no_news(
    make: Make, clients: ClientFactory, caplog: pytest.LogCaptureFixture
) -> None:
    for client in (clients(), clients()):
        semaphore = make(client, 5)
        assert await semaphore.available() == 5
        async with semaphore:
            assert await semaphore.available() == 4
    assert warnings(caplog) == []


@either
@pytest.mark.parametrize("how", ["added", "set"])
async def test_a_number_that_this_client_has_changed_is_no_news(
    make: Make, client: Redisson, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    semaphore = make(client, 5)
    if how == "added":
        await semaphore.add_permits(2)
    else:
        assert await semaphore.try_set_permits(7)
    assert await semaphore.available() == 7
    assert warnings(caplog) == []


@either
async def test_a_set_that_was_refused_changes_nothing(
    make: Make, clients: ClientFactory, caplog: pytest.LogCaptureFixture
) -> None:
    await make(clients(), None).try_set_permits(7)
    semaphore = make(clients(), 5)
    assert not await semaphore.try_set_permits(5)
    assert await semaphore.available() == 7
    assert len(warnings(caplog)) == 1
