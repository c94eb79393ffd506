"""semaphore.acquire: who gets what, what a repetition does, and what dead holders had."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from redisson_py._time import now
from tests.lua.test_golden_vectors import listening
from tests.support.leases import assert_left
from tests.support.scripts.calls import BAD_MS, LEASE, A, B, C, Scripts, ask, everything
from tests.support.scripts.permits import SemaphoreScripts


@pytest_asyncio.fixture
async def semaphore(scripts: Scripts, redis: Redis) -> AsyncIterator[SemaphoreScripts]:
    """A semaphore of five."""
    semaphore = SemaphoreScripts(scripts)
    await semaphore.start(5)
    yield semaphore
    await redis.delete(semaphore.key, semaphore.permits, semaphore.counts)


class TestAcquire:
    async def test_units_are_taken_and_recorded_with_their_lease(
        self, semaphore: SemaphoreScripts
    ) -> None:
        began = now()
        assert await semaphore.acquire(A, 2) is None
        assert await semaphore.value() == 3
        assert await semaphore.held() == {A: 2}
        assert_left(await semaphore.left(A) / 1000, LEASE / 1000, began)

    async def test_all_units_or_none(self, semaphore: SemaphoreScripts, redis: Redis) -> None:
        began = now()
        await semaphore.acquire(A, 3)
        before = await everything(redis)
        reply = await semaphore.acquire(B, 3)
        assert reply is not None
        assert_left(reply / 1000, LEASE / 1000, began)
        assert await everything(redis) == before
        assert await semaphore.acquire(B, 2) is None
        assert await semaphore.held() == {A: 3, B: 2}
        assert await semaphore.value() == 0

    async def test_busy_tells_the_nearest_end_of_a_lease(self, semaphore: SemaphoreScripts) -> None:
        began = now()
        await semaphore.acquire(A, 3, lease_ms=1_000_000)
        await semaphore.acquire(B, 2, lease_ms=LEASE)
        reply = await semaphore.acquire(C)
        assert reply is not None
        assert_left(reply / 1000, LEASE / 1000, began)

    async def test_busy_without_a_lease_of_ours_has_no_hint(
        self, semaphore: SemaphoreScripts
    ) -> None:
        assert await semaphore.acquire(A, 6) == -1

    @pytest.mark.parametrize("units", [1, 3])
    async def test_run_twice_is_run_once(self, semaphore: SemaphoreScripts, units: int) -> None:
        assert [await semaphore.acquire(A, units), await semaphore.acquire(A, units)] == [None] * 2
        assert await semaphore.value() == 5 - units
        assert await semaphore.held() == {A: units}

    async def test_a_repetition_extends_the_lease_and_never_shortens_it(
        self, semaphore: SemaphoreScripts
    ) -> None:
        await semaphore.acquire(A, lease_ms=LEASE)
        await semaphore.acquire(A, lease_ms=1_000_000)
        await semaphore.acquire(A, lease_ms=1)
        assert await semaphore.left(A) > LEASE

    async def test_a_repetition_after_a_part_was_given_back_takes_nothing(
        self, semaphore: SemaphoreScripts
    ) -> None:
        await semaphore.acquire(A, 3)
        await semaphore.release(A, 1)
        assert await semaphore.acquire(A, 3) is None
        assert await semaphore.held() == {A: 1}
        assert await semaphore.value() == 4

    async def test_one_whose_lease_is_over_may_repeat_while_nobody_gave_back(
        self, semaphore: SemaphoreScripts
    ) -> None:
        await semaphore.acquire(A, 5)
        await semaphore.end(A)
        assert await semaphore.acquire(A, 5) is None
        assert await semaphore.left(A) > 0
        assert await semaphore.value() == 0

    async def test_no_semaphore_is_told_from_a_busy_one_and_none_is_made(
        self, semaphore: SemaphoreScripts, redis: Redis
    ) -> None:
        await semaphore.delete()
        assert await semaphore.acquire(A) == -4
        assert await everything(redis) == {}

    async def test_below_zero_is_busy(self, semaphore: SemaphoreScripts) -> None:
        await semaphore.start(-2)
        assert await semaphore.acquire(A) == -1
        assert await semaphore.value() == -2

    async def test_an_owner_with_a_tombstone_is_refused_and_takes_nothing(
        self, semaphore: SemaphoreScripts, redis: Redis
    ) -> None:
        await semaphore.undo(A)
        before = await everything(redis)
        assert await semaphore.acquire(A) == -3
        assert await everything(redis) == before
        assert await semaphore.acquire(B) is None


class TestMakingOne:
    async def test_the_first_acquire_makes_it(self, semaphore: SemaphoreScripts) -> None:
        await semaphore.delete()
        assert await semaphore.acquire(A, 2, start_units=3) is None
        assert await semaphore.value() == 1
        assert await semaphore.held() == {A: 2}

    async def test_an_existing_one_keeps_its_count(self, semaphore: SemaphoreScripts) -> None:
        await semaphore.acquire(A, 2, start_units=50)
        assert await semaphore.value() == 3

    async def test_it_is_made_even_where_it_is_too_small(self, semaphore: SemaphoreScripts) -> None:
        await semaphore.delete()
        assert await semaphore.acquire(A, 2, start_units=1) == -1
        assert await semaphore.value() == 1

    async def test_one_of_none_is_made(self, semaphore: SemaphoreScripts) -> None:
        await semaphore.delete()
        assert await semaphore.acquire(A, start_units=0) == -1
        assert await semaphore.value() == 0

    @pytest.mark.parametrize(
        ("units", "start", "heard"), [(1, 3, [b"2"]), (3, 3, []), (4, 3, [b"3"]), (1, 0, [])]
    )
    async def test_what_is_left_for_others_is_told(
        self,
        semaphore: SemaphoreScripts,
        redis: Redis,
        units: int,
        start: int,
        heard: list[bytes],
    ) -> None:
        await semaphore.delete()
        async with listening(redis, semaphore.channel) as listener:
            await semaphore.acquire(A, units, start_units=start)
            assert await listener.heard() == heard

    async def test_a_late_acquire_makes_none(
        self, semaphore: SemaphoreScripts, redis: Redis
    ) -> None:
        await semaphore.undo(A)
        await semaphore.delete()
        assert await semaphore.acquire(A, start_units=3) == -3
        assert list(await everything(redis)) == [semaphore.tombstone(A)]

    async def test_what_was_taken_from_a_deleted_one_is_void(
        self, semaphore: SemaphoreScripts
    ) -> None:
        await semaphore.acquire(A, 2)
        await semaphore.delete()
        assert await semaphore.acquire(B, start_units=3) is None
        assert await semaphore.held() == {B: 1}
        assert await semaphore.release(A) is None
        assert await semaphore.value() == 2


class TestReclaim:
    async def test_permits_of_a_dead_holder_go_to_the_next_acquire(
        self, semaphore: SemaphoreScripts
    ) -> None:
        await semaphore.acquire(A, 5)
        await semaphore.end(A)
        assert await semaphore.acquire(B, 2) is None
        assert await semaphore.held() == {B: 2}
        assert await semaphore.value() == 3

    async def test_it_is_given_back_although_it_is_not_enough(
        self, semaphore: SemaphoreScripts
    ) -> None:
        await semaphore.acquire(A, 2)
        await semaphore.acquire(B, 3)
        await semaphore.end(A)
        reply = await semaphore.acquire(C, 3)
        assert reply is not None
        assert reply > 0
        assert await semaphore.held() == {B: 3}
        assert await semaphore.value() == 2

    async def test_the_dead_holder_can_give_nothing_back_any_more(
        self, semaphore: SemaphoreScripts
    ) -> None:
        await semaphore.acquire(A, 5)
        await semaphore.end(A)
        await semaphore.acquire(B, 2)
        assert await semaphore.release(A) is None
        assert await semaphore.value() == 3

    async def test_no_more_are_reclaimed_than_asked_for(self, semaphore: SemaphoreScripts) -> None:
        owners = [A, B, C]
        for owner in owners:
            await semaphore.acquire(owner)
        await semaphore.end(*owners)
        assert await semaphore.acquire("client-d:1", 5, reclaims=2) == 0
        assert len(await semaphore.held()) == 1
        assert await semaphore.value() == 4
        assert await semaphore.acquire("client-d:1", 5, reclaims=2) is None

    @pytest.mark.parametrize(
        ("taken", "wanted", "heard"),
        [(5, 2, [b"3"]), (5, 5, []), (3, 2, [b"3"]), (3, 3, []), (2, 3, []), (3, 6, [b"5"])],
    )
    async def test_only_what_is_more_than_before_is_told(
        self,
        semaphore: SemaphoreScripts,
        redis: Redis,
        taken: int,
        wanted: int,
        heard: list[bytes],
    ) -> None:
        await semaphore.acquire(A, taken)
        await semaphore.end(A)
        async with listening(redis, semaphore.channel) as listener:
            await semaphore.acquire(B, wanted)
            assert await listener.heard() == heard

    async def test_below_zero_nothing_is_told(
        self, semaphore: SemaphoreScripts, redis: Redis
    ) -> None:
        await semaphore.acquire(A, 2)
        await semaphore.end(A)
        await semaphore.start(-3)
        async with listening(redis, semaphore.channel) as listener:
            await semaphore.acquire(B)
            assert await listener.heard() == []
        assert await semaphore.value() == -1

    @pytest.mark.parametrize("count", ["x", "", "1.5", "-3"])
    async def test_a_corrupted_record_gives_nothing_back_and_stops_nobody(
        self, semaphore: SemaphoreScripts, redis: Redis, count: str
    ) -> None:
        await semaphore.acquire(A, 2)
        await ask(redis, "HSET", semaphore.counts, A, count)
        await semaphore.end(A)
        assert await semaphore.acquire(B, 3) is None
        assert await semaphore.held() == {B: 3}
        assert await semaphore.value() == 0

    async def test_reading_what_is_available_reclaims_and_tells(
        self, semaphore: SemaphoreScripts, redis: Redis
    ) -> None:
        await semaphore.acquire(A, 4)
        await semaphore.end(A)
        async with listening(redis, semaphore.channel) as listener:
            assert await semaphore.available() == 5
            assert await semaphore.available() == 5
            assert await listener.heard() == [b"5"]


class TestExpiryOfTheKey:
    """A semaphore may be made for a time; what was taken from it ends with it at the latest."""

    async def test_the_side_keys_live_as_long_as_the_counter(
        self, semaphore: SemaphoreScripts, redis: Redis
    ) -> None:
        began = now()
        await redis.pexpire(semaphore.key, 50_000)
        await semaphore.acquire(A)
        for key in (semaphore.permits, semaphore.counts):
            assert_left(await redis.pttl(key) / 1000, 50, began)

    async def test_they_lose_their_expiry_with_it(
        self, semaphore: SemaphoreScripts, redis: Redis
    ) -> None:
        await redis.pexpire(semaphore.key, 50_000)
        await semaphore.acquire(A)
        await redis.persist(semaphore.key)  # as Redisson's addPermits does
        await semaphore.acquire(B)
        for key in (semaphore.permits, semaphore.counts):
            assert await redis.pttl(key) == -1

    async def test_the_counter_keeps_its_expiry(
        self, semaphore: SemaphoreScripts, redis: Redis
    ) -> None:
        began = now()
        # parity, weakness 11: Redisson's addPermits and drainPermits drop it.
        await redis.pexpire(semaphore.key, 50_000)
        await semaphore.acquire(A)
        await semaphore.release(A)
        await semaphore.add(3)
        await semaphore.drain()
        assert await semaphore.value() == 0
        assert_left(await redis.pttl(semaphore.key) / 1000, 50, began)


class TestRefusals:
    async def test_a_bad_number_of_units_is_refused_before_anything_is_written(
        self, semaphore: SemaphoreScripts, redis: Redis
    ) -> None:
        before = await everything(redis)
        for units in ("x", "", "-1", "0", "1.5", "inf", "nan", "9007199254740992"):
            with pytest.raises(ResponseError, match=r"must be|not a number"):
                await semaphore.acquire(A, units)
            assert await everything(redis) == before

    async def test_a_bad_lease_is_refused_before_anything_is_written(
        self, semaphore: SemaphoreScripts, redis: Redis
    ) -> None:
        before = await everything(redis)
        for lease_ms in BAD_MS:
            with pytest.raises(ResponseError, match=r"must be|not a number"):
                await semaphore.acquire(A, lease_ms=lease_ms)
            assert await everything(redis) == before

    async def test_a_bad_start_is_refused_before_anything_is_written(
        self, semaphore: SemaphoreScripts, redis: Redis
    ) -> None:
        await semaphore.delete()
        for bad in ("x", "", "1.5", "inf", "-1.0", "007"):
            with pytest.raises(ResponseError, match=r"must be|not a number"):
                await semaphore.acquire(A, start_units=bad)
            assert await everything(redis) == {}
