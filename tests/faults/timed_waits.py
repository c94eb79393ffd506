"""Waits with a timeout, begun again where a busy machine used up their time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from redisson_py import Redisson
from redisson_py._options import LAST_LOOK
from tests.support.waiting import listens, until


async def begun_in_time(
    begin: Callable[[], Coroutine[Any, Any, object]], seconds: float, told: Callable[[], object]
) -> asyncio.Task[object]:
    """Begin a wait of so many seconds; return it when `told()`, before it takes its last look.

    Later than that what Redis said is no "busy a while ago": the wait ends, and is begun again.
    """
    clock = asyncio.get_running_loop().time
    while True:
        ends = clock() + seconds
        waiting = asyncio.create_task(begin())
        await until(lambda waiting=waiting: told() or waiting.done(), 20)  # type: ignore[misc]
        if not waiting.done() and ends - clock() > LAST_LOOK + 0.2:
            return waiting
        await asyncio.gather(waiting, return_exceptions=True)


async def outcomes(calls: list[Coroutine[Any, Any, Any]]) -> list[type]:
    """Make calls at once; return the types of what they return or raise."""
    return [type(each) for each in await asyncio.gather(*calls, return_exceptions=True)]


def was_told_busy(client: Redisson, waiters: int = 1) -> bool:
    """Whether so many tasks of a client wait, and what was asked for them is answered."""
    return client.statistics().waiters == waiters and listens(client._table, client._router)
