"""Every kind of loss has its reason, for every kind of thing and every way to learn of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from redisson_py import LeaseLostError
from tests.support.kinds import DISTINCT, DISTINCT_LOCKS, KINDS, Party, Stage, in_a_task, reason_of

limited = pytest.mark.parametrize(
    "stage", [name for name in DISTINCT if KINDS[name].timed], indirect=True
)
"""For those that take a `lease_time`."""
locks = pytest.mark.parametrize("stage", DISTINCT_LOCKS, indirect=True)

#: Long enough for a grant to arrive in time on a busy machine: a late one is lost at once.
LEASE = 0.6


def block_the_loop() -> None:
    """Return when a lease is over, before the timer that says so can go off."""
    time.sleep(1.4 * LEASE)


async def in_a_block(party: Party, *then: Callable[[], Awaitable[Any]], **options: Any) -> str:
    """Return the reason that ends a block."""
    with pytest.raises(LeaseLostError) as caught:
        async with asyncio.timeout(20), party.thing.hold(**options):
            for each in then:
                await each()
            await asyncio.sleep(60)
    return reason_of(caught.value)


async def told_by(work: Awaitable[Any]) -> str:
    """Return the reason in the error of a call."""
    with pytest.raises(LeaseLostError) as caught:
        await work
    return reason_of(caught.value)


async def assert_nothing_held(stage: Stage, party: Party) -> None:
    if stage.kind.semaphore:
        # Expired permits are reclaimed by the next acquire.
        lease = await stage.rival().thing.acquire(timeout=10)
        await lease.release()
    await stage.assert_nothing_held(party)


async def blocked() -> None:
    block_the_loop()


async def test_expired(stage: Stage) -> None:
    party = stage.party(lease_time=LEASE)
    assert await in_a_block(party, blocked) == "expired"
    lease = await party.thing.acquire()
    block_the_loop()
    with pytest.raises(LeaseLostError) as caught:
        lease.check()
    assert reason_of(caught.value) == "expired"
    assert await told_by(lease.extend(9)) == "expired"
    if stage.kind is KINDS["semaphore"]:
        # Its units remain its own until the next acquire, so it can release them.
        await lease.release()
    else:
        # The release is still sent; that Redis has forgotten the lease does not change the reason.
        assert await told_by(lease.release()) == "expired"
    await assert_nothing_held(stage, party)


@limited
@pytest.mark.more
async def test_ended(stage: Stage) -> None:
    party = stage.party()
    assert await in_a_block(party, lease_time=LEASE) == "ended"
    assert await in_a_block(party, blocked, lease_time=LEASE) == "ended"
    lease = await party.thing.acquire(lease_time=LEASE)
    block_the_loop()
    assert await told_by(lease.release()) == "ended"
    lease = await party.thing.acquire()
    await lease.extend(LEASE)
    await lease.wait_lost()
    assert await told_by(lease.release()) == "ended"
    await assert_nothing_held(stage, party)


@locks
async def test_ended_by_max_hold(stage: Stage) -> None:
    party = stage.party()
    assert await in_a_block(party, max_hold=LEASE) == "ended"
    assert await in_a_block(party, blocked, max_hold=LEASE) == "ended"
    lease = await party.thing.acquire(max_hold=LEASE)
    block_the_loop()
    with pytest.raises(LeaseLostError) as caught:
        lease.check()
    assert reason_of(caught.value) == "ended"
    assert await told_by(lease.release()) == "ended"
    await assert_nothing_held(stage, party)


async def test_taken(stage: Stage) -> None:
    party = stage.party()

    async def wipe_and_renew() -> None:
        await stage.wipe()
        party.renew_now()

    assert await in_a_block(party, wipe_and_renew) == "taken"
    lease = await party.thing.acquire()
    await stage.wipe()
    assert await told_by(lease.release()) == "taken"
    lease = await party.thing.acquire()
    await stage.wipe()
    assert await told_by(lease.extend(9)) == "taken"
    await assert_nothing_held(stage, party)


@locks
async def test_forced(stage: Stage) -> None:
    party, operator = stage.party(), stage.party()
    assert await in_a_block(party, lambda: in_a_task(party.thing.force_release())) == "forced"
    lease = await party.thing.acquire()
    await party.thing.force_release()
    assert await told_by(lease.release()) == "forced"
    # Redis does not record it: holders of other clients see it as any other loss.

    async def force_and_renew() -> None:
        await operator.thing.force_release()
        party.renew_now()

    assert await in_a_block(party, force_and_renew) == "taken"
    await assert_nothing_held(stage, party)
