"""A call that is repeated, or made later, after one record of several has vanished."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.support.scripts.barrier import BROKEN, RELEASED, WAITING, BarrierScripts
from tests.support.scripts.calls import A, B, C, Scripts
from tests.support.scripts.expirable import ExpirableScripts
from tests.support.scripts.lock import LockScripts
from tests.support.scripts.permits import SemaphoreScripts

P, Q = b"p" * 16, b"q" * 16


@pytest_asyncio.fixture
async def semaphore(scripts: Scripts, redis: Redis) -> AsyncIterator[SemaphoreScripts]:
    """A plain semaphore of three."""
    semaphore = SemaphoreScripts(scripts)
    await semaphore.start(3)
    yield semaphore
    await redis.delete(semaphore.key, semaphore.permits, semaphore.counts)


@pytest_asyncio.fixture
async def permits(scripts: Scripts, redis: Redis) -> AsyncIterator[ExpirableScripts]:
    """A semaphore of two permits with ids."""
    permits = ExpirableScripts(scripts)
    await permits.start(2)
    yield permits
    await redis.delete(permits.key, permits.permits)


async def test_who_has_units_and_no_lease_gets_one_from_the_next_that_asks(
    semaphore: SemaphoreScripts, redis: Redis
) -> None:
    await semaphore.acquire(A, 2)
    await redis.delete(semaphore.permits)
    assert await semaphore.acquire(B, 2, lease_ms=40_000) is not None
    assert 30_000 < await semaphore.left(A) <= 40_000
    await semaphore.end(A)
    assert await semaphore.available() == 3


async def test_who_has_a_lease_and_no_count_had_one_unit_at_least(
    semaphore: SemaphoreScripts, redis: Redis
) -> None:
    await semaphore.acquire(A)
    await semaphore.acquire(B)
    await redis.delete(semaphore.counts)
    await semaphore.end(A)
    assert await semaphore.available() == 2
    assert await semaphore.renew(B, idle_ms=0) == 0
    assert await semaphore.set_lease(B) == 0
    assert await semaphore.release(B) == 1
    assert await semaphore.value() == 3


async def test_a_request_that_is_repeated_without_its_count_takes_no_more(
    semaphore: SemaphoreScripts, redis: Redis
) -> None:
    await semaphore.acquire(A, 2)
    await redis.delete(semaphore.counts)
    assert await semaphore.acquire(A, 2) is None
    assert await semaphore.value() == 1
    assert await semaphore.held() == {A: 2}


async def test_what_was_taken_from_a_counter_that_vanished_is_not_renewed(
    semaphore: SemaphoreScripts, permits: ExpirableScripts, redis: Redis
) -> None:
    await semaphore.acquire(A)
    await redis.delete(semaphore.key)
    assert await semaphore.renew(A, idle_ms=0) == 0
    await permits.start(2)
    await permits.acquire(P)
    await redis.delete(permits.key)
    assert await permits.renew(P, idle_ms=0) == 0
    assert await permits.set_lease(P) == 0


async def test_units_of_a_semaphore_that_vanished_are_not_given_back_to_the_next(
    semaphore: SemaphoreScripts, redis: Redis
) -> None:
    await semaphore.acquire(A, 2)
    await redis.delete(semaphore.key, semaphore.permits)
    assert await semaphore.acquire(B, 1, start_units=3) is None
    assert await semaphore.release(A) is None
    assert await semaphore.value() == 2
    assert await semaphore.held() == {B: 1}


async def test_a_new_number_does_not_count_what_nobody_knows(
    semaphore: SemaphoreScripts, redis: Redis
) -> None:
    await semaphore.acquire(A, 2)
    await redis.delete(semaphore.counts)
    await semaphore.acquire(B)
    await semaphore.set(3, replaces=1)
    assert await semaphore.value() == 2
    # It is void now, so what it says that it had does not count.
    assert await semaphore.release(A, had=2) is None
    assert await semaphore.release(B) == 1
    assert await semaphore.value() == 3


async def test_permits_that_nobody_has_are_missed(
    semaphore: SemaphoreScripts, permits: ExpirableScripts, redis: Redis
) -> None:
    await redis.set(semaphore.key, 1)
    assert await semaphore.acquire(A, 2, start_units=3) == -5
    assert await semaphore.acquire(B, 1, start_units=3) is None
    reply = await semaphore.acquire(C, 1, start_units=3)
    # Redisson's clients may have those that nobody of ours has, so this is nothing special.
    assert reply is not None
    assert reply > 0
    await semaphore.release(B)
    await redis.delete(permits.key)
    await permits.start(2)
    await permits.acquire(P + Q, start_units=2)
    assert (await permits.acquire(b"r" * 16, start_units=2) or 0) > 0
    await redis.delete(permits.permits)
    assert await permits.acquire(b"r" * 16, start_units=2) == -5
    assert await permits.acquire(b"r" * 16) == -5


async def test_a_first_look_that_is_repeated_without_its_receipt_arrives_once(
    scripts: Scripts, redis: Redis
) -> None:
    barrier = BarrierScripts(scripts)
    first, second = await barrier.fill("a", "b")
    await redis.delete(barrier.arrival("b"))
    again = await barrier.wait("b")
    assert (again.state, again.position) == (WAITING, second.position)
    assert (await barrier.look()).n_waiting == 2
    assert (await barrier.wait("c")).state == RELEASED
    await redis.delete(barrier.arrival("c"))
    again = await barrier.wait("c")
    assert (again.state, again.position) == (RELEASED, 2)
    assert (await barrier.look()).n_waiting == 0
    assert (await barrier.wait("a", str(first.generation))).state == RELEASED


async def test_a_first_look_that_is_repeated_without_any_other_record_is_reported(
    scripts: Scripts, redis: Redis
) -> None:
    barrier = BarrierScripts(scripts)
    await barrier.fill("a", "b")
    await redis.delete(barrier.arrival("b"), barrier.arrivals)
    assert (await barrier.wait("b")).state == BROKEN


async def test_a_grant_that_is_repeated_without_the_counter_has_new_tokens(
    scripts: Scripts, redis: Redis
) -> None:
    fenced = LockScripts(scripts, fenced=True)
    _, first = await fenced.acquire_fenced(A, tokens=4)
    await redis.delete(fenced.token_key)
    code, again = await fenced.acquire_fenced(A, tokens=4)
    assert code == 1
    assert again > first
    assert await redis.get(fenced.token_key) == b"%d" % (again + 3)


async def test_nothing_is_added_that_could_not_be_counted_when_all_is_back(
    semaphore: SemaphoreScripts, permits: ExpirableScripts, redis: Redis
) -> None:
    most = 2**53 - 1
    await semaphore.set(most, replaces=1)
    await semaphore.acquire(A, 2)
    with pytest.raises(ResponseError, match="too great"):
        await semaphore.add(1)
    assert await semaphore.release(A) == 1
    assert await semaphore.available() == most
    await redis.delete(permits.key)
    await permits.set(most, "client-b")
    await permits.acquire(P + Q)
    with pytest.raises(ResponseError, match="too great"):
        await permits.add(1, "client-b")
    assert await permits.release(P + Q) == 1
    assert await permits.available() == [most, 0]
