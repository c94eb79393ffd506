"""An event loop that is blocked when a wait takes its last look: busy is still what Redis says."""

from __future__ import annotations

import asyncio
import time

import pytest

from redisson_py import ConnectionLostError, Redisson
from tests.faults.timed_waits import begun_in_time, outcomes, was_told_busy
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.kinds import KINDS
from tests.support.streams import answered

TIMEOUT = 1.5
#: How late every reply is: on a busy machine the server is short of time, too.
LATE = 0.05


def block_at_the_last_look() -> None:
    """Block the event loop from before the last look to half a second after the end of a wait."""
    asyncio.get_running_loop().call_later(TIMEOUT - 0.8, time.sleep, 1.3)


@pytest.mark.parametrize("silent", [True, False])
async def test_waits_for_another_client_have_the_true_answer(
    client: Redisson, clients: ClientFactory, proxy: ProxyFactory, silent: bool
) -> None:
    link = await proxy()
    far = clients(link.url)
    held, waited_for = [
        [
            KINDS["lock"].one(each, "k"),
            KINDS["fair_lock"].one(each, "fair"),
            KINDS["semaphore"].one(each, "semaphore"),
        ]
        for each in (client, far)
    ]
    leases = [await each.acquire() for each in held]
    await answered(far)
    waiting = await begun_in_time(
        lambda: outcomes([each.try_acquire(timeout=TIMEOUT) for each in waited_for]),
        TIMEOUT,
        lambda: was_told_busy(far, len(leases)) and far._table.seats == len(leases),
    )
    if silent:
        link.black_hole()
    else:
        link.delay(LATE, direction="down")
    block_at_the_last_look()
    assert await waiting == [ConnectionLostError if silent else type(None)] * len(leases)
    if silent:
        link.pass_through()
        link.cut()
        await answered(far)
    for lease in leases:
        await lease.release()


async def test_a_wait_behind_a_task_of_the_client_is_busy(
    clients: ClientFactory, proxy: ProxyFactory
) -> None:
    link = await proxy()
    client = clients(link.url)
    lock = client.get_lock("k")
    async with lock:
        waiting = await begun_in_time(
            lambda: lock.try_acquire(timeout=TIMEOUT),
            TIMEOUT,
            lambda: client.statistics().waiters == 1,
        )
        link.delay(LATE, direction="down")
        block_at_the_last_look()
        assert await waiting is None
