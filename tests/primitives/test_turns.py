"""Turns for those that hear of releases and are not in the queue of clients, as Redisson's."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from redisson_py._engine import local_queue
from redisson_py._keys import permit_channel, read_write_channel
from tests.fixtures.client import ClientFactory
from tests.lua.test_golden_vectors import listening


@pytest.mark.parametrize(("pause", "turns"), [(60.0, 1), (0.0, 5)])
async def test_a_turn_that_nobody_took_is_not_offered_again_for_a_while(
    clients: ClientFactory, redis: Redis, monkeypatch: pytest.MonkeyPatch, pause: float, turns: int
) -> None:
    """Who has waited listens for a moment longer than needed, and must not slow others down."""
    monkeypatch.setattr(local_queue, "YIELD_BACK_OFF", pause)
    lock = clients().get_read_write_lock("k").write_lock()
    queue = lock._ownership.queue
    assert queue is not None
    offered = 0
    async with listening(redis, read_write_channel(b"k")):
        for _ in range(5):
            async with lock:
                pass
            offered += queue.turn is not None
    assert offered == turns


async def test_a_turn_that_is_over_does_not_keep_a_semaphore_from_its_short_way(
    clients: ClientFactory, redis: Redis
) -> None:
    """The others heard of the release, and left; nobody may ever take that turn away."""
    semaphore = clients().get_semaphore("s", 2)
    ownership, loop, task = semaphore._ownership, asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    async with listening(redis, permit_channel(b"s")):
        async with semaphore:
            pass
    assert ownership.permit_queue.turn is not None
    while ownership.permit_queue.is_ahead:
        await asyncio.sleep(0.001)
    begun = ownership.begin(loop, task)
    assert begun is not None
    ownership.abandon(begun[0])
    assert await semaphore.available() == 2
    assert await semaphore.delete()
