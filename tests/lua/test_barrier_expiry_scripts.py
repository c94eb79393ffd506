"""How long a barrier remembers: rounds under way, broken ones, and what each owner was given."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.support.scripts.barrier import BROKEN, RELEASED, WAITING, BarrierScripts, Look
from tests.support.scripts.calls import LEASE, TOMBSTONE, ask, everything

#: Long enough for a few calls on a busy machine.
SHORT = 600
#: Between two readings of a clock on a busy machine.
MARGIN = 5000
FRESH = Look(False, 0, 0, 0, {})


async def test_the_keys_of_a_round_last_as_long_as_its_last_arrival(
    barrier: BarrierScripts, redis: Redis
) -> None:
    await barrier.wait("a", lease_ms=LEASE + 60_000)
    await barrier.wait("b", lease_ms=LEASE)
    for key in (barrier.key, barrier.arrivals):
        left = await redis.pttl(key)
        assert LEASE + 60_000 - MARGIN < left <= LEASE + 60_000


async def test_looking_again_lengthens_them(barrier: BarrierScripts, redis: Redis) -> None:
    first = await barrier.wait("a", lease_ms=LEASE)
    await barrier.wait("a", str(first.generation), lease_ms=LEASE + 60_000)
    for key in (barrier.key, barrier.arrivals):
        assert await redis.pttl(key) > LEASE + 60_000 - MARGIN


async def test_a_barrier_whose_parties_have_all_died_is_fresh_within_one_lease(
    barrier: BarrierScripts, redis: Redis
) -> None:
    first = await barrier.wait("a", lease_ms=SHORT)
    await barrier.wait("b", lease_ms=SHORT)
    await barrier.wait_for_server(SHORT + 1)
    assert await barrier.look() == FRESH
    assert await redis.exists(barrier.key, barrier.arrivals) == 0
    assert [reply.state for reply in await barrier.fill("c", "d", "e")] == [
        WAITING,
        WAITING,
        RELEASED,
    ]
    # One that was only thought dead is told, and does no harm.
    assert (await barrier.wait("a", str(first.generation))).state == BROKEN
    assert await barrier.look() == FRESH


async def test_keys_that_a_server_has_not_yet_expired_are_no_obstacle(
    barrier: BarrierScripts, redis: Redis
) -> None:
    """The clock of expiries and that of scripts may differ by a moment."""
    first = await barrier.wait("a", lease_ms=SHORT)
    for key in (barrier.key, barrier.arrivals):
        await redis.persist(key)
    await barrier.wait_for_server(SHORT + 1)
    assert await barrier.look() == FRESH
    assert (await barrier.wait("a", str(first.generation))).state == BROKEN
    assert await barrier.leave("a") == -1
    assert not (await barrier.look()).broken
    assert (await barrier.wait("b")).position == 0
    assert {*(await barrier.look()).waiting} == {"b"}
    assert await redis.pttl(barrier.key) > LEASE - MARGIN


async def test_a_party_that_leaves_breaks_it_for_one_lease(barrier: BarrierScripts) -> None:
    await barrier.wait("a", lease_ms=LEASE)
    await barrier.leave("a", lease_ms=LEASE + 10_000)
    assert (await barrier.look()).broken
    assert LEASE + 10_000 - MARGIN < await barrier.lasts_ms() <= LEASE + 10_000


async def test_it_stays_broken_while_another_party_may_still_look(barrier: BarrierScripts) -> None:
    await barrier.wait("a", lease_ms=LEASE)
    await barrier.wait("b", lease_ms=SHORT)
    await barrier.leave("b", lease_ms=SHORT)
    assert LEASE - MARGIN < await barrier.lasts_ms() <= LEASE


async def test_a_party_that_finds_another_dead_breaks_it_for_one_lease(
    barrier: BarrierScripts,
) -> None:
    seen, _ = await barrier.fill("a", "b")
    await barrier.die("b")
    lease_ms = LEASE + 10_000
    assert (await barrier.wait("a", str(seen.generation), lease_ms=lease_ms)).state == BROKEN
    assert lease_ms - MARGIN < await barrier.lasts_ms() <= lease_ms


async def test_arrivals_that_are_refused_do_not_prolong_it(barrier: BarrierScripts) -> None:
    """Else parties that try again and again would never meet."""
    await barrier.fill("a", "b")
    await barrier.die("b")
    assert (await barrier.wait("c", lease_ms=LEASE + 60_000)).state == BROKEN
    assert (await barrier.wait("d", lease_ms=LEASE + 60_000)).state == BROKEN
    assert LEASE - MARGIN < await barrier.lasts_ms() <= LEASE


async def test_a_release_is_remembered_as_long_as_one_of_its_parties_may_look(
    barrier: BarrierScripts, redis: Redis
) -> None:
    lease_ms = TOMBSTONE + 140_000
    first = await barrier.wait("a", lease_ms=lease_ms)
    await barrier.fill("b", "c")
    assert lease_ms - MARGIN < await redis.pttl(barrier.released) <= lease_ms
    # A round that is forgotten sooner does not take it along.
    await barrier.fill("d", "e", "f")
    assert lease_ms - MARGIN < await redis.pttl(barrier.released) <= lease_ms
    assert (await barrier.wait("a", str(first.generation))).state == RELEASED


async def test_void_lasts_as_long_as_it_is_set_to(barrier: BarrierScripts, redis: Redis) -> None:
    await barrier.leave("a", receipt_ms=TOMBSTONE + 60_000)
    assert await redis.pttl(barrier.arrival("a")) > TOMBSTONE + 60_000 - MARGIN


async def test_a_foreign_hash_is_refused_and_stays(barrier: BarrierScripts, redis: Redis) -> None:
    await ask(redis, "HSET", barrier.key, "owner", "1")
    await redis.pexpire(barrier.key, LEASE)
    before = await everything(redis)
    for verb in (
        barrier.wait("a"),
        barrier.leave("a"),
        barrier.abort(),
        barrier.reset(),
        barrier.look(),
    ):
        with pytest.raises(ResponseError, match="is not a barrier"):
            await verb
    assert await everything(redis) == before


async def test_inspect_lists_as_many_as_it_is_asked_for_and_counts_all(
    barrier: BarrierScripts,
) -> None:
    barrier.parties = 10
    for number in range(5):
        await barrier.wait(f"o{number}", lease_ms=LEASE + number * 1000)
    for entries, owners in ((0, []), (2, ["o0", "o1"]), (5, [f"o{n}" for n in range(5)])):
        seen = await barrier.look(entries)
        assert (seen.n_waiting, [*seen.waiting]) == (5, owners)
    for bad in ("-1", "x", "", "1.5"):
        with pytest.raises(ResponseError, match="must be"):
            await barrier.look(bad)


async def test_a_lock_of_the_same_name_is_not_touched(
    barrier: BarrierScripts, redis: Redis
) -> None:
    await ask(redis, "HSET", barrier.name, "owner", "1")
    await redis.pexpire(barrier.name, LEASE)
    held = await ask(redis, "DUMP", barrier.name)
    await barrier.fill("a", "b", "c")
    await barrier.wait("d")
    await barrier.abort()
    await barrier.reset()
    assert await ask(redis, "DUMP", barrier.name) == held


async def test_an_abort_of_a_broken_one_lasts_until_it_is_reset(barrier: BarrierScripts) -> None:
    await barrier.wait("a")
    await barrier.leave("a")
    assert await barrier.abort() == 0
    assert await barrier.lasts_ms() == -1
    await barrier.reset()
