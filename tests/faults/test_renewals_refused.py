"""Thousands of leases that a server refuses to renew cost a few commands and one log record."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import Lease, Redisson
from redisson_py._engine.watchdog import BATCH_HOLDS
from redisson_py.testing import EmbeddedServer
from tests.fixtures.client import ClientFactory
from tests.fixtures.measured import Measured
from tests.support.leases import renew_now
from tests.support.sick_server import unable_to_save
from tests.support.waiting import until

HOLDS = 5000
BATCHES = HOLDS // BATCH_HOLDS


@pytest_asyncio.fixture
async def client(
    clients: ClientFactory, own_server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> AsyncIterator[Redisson]:
    """A client that holds 5,000 locks."""
    client = clients(own_server.url, lease_time=60)
    leases: list[Lease] = []
    for start in range(0, HOLDS, 500):
        names = [f"k{number}" for number in range(start, start + 500)]
        leases += await asyncio.gather(*[client.get_lock(name).acquire() for name in names])
    caplog.set_level(logging.WARNING, "redisson_py")
    yield client
    assert not any(lease.lost for lease in leases)
    await asyncio.gather(*[lease.release() for lease in leases])


def refused_now(client: Redisson) -> int:
    return sum(len(stream._refused_calls) for stream in client._router.streams())


@pytest.mark.more
async def test_a_server_that_cannot_save(
    client: Redisson,
    own_server: EmbeddedServer,
    caplog: pytest.LogCaptureFixture,
    measured: Measured,
) -> None:
    async with unable_to_save(own_server):
        sent = client.statistics().commands_sent
        renew_now(client)
        await until(lambda: refused_now(client) >= BATCHES - 1)
        assert client.statistics().commands_sent - sent <= BATCHES + 10
        # Three seconds more: only one of them is sent again at a time.
        began, sent = asyncio.get_running_loop().time(), client.statistics().commands_sent
        await asyncio.sleep(3)
        seconds = asyncio.get_running_loop().time() - began
        asked = client.statistics().commands_sent - sent
        measured("commands a second while 5,000 renewals are refused", f"{asked / seconds:.1f}")
        # A pause lasts 0.2 s at least.
        assert asked <= 10 + 5 * seconds
        records = [record.getMessage() for record in caplog.records]
        assert len(records) == 1, records
        renewals = client.statistics().renewals
    await until(lambda: client.statistics().renewals - renewals >= BATCHES)
    assert len(caplog.records) == 1


@pytest.mark.more
async def test_a_user_who_may_run_no_script_any_more(
    client: Redisson, own_server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    sent = client.statistics().commands_sent
    async with Redis.from_url(own_server.url) as admin:
        await admin.acl_setuser("default", enabled=True, commands=["-evalsha"])
        for asked in (1, 2, 3):
            renew_now(client)
            await until(lambda: client.statistics().commands_sent - sent >= asked * BATCHES)  # noqa: B023
            await client.ping()
        # No batch is halved, and what is refused is not asked for again at once.
        assert client.statistics().commands_sent - sent <= 3 * BATCHES + 10
        records = [record.getMessage() for record in caplog.records]
        assert len(records) == 1, records
        assert f"refused to renew {BATCH_HOLDS} leases, among them lock 'k0'; " in records[0]
        await admin.acl_setuser("default", enabled=True, commands=["+evalsha"])
    renew_now(client)
    renewals = client.statistics().renewals
    await until(lambda: client.statistics().renewals - renewals >= BATCHES)
