"""`sync_replicas`: what happens between a grant of the master and that of its replicas."""

from __future__ import annotations

import asyncio

import pytest

from tests.fixtures.client import ClientFactory
from tests.support.waiting import until_async
from tests.topology.conftest import Pair


async def test_a_forced_release_finds_a_grant_that_replicas_have_not_confirmed(
    pair: Pair, clients: ClientFactory
) -> None:
    """The master forgets it before its own client has heard of it."""
    client = clients(pair.url, sync_replicas=1, sync_timeout=30, command_timeout=30)
    other = clients(pair.url)
    async with client.get_lock("first"):
        pass
    await pair.freeze()
    acquiring = asyncio.create_task(client.get_lock("k").acquire())
    await until_async(pair.blocked)
    assert await client.get_lock("k").force_release()
    taken = await other.get_lock("k").acquire(timeout=0)
    await pair.servers.thaw(pair.replicas[0])
    lease = await acquiring
    # No renewal is due by now.
    async with asyncio.timeout(5):
        await lease.wait_lost()
    await taken.release()


@pytest.mark.parametrize("turns", [1, 2, 3])
async def test_a_call_whose_caller_was_cancelled_is_confirmed_as_any_other(
    pair: Pair, clients: ClientFactory, turns: int, caplog: pytest.LogCaptureFixture
) -> None:
    """It has another future then, beside which a batch of grants was confirmed."""
    client = clients(pair.url, sync_replicas=1, sync_timeout=30, command_timeout=30)
    lock = client.get_lock("k")
    outer, inner = await lock.acquire(), await lock.acquire()
    releasing = asyncio.create_task(inner.release())
    for _ in range(turns):
        await asyncio.sleep(0)
    releasing.cancel()
    await asyncio.wait([releasing])
    await outer.extend(20)
    await outer.release()
    assert not await lock.locked()
    assert not [record for record in caplog.records if "Fatal" in record.getMessage()]
