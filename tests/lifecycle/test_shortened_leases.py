"""A lease that its holder shortens while another task of the client waits for its old end."""

from __future__ import annotations

import asyncio

import pytest

from tests.fixtures.client import ClientFactory
from tests.lifecycle.late_bytes import REENTRANT
from tests.support.waiting import set_safety_poll


@pytest.mark.parametrize("kind", [each for each in REENTRANT if each != "read_lock"])
async def test_a_waiter_asks_again_when_the_lease_is_over(
    kind: str, clients: ClientFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both asked at once, so the waiter is not behind the holder in the local queue."""
    set_safety_poll(monkeypatch, 60)  # which would find it too, later
    client = clients()
    await client.ping()
    thing = REENTRANT[kind](client)
    holding = asyncio.create_task(thing.try_acquire())
    waiting = asyncio.create_task(thing.acquire())
    lease = await holding
    assert lease is not None
    await lease.extend(1)
    # Before the old end, in half a minute.
    async with asyncio.timeout(20):
        await (await waiting).release()
