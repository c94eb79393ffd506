"""The ways in which a task that waits is made to stop, from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest

Wait = Callable[[], Coroutine[Any, Any, object]]
GiveUp = Callable[[Wait], Coroutine[Any, Any, None]]

SECONDS = 0.05


async def by_timeout(wait: Wait) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(SECONDS):
            await wait()


async def by_scope(wait: Wait) -> None:
    with anyio.move_on_after(SECONDS) as scope:
        await wait()
    assert scope.cancelled_caught


async def by_cancel(wait: Wait) -> None:
    task = asyncio.ensure_future(wait())
    asyncio.get_running_loop().call_later(SECONDS, task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task


WAYS: list[GiveUp] = [by_timeout, by_scope, by_cancel]
