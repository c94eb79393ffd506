"""Leases inside others of the same task: each ends by itself, and the rest goes on."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import ConnectionLostError, LeaseLostError, NotHeldError, Redisson, RedissonError
from redisson_py._engine.hold import MOST_ENDED_LEASES
from redisson_py._time import now
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.cluster_look import master_of
from tests.support.kinds import DISTINCT_LOCKS, SINGLE, Party, Stage, reason_of
from tests.support.leases import granted_in_time
from tests.support.waiting import until, until_async

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


@pytest.mark.parametrize("stage", DISTINCT_LOCKS, indirect=True)
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


@pytest.mark.parametrize("stage", DISTINCT_LOCKS, indirect=True)
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


@pytest.mark.parametrize("stage", DISTINCT_LOCKS, indirect=True)
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


@pytest.mark.parametrize("stage", DISTINCT_LOCKS, indirect=True)
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


@pytest.mark.parametrize("stage", DISTINCT_LOCKS, indirect=True)
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


@pytest.mark.parametrize("stage", DISTINCT_LOCKS, indirect=True)
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


@pytest.mark.parametrize("stage", DISTINCT_LOCKS, indirect=True)
@pytest.mark.more
async def test_leases_that_ended_are_not_kept_as_long_as_the_outer_one(stage: Stage) -> None:
    """A task that lets its inner acquisitions run out reports none of them (issue 31)."""
    party = stage.party()
    outer = await party.thing.acquire()
    inner: list[weakref.ref[Any]] = []
    while len(inner) < 3 * MOST_ENDED_LEASES:
        # A busy machine may need longer than that for one.
        with suppress(RedissonError):
            inner.append(weakref.ref(await party.thing.acquire(lease_time=SHORT)))
    await until(lambda: party.thing.statistics().held_leases == 1)

    def kept() -> int:
        gc.collect()
        return sum(lease() is not None for lease in inner)

    # A composite gives back what is left of its members first.
    await until(lambda: kept() == MOST_ENDED_LEASES)
    for _ in range(MOST_ENDED_LEASES):
        with pytest.raises(LeaseLostError):
            await party.thing.release()
    assert not outer.lost
    await party.thing.release()
    await stage.assert_nothing_held(party)


reentrant = pytest.mark.parametrize("stage", DISTINCT_LOCKS, indirect=True)


class Reentry:
    """A task that holds the lock, and enters it again when it is told to.

    Attributes:
        first: Its first lease.
        task: The task; its result is the second lease.
    """

    def __init__(self, party: Party, **options: float) -> None:
        self.first: Any = None
        self._party = party
        self._options = options
        self._held = asyncio.Event()
        self._go_on = asyncio.Event()
        self.task = asyncio.create_task(self._work())

    async def _work(self) -> Any:
        self.first = await self._party.thing.acquire()
        self._held.set()
        await self._go_on.wait()
        return await self._party.thing.acquire(**self._options)

    async def held(self) -> None:
        await self._held.wait()

    def begin(self, beside: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Have both begin in the next turn of the event loop, the re-entry first."""
        self._go_on.set()

        async def run() -> None:
            await beside()

        return asyncio.create_task(run())


@reentrant
async def test_re_entry_answered_after_the_end_does_not_move_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = 0.0
    for module in ("hold", "watchdog"):
        monkeypatch.setattr(f"redisson_py._engine.{module}.now", lambda: now() + late)
    party = stage.party(lease_time=10)
    reentry = Reentry(party, lease_time=60)
    await reentry.held()

    async def end_passes() -> None:
        nonlocal late
        # The timers of the event loop do not know of it.
        late = 20.0
        assert reentry.first.lost

    await reentry.begin(end_passes)
    with pytest.raises(LeaseLostError):
        await reentry.task
    assert reentry.first.lost
    await stage.assert_nothing_held(party)


@reentrant
async def test_refused_re_entry_beside_a_release(stage: Stage) -> None:
    party = stage.party()
    reentry = Reentry(party)
    await reentry.held()
    async with stage.no_memory():
        releasing = reentry.begin(reentry.first.release)
        with pytest.raises(RedissonError):
            await reentry.task
        await releasing
    await stage.assert_nothing_held(party)


@pytest.mark.parametrize(
    "stage", [name for name in DISTINCT_LOCKS if name in SINGLE], indirect=True
)
async def test_re_entry_that_is_never_sent_beside_a_release(
    stage: Stage, proxy: ProxyFactory
) -> None:
    link = await proxy()
    party = stage.party(url=link.url)
    reentry = Reentry(party, timeout=0.5)
    await reentry.held()
    link.refuse()
    link.cut()
    await link.wait_until(lambda link: link.refused > 0)
    releasing = reentry.begin(reentry.first.release)
    with pytest.raises(ConnectionLostError):
        await reentry.task
    link.pass_through()
    await releasing
    await stage.assert_nothing_held(party)


@reentrant
async def test_cancelled_re_entry_beside_a_release(stage: Stage) -> None:
    party = stage.party()
    reentry = Reentry(party)
    await reentry.held()

    async def release_and_cancel() -> None:
        releasing = asyncio.create_task(reentry.first.release())
        await asyncio.sleep(0)
        reentry.task.cancel()
        await releasing

    releasing = reentry.begin(release_and_cancel)
    with pytest.raises(asyncio.CancelledError):
        await reentry.task
    await releasing
    await stage.assert_nothing_held(party)


#: Both ends are rounded to whole milliseconds.
ROUNDING = 0.003


async def end_of(redis: Redis, name: str = "k") -> float:
    """Return when the server ends the lease of a key, by its own clock; 0.0 if it is gone."""
    both: Any = (await master_of(redis, name)).pipeline(transaction=True)
    (seconds, microseconds), left = await both.time().pttl(name).execute()
    assert left != -1, "the key has no expiry"
    return float(seconds + microseconds / 1e6 + left / 1000) if left > 0 else 0.0


async def assert_not_longer(redis: Redis, end: float, since: float) -> None:
    """Fail if the server ends a lease later than at `end`, but for what a request took.

    A read that was asked for after `since` asks for what is left of the write lease then, and a
    busy machine executes it later.
    """
    on_its_way = now() - since
    assert await end_of(redis) <= end + on_its_way + ROUNDING


async def test_reads_entered_again_inside_a_write_block(client: Redisson, redis: Redis) -> None:
    lock = client.get_read_write_lock("k")
    async with lock.write_lock().hold(lease_time=10) as write:
        end, since = await end_of(redis), now()
        async with lock.read_lock(), lock.read_lock(), lock.read_lock().hold(lease_time=60):
            await assert_not_longer(redis, end, since)
            assert write.remaining <= 10
        await assert_not_longer(redis, end, since)


@pytest.mark.more
async def test_read_has_its_full_lease_soon_after_the_write_side(
    clients: ClientFactory, redis: Redis
) -> None:
    """It does not wait for its own first renewal, which would come too late."""
    client = clients(lease_time=30)
    lock = client.get_read_write_lock("k")
    write = await lock.write_lock().acquire(lease_time=5)
    async with lock.read_lock() as read:
        await write.release()
        await asyncio.sleep(5.5)
        assert not read.lost
        assert await redis.exists("k")
    assert not await redis.exists("k")
