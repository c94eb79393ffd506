"""Turns between clients that want one write lock: it has no queue of clients."""

from __future__ import annotations

import asyncio

import pytest

from redisson_py._engine import bus, local_queue
from tests.fixtures.client import ClientFactory
from tests.support.waiting import until_listening


@pytest.mark.parametrize(("pause", "turns"), [(60.0, 1), (0.0, 5)])
async def test_a_turn_that_nobody_took_is_not_offered_again_for_a_while(
    clients: ClientFactory, monkeypatch: pytest.MonkeyPatch, pause: float, turns: int
) -> None:
    """Who has waited listens for a moment longer than needed, and must not slow others down."""
    monkeypatch.setattr(local_queue, "YIELD_BACK_OFF", pause)
    monkeypatch.setattr(bus, "LINGER", 60.0)
    client, other = clients(), clients()
    lock = client.get_read_write_lock("k").write_lock()
    async with lock:
        waiting = asyncio.create_task(other.get_read_write_lock("k").write_lock().acquire())
        await until_listening(other)
    lease = await waiting
    await lease.release()
    queue = lock._ownership.queue
    assert queue is not None
    queue.turn = None
    offered = 0
    for _ in range(5):
        async with lock:
            pass
        offered += queue.turn is not None
    assert offered == turns
