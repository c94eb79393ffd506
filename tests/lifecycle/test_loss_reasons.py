"""Every loss has its reason, for every kind of thing and every way to learn of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import LeaseLostError, Redisson, ScriptError
from tests.support.kinds import (
    DISTINCT,
    DISTINCT_LOCKS,
    KINDS,
    Party,
    Stage,
    enter,
    in_a_task,
    leave,
    reason_of,
)

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


async def reason_from(work: Awaitable[Any]) -> str:
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
    assert await reason_from(lease.extend(9)) == "expired"
    if stage.kind is KINDS["semaphore"]:
        # Its units remain its own until the next acquire, so it can release them.
        await lease.release()
    else:
        # The release is still sent; that Redis has forgotten the lease does not change the reason.
        assert await reason_from(lease.release()) == "expired"
    await assert_nothing_held(stage, party)


@limited
@pytest.mark.more
async def test_ended(stage: Stage) -> None:
    party = stage.party()
    assert await in_a_block(party, lease_time=LEASE) == "ended"
    assert await in_a_block(party, blocked, lease_time=LEASE) == "ended"
    lease = await party.thing.acquire(lease_time=LEASE)
    block_the_loop()
    assert await reason_from(lease.release()) == "ended"
    lease = await party.thing.acquire()
    await lease.extend(LEASE)
    await lease.wait_lost()
    assert await reason_from(lease.release()) == "ended"
    await assert_nothing_held(stage, party)


async def test_taken(stage: Stage) -> None:
    party = stage.party()

    async def wipe_and_renew() -> None:
        await stage.wipe()
        party.renew_now()

    assert await in_a_block(party, wipe_and_renew) == "taken"
    lease = await party.thing.acquire()
    await stage.wipe()
    assert await reason_from(lease.release()) == "taken"
    lease = await party.thing.acquire()
    await stage.wipe()
    assert await reason_from(lease.extend(9)) == "taken"
    await assert_nothing_held(stage, party)


@locks
async def test_forced(stage: Stage) -> None:
    party, operator = stage.party(), stage.party()
    assert await in_a_block(party, lambda: in_a_task(party.thing.force_release())) == "forced"
    lease = await party.thing.acquire()
    await party.thing.force_release()
    assert await reason_from(lease.release()) == "forced"
    # Redis does not record it: holders of other clients see it as any other loss.

    async def force_and_renew() -> None:
        await operator.thing.force_release()
        party.renew_now()

    assert await in_a_block(party, force_and_renew) == "taken"
    await assert_nothing_held(stage, party)


Make = Callable[[Redisson], Any]

#: What has scripts of its own to release, extend and renew it; errors must contain its name.
MAKES: dict[str, Make] = {
    "lock": lambda client: client.get_lock("orders"),
    "fair_lock": lambda client: client.get_fair_lock("orders"),
    "write_lock": lambda client: client.get_read_write_lock("orders").write_lock(),
    "read_lock": lambda client: client.get_read_write_lock("orders").read_lock(),
    "multi_lock": lambda client: client.get_multi_lock(
        client.get_lock("orders"), client.get_lock("other")
    ),
    "semaphore": lambda client: client.get_semaphore("semaphore-orders", 2),
    "expirable_semaphore": lambda client: client.get_permit_expirable_semaphore(
        "semaphore-orders", 2
    ),
}

each_kind = pytest.mark.parametrize("kind", MAKES)


async def overwrite(redis: Redis) -> None:
    """Put a list where the resource is, in all its keys, for a minute."""
    for key in await redis.keys("*orders*"):
        await redis.delete(key)
        await redis.rpush(key, "mine")
        await redis.expire(key, 60)


@pytest_asyncio.fixture
async def overwritten(redis: Redis) -> AsyncIterator[Callable[[], Any]]:
    """Overwrite the resource's keys; they are deleted in the end."""

    async def now() -> None:
        await overwrite(redis)

    yield now
    if keys := await redis.keys("*orders*"):
        await redis.delete(*keys)


def is_taken(caught: pytest.ExceptionInfo[LeaseLostError]) -> bool:
    """Whether an error says that the hold was taken, and of what."""
    error = caught.value
    return error.reason == "taken" and "taken" in str(error) and "orders" in str(error)


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "release": lambda thing, lease: lease.release(),
    "extend": lambda thing, lease: lease.extend(20),
    "leave": lambda thing, lease: leave(thing),
}


@each_kind
@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_finds_the_hold_taken(
    change: str, kind: str, client: Redisson, overwritten: Callable[[], Any]
) -> None:
    thing = MAKES[kind](client)
    lease = await (enter(thing) if change == "leave" else thing.acquire())
    await overwritten()
    with pytest.raises(LeaseLostError) as caught:
        await CHANGES[change](thing, lease)
    assert is_taken(caught)
    assert lease.lost
    assert lease.remaining == 0
    assert client.statistics().held_leases == 0
    with pytest.raises(LeaseLostError):
        lease.check()
    async with asyncio.timeout(5):
        await lease.wait_lost()
    if change == "extend":
        with pytest.raises(LeaseLostError):
            await lease.release()


@each_kind
async def test_a_script_error_names_the_resource(
    kind: str, client: Redisson, redis: Redis, overwritten: Callable[[], Any]
) -> None:
    lease = await MAKES[kind](client).acquire()
    await lease.release()
    await redis.set("orders", 1, ex=60)
    await redis.set("semaphore-orders", 1, ex=60)
    await overwritten()
    for ask in (MAKES[kind](client).acquire, MAKES[kind](client).try_acquire):
        with pytest.raises(ScriptError, match="orders") as caught:
            await ask()
        assert "WRONGTYPE" in caught.value.message
