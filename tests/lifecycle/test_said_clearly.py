"""Clear errors for waits for oneself, releases elsewhere, and calls without an asyncio loop."""

from __future__ import annotations

import asyncio
import logging
import math
import sys
from collections.abc import Callable
from typing import Any

import pytest
import trio

from redisson_py import NotHeldError, Redisson
from tests.fixtures.client import ClientFactory
from tests.support.leases import renewed_at_once
from tests.support.waiting import until, until_waiting


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if "wait forever" in each.getMessage()]


@pytest.mark.parametrize("kind", ["lock", "multi_lock"])
@pytest.mark.more
async def test_task_that_waits_for_itself_is_told_once(
    clients: ClientFactory, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    client = clients(lease_time=3)
    things: dict[str, Callable[[], Any]] = {
        "lock": lambda: client.get_lock("k"),
        "multi_lock": lambda: client.get_multi_lock(client.get_lock("k"), client.get_lock("l")),
    }
    thing = things[kind]()
    helper: asyncio.Task[None]

    async def help_out() -> None:
        async with thing:
            pass

    async def work() -> None:
        nonlocal helper
        async with thing:
            helper = asyncio.create_task(help_out(), name="the helper")
            await asyncio.gather(helper)

    working = asyncio.create_task(work(), name="the worker")
    await until(lambda: said(caplog))
    # Several renewals later it was still logged only once.
    await renewed_at_once(client, 3)
    (text,) = said(caplog)
    assert text.startswith("task 'the helper': waiting for ")
    assert "task 'the worker' of this client holds" in text
    assert "'k'" in text
    helper.cancel()
    await asyncio.gather(working, return_exceptions=True)


@pytest.mark.more
async def test_many_waits_are_told_in_one_record(
    clients: ClientFactory, caplog: pytest.LogCaptureFixture
) -> None:
    client = clients(lease_time=3)
    lock = client.get_lock("k")
    lease = await lock.acquire()
    waiting = [asyncio.create_task(lock.acquire(), name=f"task-{n}") for n in range(50)]
    await until_waiting(client, 50)
    await until(lambda: said(caplog))
    (text,) = said(caplog)
    assert text.startswith("task 'task-0', task 'task-1', task 'task-2' and 47 more: ")
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await lease.release()


@pytest.mark.more
async def test_short_waits_and_those_with_a_timeout_are_not_told(
    clients: ClientFactory, caplog: pytest.LogCaptureFixture
) -> None:
    client = clients(lease_time=3)
    lock = client.get_lock("k")
    lease = await lock.acquire()
    timed = asyncio.create_task(lock.acquire(timeout=60), name="the patient")
    clock, longest = asyncio.get_running_loop().time, math.inf
    # A stalled machine makes a short wait long: try again.
    while longest > 1.4:
        assert not any("the patient" in each for each in said(caplog))
        caplog.clear()
        longest = 0.0
        renewals = client.statistics().renewals
        while client.statistics().renewals < renewals + 2:
            # Gone again before the second look.
            begun, seen = clock(), client.statistics().renewals
            short = asyncio.create_task(lock.acquire())
            await until(lambda seen=seen: client.statistics().renewals > seen)  # type: ignore[misc]
            short.cancel()
            await asyncio.gather(short, return_exceptions=True)
            longest = max(longest, clock() - begun)
    assert said(caplog) == []
    await lease.release()
    await (await timed).release()


@pytest.mark.parametrize("kind", ["lock", "multi_lock"])
async def test_release_by_a_task_that_holds_nothing_names_the_holder(
    client: Redisson, kind: str
) -> None:
    lock: Any = client.get_lock("k")
    if kind == "multi_lock":
        lock = client.get_multi_lock(lock, client.get_lock("l"))
    with pytest.raises(NotHeldError, match=r"current task$"):
        await lock.release()

    async def keep(lease: asyncio.Future[Any], leave: asyncio.Event) -> None:
        lease.set_result(await lock.acquire())
        await leave.wait()

    got, leave = asyncio.get_running_loop().create_future(), asyncio.Event()
    holder = asyncio.create_task(keep(got, leave), name="the holder")
    lease = await got
    with pytest.raises(NotHeldError, match=r"task 'the holder'.*lease.release"):
        await lock.release()
    leave.set()
    await holder
    ended = r"has ended.*wait_for.*acquire\(timeout=\.\.\.\).*lease.release"
    with pytest.raises(NotHeldError, match=ended):
        await lock.release()
    del holder
    with pytest.raises(NotHeldError, match=ended):
        await lock.release()
    await lease.release()


async def test_wait_for_says_what_to_do_instead(client: Redisson) -> None:
    lock = client.get_lock("k")
    lease = await asyncio.wait_for(lock.acquire(), 10)
    if sys.version_info < (3, 12):
        with pytest.raises(NotHeldError, match="wait_for"):
            await lock.release()
        await lease.release()
    else:
        await lock.release()


# Without an event loop of asyncio.

USES: dict[str, Callable[[Redisson], Any]] = {
    "ping": lambda client: client.ping(),
    "aenter": lambda client: client.__aenter__(),
    "lock": lambda client: client.get_lock("k").__aenter__(),
    "acquire": lambda client: client.get_lock("k").acquire(),
    "acquire timeout": lambda client: client.get_lock("k").acquire(timeout=1),
    "try_acquire": lambda client: client.get_fair_lock("k").try_acquire(),
    "hold": lambda client: client.get_lock("k").hold().__aenter__(),
    "release": lambda client: client.get_lock("k").release(),
    "multi lock": lambda client: client.get_multi_lock(client.get_lock("k")).__aenter__(),
    "red lock": lambda client: client.get_red_lock(client.get_lock("k")).acquire(),
    "semaphore": lambda client: client.get_semaphore("s", 1).__aenter__(),
    "semaphore acquire": lambda client: client.get_semaphore("s", 1).acquire(timeout=1),
    "semaphore try": lambda client: client.get_permit_expirable_semaphore("s", 1).try_acquire(),
    "latch": lambda client: client.get_latch("l", 1).wait(),
    "count_down": lambda client: client.get_latch("l", 1).count_down(),
    "barrier": lambda client: client.get_barrier("b", 1).wait(),
    "locked": lambda client: client.get_lock("k").locked(),
    "inspect": lambda client: client.get_lock("k").inspect(),
}

every_use = pytest.mark.parametrize("use", USES.values(), ids=USES)


@every_use
def test_trio_is_named(use: Callable[[Redisson], Any]) -> None:
    client = Redisson.from_url("redis://127.0.0.1:1")

    async def main() -> None:
        with pytest.raises(RuntimeError, match="asyncio; trio is not supported"):
            await use(client)

    trio.run(main)
    assert client._root is None


@every_use
def test_call_outside_of_any_loop_is_said(use: Callable[[Redisson], Any]) -> None:
    client = Redisson.from_url("redis://127.0.0.1:1")
    call = use(client)
    with pytest.raises(RuntimeError, match="redisson_py needs a running event loop: call this"):
        call.send(None)
    call.close()


def test_logger_of_these_is_the_library_s() -> None:
    from redisson_py._engine import watchdog

    assert watchdog.log is logging.getLogger("redisson_py")
