"""What goes wrong between us and a store, and in it: over every store, through its public client."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from redisson_py import ConnectionLostError, Lease, LeaseLostError, NotHeldError
from tests.fixtures.measured import Measured
from tests.stores.backends import LEASE, Backend, Client
from tests.stores.conftest import NewClient
from tests.stores.faults_scene import (
    INCREMENTS,
    SOON,
    BadNetwork,
    Ledger,
    another_process,
    end_session,
    proxied,
    take_away,
)
from tests.support.waiting import until, until_async

#: How often the network misbehaves in a test.
FAULTS = 60


@pytest.fixture
def store(request: pytest.FixtureRequest, backend: Backend) -> str:
    """The name of the store."""
    return next(name for name in request.node.callspec.params.values() if isinstance(name, str))


@contextlib.asynccontextmanager
async def paused(backend: Backend) -> Iterator[None]:  # type: ignore[misc]
    """Stop the server for the time of a block."""
    await backend.pause()
    try:
        yield
    finally:
        await backend.resume()


async def is_free(client: Client, name: str = "k") -> bool:
    return not await client.get_lock(name).locked()


async def body_of(client: Client, held: list[Lease], name: str = "k") -> float:
    """Hold a lock until it is lost; return when the body was told."""
    with pytest.raises(LeaseLostError) as caught:
        async with client.get_lock(name) as lease:
            held.append(lease)
            try:
                await asyncio.sleep(6 * SOON)
            finally:
                told = time.monotonic()
                assert lease.lost
                assert lease.remaining == 0
    assert caught.value.reason in ("expired", "taken")
    return told


# Lost answers.


async def test_lost_answers_have_no_double_effect(
    backend: Backend, new_client: NewClient, measured: Measured
) -> None:
    ledgers = [Ledger("a"), Ledger("b")]
    # No lock passes from task to task in a client: each is asked for.
    options = {"lease_time": 4 * LEASE, "command_timeout": SOON, "turn": 0}
    direct = new_client(**options)
    async with proxied(backend) as proxy:
        clients = [backend.client(proxy.url, **options) for _ in range(2)]
        network = BadNetwork(proxy, 18, lambda: sum(len(each.tokens) for each in ledgers))

        def enough() -> bool:
            return network.faults.total() >= FAULTS

        async with asyncio.timeout(9 * SOON):
            async with asyncio.TaskGroup() as tasks:
                disturbing = asyncio.create_task(network.run())
                async with asyncio.TaskGroup() as working:
                    for number, ledger in enumerate(ledgers):
                        for client in (*clients, *clients, direct):
                            working.create_task(ledger.work(client, enough, number))
                disturbing.cancel()
                tasks.create_task(asyncio.wait([disturbing]))
            for ledger in ledgers:
                ledger.check()
                await until_async(lambda name=ledger.name: is_free(direct, name), seconds=5 * SOON)
        for client in clients:
            await until(lambda client=client: not client._watchdog.holds)
            await client.aclose()
    done = ledgers[0].done + ledgers[1].done
    assert done["released"] > FAULTS
    measured("faults", dict(network.faults))
    measured("done", dict(done))
