"""What the interop tests wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

import pytest
from redis.asyncio import Redis

from tests.interop.java import JavaObject
from tests.support.waiting import set_safety_poll, until_async

T = TypeVar("T")


def only_messages_wake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have waiters of this library look again only when they are told, or a lease is over."""
    set_safety_poll(monkeypatch, 1000.0)


async def soon(waiting: Awaitable[T]) -> T:
    """Return what was waited for; fail unless it comes long before any lease here is over."""
    async with asyncio.timeout(60):
        return await waiting


async def until_asleep(of: JavaObject, *threads: str) -> None:
    """Return when these Java threads have asked in vain and sleep until they are told."""

    async def asleep() -> bool:
        orders = [of.java.driver.call("sleeps", thread, thread="looks on") for thread in threads]
        return all(await asyncio.gather(*orders))

    await until_async(asleep)


async def until_java_listens(redis: Redis, channel: str | bytes, clients: int = 1) -> None:
    """Return when so many clients have subscribed; for what waits without a thread."""

    async def subscribed() -> bool:
        ((_, count),) = await redis.pubsub_numsub(channel)
        return int(count) == clients

    await until_async(subscribed)
