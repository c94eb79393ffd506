"""Suites that freeze time: locks measure real time, before, while and after time is frozen."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from typing import Any

import freezegun
import pytest
import pytest_asyncio
import time_machine

import redisson_py.sync
from redisson_py import AcquireTimeoutError, LeaseLostError, Redisson, ReplicationError
from redisson_py.sync import _loop_thread
from tests.fixtures.client import ClientFactory

#: Seconds of a lease: short, to be outlived; a busy machine renews it all the same.
LEASE = 5.0
LONGER = 1.1 * LEASE
DAY = "2024-05-17"

FREEZERS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "freezegun": lambda: freezegun.freeze_time(DAY),
    "freezegun_ticks": lambda: freezegun.freeze_time(DAY, tick=True),
    "freezegun_steps": lambda: freezegun.freeze_time(DAY, auto_tick_seconds=15),
    "freezegun_real_asyncio": lambda: freezegun.freeze_time(DAY, real_asyncio=True),
    "time_machine": lambda: time_machine.travel(DAY, tick=False),
    "time_machine_ticks": lambda: time_machine.travel(DAY),
}


pytestmark = pytest.mark.usefixtures("old_busy_counts")


@pytest.fixture(scope="module", autouse=True)
def loop_thread() -> None:
    """Start the thread of clients for threads: it stays, with its sockets."""
    _loop_thread.start()


def monotonic() -> float:
    """Neither package replaces this one."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


async def pass_real_time(seconds: float) -> None:
    """As `asyncio.sleep`, which may stand still."""
    await asyncio.to_thread(threading.Event().wait, seconds)


@pytest.fixture(params=FREEZERS)
def freeze(request: pytest.FixtureRequest) -> Callable[[], AbstractContextManager[Any]]:
    return FREEZERS[request.param]


@pytest_asyncio.fixture
async def connected(clients: ClientFactory) -> AsyncIterator[tuple[Redisson, Redisson]]:
    """Two clients that connected before time is frozen."""
    both = clients(lease_time=LEASE), clients(lease_time=LEASE)
    for client in both:
        await client.ping()
    yield both


async def use(client: Redisson, other: Redisson, name: str) -> None:
    """Connect if need be, acquire, wait in vain, hand over."""
    await client.ping()
    async with other.get_lock(name):
        began = monotonic()
        with pytest.raises(AcquireTimeoutError):
            await client.get_lock(name).acquire(timeout=0.5)
        assert monotonic() - began >= 0.49
        assert await client.get_lock(name).try_acquire() is None
        waiting = asyncio.create_task(client.get_lock(name).acquire())
        while not client.statistics().waiters:
            await asyncio.sleep(0)
    await (await waiting).release()


async def test_locks_work_before_while_and_after_time_is_frozen(
    connected: tuple[Redisson, Redisson], freeze: Callable[[], AbstractContextManager[Any]]
) -> None:
    client, other = connected
    early = await client.get_lock("early").acquire()
    with freeze():
        await use(client, other, "frozen")
        late = await client.get_lock("late").acquire()
    await use(client, other, "thawed")
    await pass_real_time(LONGER)
    for lease in (early, late):
        lease.check()
        assert await other.get_lock(lease.name).locked()
        await lease.release()


async def test_the_watchdog_renews_and_leases_end_while_time_is_frozen(
    connected: tuple[Redisson, Redisson], freeze: Callable[[], AbstractContextManager[Any]]
) -> None:
    client, other = connected
    with freeze():
        async with client.get_lock("kept") as kept:
            with pytest.raises(LeaseLostError) as lost:
                async with client.get_lock("ends").hold(lease_time=1):
                    await pass_real_time(LONGER)
            assert lost.value.reason == "ended"
            assert lost.value.held_for < LEASE
            await pass_real_time(LONGER)
            kept.check()
            assert await other.get_lock("kept").locked()
            assert client.statistics().renewals > 0


async def test_replicas_have_their_time_while_time_is_frozen(
    clients: ClientFactory, freeze: Callable[[], AbstractContextManager[Any]]
) -> None:
    """There are none, which the server says when that time is up, long before our patience is."""
    client = clients(sync_replicas=1, sync_timeout=0.3, command_timeout=30)
    await client.ping()
    enough = threading.Event()
    patience = asyncio.create_task(asyncio.to_thread(enough.wait, 15))
    with freeze():
        acquiring = asyncio.ensure_future(client.get_lock("k").acquire())
        await asyncio.wait([acquiring, patience], return_when=asyncio.FIRST_COMPLETED)
        assert not patience.done()
    enough.set()
    await patience
    with pytest.raises(ReplicationError, match="0 of 1 replicas confirmed in time"):
        await acquiring


@pytest.mark.parametrize("real_asyncio", [False, True])
async def test_a_client_that_connects_while_time_is_frozen(
    clients: ClientFactory, real_asyncio: bool
) -> None:
    with freezegun.freeze_time(DAY, real_asyncio=real_asyncio):
        client, other = clients(lease_time=LEASE), clients(lease_time=LEASE)
        await use(client, other, "frozen")
        lease = await client.get_lock("late").acquire()
    await use(client, other, "thawed")
    await pass_real_time(LONGER)
    lease.check()
    await lease.release()


def test_threads_and_frozen_time(server_url: str) -> None:
    connect = redisson_py.sync.Redisson.from_url
    with connect(server_url, lease_time=LEASE) as client, connect(server_url) as other:
        client.ping()
        other.ping()
        with freezegun.freeze_time(DAY), client.get_lock("k") as lease:
            with pytest.raises(AcquireTimeoutError):
                other.get_lock("k").acquire(timeout=0.5)
            assert not lease.wait_lost(timeout=0.3)
            threading.Event().wait(LONGER)
            lease.check()


async def test_a_package_that_is_imported_while_time_is_frozen(server_url: str) -> None:
    code = f"""
import asyncio, threading, freezegun

with freezegun.freeze_time({DAY!r}):
    from redisson_py import Redisson

    async def main():
        async with Redisson.from_url({server_url!r}, lease_time={LEASE}) as client:
            async with client.get_lock("k") as lease:
                await asyncio.to_thread(threading.Event().wait, {LONGER})
                lease.check()
                print(client.statistics().renewals > 0)

    asyncio.run(main())
"""
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await program.communicate()
    assert output == b"True\n"
