"""Waiters for permits look again although nobody told them."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from redisson_py import PermitExpirableSemaphore, Redisson
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.fair_locks import die
from tests.support.waiting import set_safety_poll, until_listening

NAME = "semaphore"
UNKNOWN = "0" * 32
REDISSONS_NEVER = 922337203685477  # the end of a lease that has none


def get(client: Redisson, permits: int | None = None) -> PermitExpirableSemaphore:
    return client.get_permit_expirable_semaphore(NAME, permits)


class TestWakeUps:
    async def test_a_release_that_nobody_was_told_of_is_noticed(
        self, client: Redisson, redis: Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Weakness 28: Redisson's acquire waits for a message, and for no other reason."""
        set_safety_poll(monkeypatch, 0.1)
        semaphore = get(client)
        await semaphore.try_set_permits(0)
        waiting = asyncio.create_task(semaphore.acquire(timeout=30))
        await until_listening(client)
        await redis.set(NAME, 1)  # and no message at all
        async with asyncio.timeout(10):
            await (await waiting).release()

    async def test_a_release_while_the_waiter_was_cut_off_is_not_missed(
        self,
        client: Redisson,
        clients: ClientFactory,
        proxy: ProxyFactory,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Weakness 28: after a reconnect Redisson subscribes again, and does not look."""
        set_safety_poll(monkeypatch, 60)
        link = await proxy()
        waiter = clients(link.url)
        semaphore = get(client, 1)
        permit = await semaphore.acquire(lease_time=60)
        waiting = asyncio.create_task(get(waiter).acquire(timeout=30))
        await until_listening(waiter)
        die(link)
        await permit.release()
        link.pass_through()
        async with asyncio.timeout(20):  # before the safety poll
            await (await waiting).release()
