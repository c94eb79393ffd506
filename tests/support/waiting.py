"""Waiting for a stated condition, and for what the tasks of a client wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import pytest

from redisson_py import Redisson
from redisson_py._engine import waiting
from redisson_py.semaphores import _queue
from tests.support.any_client import Client

if TYPE_CHECKING:
    # Jepsen's workers of an older version have no such module.
    from redisson_py._redis.context import RedisContext


async def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Return when `condition()` is true; fail if that takes longer than `seconds`."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.001)


async def until_async(condition: Callable[[], Awaitable[object]], seconds: float = 30.0) -> None:
    """As `until`, for a condition that must be awaited."""
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.005)


async def until_waiting(client: Client, count: int) -> None:
    """Return when `count` tasks of this client wait."""
    await until(lambda: client.statistics().waiters == count)


async def until_listening(client: Redisson) -> None:
    """Return when the head of a queue of this client has asked, heard "busy", and sleeps."""

    await until(lambda: listens(client._context))


def listens(context: RedisContext) -> bool:
    """Return whether there are seats, and the servers of all of them have answered."""
    channels = [each for each, channel in context.bus.table.channels.items() if channel.seats]
    streams = {context.executor.router.stream_for(each) for each in channels}
    return bool(streams) and all(each.ready and each.idle for main in streams for each in main.pair)


def set_safety_poll(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Set the maximum time that waiters sleep without a message before they ask again."""
    for module in (waiting, _queue):
        monkeypatch.setattr(module, "SAFETY_POLL_SECONDS", seconds)
