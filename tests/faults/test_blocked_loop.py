"""An event loop that is blocked when a wait takes its last look: busy is still what Redis says."""

from __future__ import annotations

import asyncio
import time

import pytest

from redisson_py import ConnectionLostError, Redisson
from tests.faults.timed_waits import begun_in_time, was_told_busy
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.kinds import KINDS
from tests.support.streams import answered

TIMEOUT = 1.5
#: How late every reply is: on a busy machine the server is short of time, too.
LATE = 0.1


def block_at_the_last_look() -> None:
    """Block the event loop from before the last look to half a second after the end of a wait."""
    asyncio.get_running_loop().call_later(TIMEOUT - 0.8, time.sleep, 1.3)


@pytest.mark.parametrize("name", ["lock", "semaphore", "fair_lock"])
@pytest.mark.parametrize("silent", [True, False])
async def test_a_wait_for_another_client_has_the_true_answer(
    client: Redisson, clients: ClientFactory, proxy: ProxyFactory, name: str, silent: bool
) -> None:
    link, key = await proxy(), "semaphore" if KINDS[name].semaphore else "k"
    far = clients(link.url)
    held = await KINDS[name].make([client], key, 1).acquire()
    await answered(far)
    waiting = await begun_in_time(
        lambda: KINDS[name].make([far], key, 1).try_acquire(timeout=TIMEOUT),
        TIMEOUT,
        lambda: was_told_busy(far),
    )
    if silent:
        link.black_hole()
    else:
        link.delay(LATE, direction="down")
    block_at_the_last_look()
    if silent:
        with pytest.raises(ConnectionLostError):
            await waiting
        link.pass_through()
        link.cut()
        await answered(far)
    else:
        assert await waiting is None
    await held.release()


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
