"""What the tests of semaphores and latches need: waiters known to sleep, holders to kill."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest

from redisson_py import Redisson, _waiting
from redisson_py._primitives import permit_line
from tests.interop.java import JavaObject
from tests.support import until_async

NAME = "semaphore"
T = TypeVar("T")


def only_messages_wake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have waiters of this library look again only when they are told, or a lease is over."""
    for module in (_waiting, permit_line):
        monkeypatch.setattr(module, "SAFETY_POLL", 1000)


async def soon(waiting: Awaitable[T]) -> T:
    """Return what was waited for; fail unless it comes long before any lease here is over."""
    async with asyncio.timeout(10):
        return await waiting


async def until_asleep(of: JavaObject, *threads: str) -> None:
    """Return when these Java threads have asked in vain and sleep until they are told."""

    async def asleep() -> bool:
        orders = [of.java.driver.call("sleeps", thread, thread="looks") for thread in threads]
        return all(await asyncio.gather(*orders))

    await until_async(asleep)


@asynccontextmanager
async def holder(url: str, lease_time: float, kind: str, units: int = 1) -> AsyncIterator[Process]:
    """Have a Python process hold units of the semaphore, with the watchdog; it is killed after."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, url, str(lease_time), kind, str(units), stdout=PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(30):
            assert await process.stdout.readline() == b"held\n"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def _hold(url: str, lease_time: float, kind: str, units: int) -> None:
    async with Redisson.from_url(url, lease_time=lease_time) as client:
        if kind == "plain":
            await client.get_semaphore(NAME).acquire(units)
        else:
            await client.get_permit_expirable_semaphore(NAME).acquire_many(units)
        sys.stdout.write("held\n")
        sys.stdout.flush()
        await asyncio.sleep(60)


if __name__ == "__main__":
    asyncio.run(_hold(sys.argv[1], float(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
