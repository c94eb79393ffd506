"""A lease with a `lease_time` of its own inside another of the same task (issue 12, item 5).

When the inner one ends by itself, only that acquisition is over: the outer block goes on, and
its end frees the lock at once.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextlib import suppress
from typing import Any

import pytest

from redisson_py import ConnectionLostError, LeaseLostError, NotHeldError, RedissonError
from redisson_py._engine.hold import MOST_ENDED
from tests.support.kinds import DISTINCT_LOCKS, Party, Stage, reason_of
from tests.support.leases import granted_in_time
from tests.support.waiting import until, until_async

pytestmark = pytest.mark.parametrize("stage", DISTINCT_LOCKS, indirect=True)

SHORT = 0.2


async def inner_that_ended(party: Party) -> Any:
    """Acquire again for a short time; return the lease when that is over."""
    inner = await granted_in_time(lambda: party.thing.acquire(lease_time=SHORT))
    async with asyncio.timeout(30):
        await inner.wait_lost()
    assert inner.lost
    assert inner.remaining == 0
    return inner


async def until_counted(party: Party, count: int) -> None:
    """Return when the server counts this many holds of the current task."""

    async def counted() -> bool:
        with suppress(ConnectionLostError):
            # A red lock says so if half a second is too short for its servers.
            return bool(await party.thing.hold_count() == count)
        return False

    await until_async(counted)


async def test_count_on_the_server_follows(stage: Stage) -> None:
    party = stage.party()
    async with party.thing as outer:
        async with party.thing:
            await inner_that_ended(party)
            await until_counted(party, 2)
            async with party.thing:
                await until_counted(party, 3)
            with pytest.raises(LeaseLostError) as caught:
                async with party.thing.hold(lease_time=SHORT):
                    await asyncio.sleep(30)
            assert reason_of(caught.value) == "ended"
            await until_counted(party, 2)
        await until_counted(party, 1)
        assert await party.thing.owned()
        assert not outer.lost
    await stage.assert_nothing_held(party)


async def test_waiters_of_this_client_get_it_when_the_outer_block_ends(stage: Stage) -> None:
    party = stage.party()

    async def wait_for_it() -> bool:
        async with party.thing.hold(timeout=15) as lease:
            return not lease.lost

    async with party.thing:
        waiting = [asyncio.create_task(wait_for_it()) for _ in range(2)]
        # Readers do not wait for each other.
        await until(lambda: party.waiters + sum(task.done() for task in waiting) == 2)
        await inner_that_ended(party)
    # The lease is 30 s: the end of it is not what lets them in.
    assert await asyncio.gather(*waiting) == [True, True]
    await stage.assert_nothing_held(party)


async def test_inner_lease_says_that_it_ended(stage: Stage) -> None:
    party = stage.party()
    async with party.thing as outer:
        inner = await inner_that_ended(party)
        with pytest.raises(LeaseLostError) as caught:
            await inner.release()
        with pytest.raises(NotHeldError):
            await inner.release()
        assert not outer.lost
        await until_counted(party, 1)
    await stage.assert_nothing_held(party)
    assert reason_of(caught.value) == "ended"


async def test_release_tells_of_the_inner_lease_once(stage: Stage) -> None:
    party, rival = stage.party(), await stage.rival().connected()
    outer = await party.thing.acquire()
    await inner_that_ended(party)
    with pytest.raises(LeaseLostError) as caught:
        await party.thing.release()
    assert outer.remaining > 0
    await until_counted(party, 1)
    assert await rival.thing.try_acquire() is None
    await party.thing.release()
    assert outer.remaining == 0
    assert not outer.lost
    await stage.assert_nothing_held(party)
    with pytest.raises(NotHeldError):
        await party.thing.release()
    assert reason_of(caught.value) == "ended"


@pytest.mark.more
async def test_outer_lease_ends_and_the_inner_goes_on(stage: Stage) -> None:
    party, rival = stage.party(lease_time=6), await stage.rival().connected()
    outer = await party.thing.acquire(lease_time=2)
    inner = await party.thing.acquire()
    async with asyncio.timeout(30):
        await outer.wait_lost()
    await party.renewed(2)
    assert not inner.lost
    assert await rival.thing.try_acquire() is None
    await inner.release()
    await stage.assert_nothing_held(party)
    with pytest.raises(LeaseLostError):
        await outer.release()


@pytest.mark.more
async def test_outer_block_is_renewed_after_the_inner_lease_ended(stage: Stage) -> None:
    party, rival = stage.party(lease_time=6), await stage.rival().connected()
    async with party.thing as outer:
        await inner_that_ended(party)
        await party.renewed(2)
        assert not outer.lost
        assert await rival.thing.try_acquire() is None
    assert not outer.lost
    await stage.assert_nothing_held(party)


async def test_a_release_beside_a_reentry_leaves_the_inner_lease(stage: Stage) -> None:
    """Redis gets the release behind the re-entry, and is told the lease of what is left again."""
    party = await stage.party(lease_time=3).connected()
    outer = await party.thing.acquire(lease_time=6)
    releasing = asyncio.create_task(outer.release())
    inner = await party.thing.acquire(lease_time=60)
    believed = inner.remaining
    assert believed <= 1 + (await party.thing.remaining() or 0)
    await releasing
    await until(lambda: inner.remaining > 30)
    assert await party.thing.remaining() >= inner.remaining
    await inner.release()


async def test_a_refused_reentry_beside_a_release_leaves_no_count(stage: Stage) -> None:
    """The release counts on the re-entry that was sent before it, and Redis refuses that one."""
    party = await stage.party().connected()
    outer = await party.thing.acquire()
    inner = await party.thing.acquire()
    async with stage.no_memory():
        releasing = asyncio.create_task(inner.release())
        with pytest.raises(RedissonError):
            await party.thing.acquire()
        await releasing
    await until_counted(party, 1)
    await outer.release()


@pytest.mark.more
async def test_leases_that_ended_are_not_kept_as_long_as_the_outer_one(stage: Stage) -> None:
    """A task that lets its inner acquisitions run out reports none of them (issue 31)."""
    party = stage.party()
    outer = await party.thing.acquire()
    inner: list[weakref.ref[Any]] = []
    while len(inner) < 3 * MOST_ENDED:
        # A busy machine may need longer than that for one.
        with suppress(RedissonError):
            inner.append(weakref.ref(await party.thing.acquire(lease_time=SHORT)))
    await until(lambda: party.thing.statistics().held_leases == 1)

    def kept() -> int:
        gc.collect()
        return sum(lease() is not None for lease in inner)

    # A composite gives back what is left of its members first.
    await until(lambda: kept() == MOST_ENDED)
    for _ in range(MOST_ENDED):
        with pytest.raises(LeaseLostError):
            await party.thing.release()
    assert not outer.lost
    await party.thing.release()
    await stage.assert_nothing_held(party)
