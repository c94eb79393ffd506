"""When leases end: by their own requests, and anew after the event loop was blocked."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from redisson_py import Lease
from redisson_py._time import now
from tests.stores.conftest import NewClient
from tests.support.waiting import until

#: Seconds: of a client's lease, of a `max_hold` and an extension, before they are asked for; and of
#: a lease that a block outlasts.
LEASE, LONG, EARLIER, SHORT = 30.0, 20.0, 0.5, 2.0
#: Seconds that a lease of `LONG` ends earlier, for clocks that drift.
ALLOWED = 0.01 * LONG + 0.01


async def takes_seconds(lock: Any, **options: Any) -> Lease:
    """Acquire a lock; fail if its lease ends sooner than the options say."""
    began = now()
    lease: Lease = await lock.acquire(**options)
    assert lease._ends_at >= began + LONG - ALLOWED
    return lease


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "entered again"])
async def test_a_longest_hold_counts_from_its_own_request(
    inside: bool, new_client: NewClient
) -> None:
    """Where a session keeps all holds, that may be kept for less than a lease by now."""
    client = new_client(lease_time=LEASE)
    lock = client.get_lock("k")
    async with client.get_lock("of the same session"):
        await asyncio.sleep(EARLIER)
        outer = await lock.acquire() if inside else None
        lease = await takes_seconds(lock, max_hold=LONG)
        await lease.release()
        if outer is not None:
            await outer.release()


@pytest.mark.parametrize("before", ["lease_time", "max_hold"])
async def test_an_extension_goes_beyond_the_end_before(before: str, new_client: NewClient) -> None:
    client = new_client(lease_time=LEASE)
    await client.ping()
    lock = client.get_lock("k")
    end: dict[str, Any] = {before: 8.0}
    lease = await lock.acquire(**end)
    began = now()
    await lease.extend(LONG)
    # Before a next renewal is due.
    await until(lambda: lease._ends_at >= began + LONG - ALLOWED, seconds=5.0)
    await lease.release()


@pytest.mark.parametrize("backend", ["etcd", "zookeeper"], indirect=True)
@pytest.mark.parametrize("leases", [0.5, 1.0, 2.0])
async def test_a_client_that_holds_nothing_is_granted_a_lock_after_a_block(
    new_client: NewClient, leases: float
) -> None:
    lock = new_client(lease_time=SHORT).get_lock(f"after a block of {leases} leases")
    async with lock:
        pass
    time.sleep(leases * SHORT)  # noqa: ASYNC251  # the fault: it blocks the event loop
    async with lock as lease:
        assert not lease.lost
