"""A lease that its holder shortens while another task of the client waits for its old end."""

from __future__ import annotations

import asyncio

import pytest

from redisson_py._engine.waiting import SAFETY_POLL
from tests.fixtures.client import ClientFactory
from tests.lifecycle.late_bytes import REENTRANT


@pytest.mark.parametrize("kind", [each for each in REENTRANT if each != "read_lock"])
async def test_a_waiter_asks_again_when_the_lease_is_over(
    kind: str, clients: ClientFactory
) -> None:
    """Both asked at once, so the waiter is not behind the holder in the local queue."""
    client = clients()
    await client.ping()
    thing = REENTRANT[kind](client)
    holding = asyncio.create_task(thing.try_acquire())
    waiting = asyncio.create_task(thing.acquire())
    lease = await holding
    assert lease is not None
    await lease.extend(0.2)
    async with asyncio.timeout(SAFETY_POLL * 0.8):
        await (await waiting).release()
