"""What RedissonFairLockTest checks of the scripts: the scores of a queue do not drift apart.

Redisson tells its waiters their scores as replies; ours are told when to ask again, so here the
scores themselves are looked at. What one waits is 20 s where it is 5 s there; the first has
300 s and a lease at least.
"""

from __future__ import annotations

from redisson_py._time import now
from tests.support.scripts.any_lock import wait_until_gone
from tests.support.scripts.calls import LEASE, A, B, C
from tests.support.scripts.fair import WAIT, FairScripts, about

D, E = "client-d:1", "client-e:1"
WAITS = 20_000
FIRST = LEASE + WAIT


async def wait(fair: FairScripts, *owners: str) -> None:
    for owner in owners:
        assert (await fair.acquire(owner, wait_ms=WAITS)) == about(LEASE)


async def test_a_waiter_that_gives_up_leaves_no_gap(fair: FairScripts) -> None:
    # testAcquireFailedTimeoutDrift_Descrete
    assert await fair.acquire(A) is None
    await wait(fair, B, C, D, E)
    steps = {B: about(FIRST), C: about(FIRST + WAITS), D: about(FIRST + 2 * WAITS)}
    assert await fair.moments() == {**steps, E: about(FIRST + 3 * WAITS)}
    assert await fair.leave(C, WAITS) is None
    await wait(fair, B, D, E)
    steps = {B: about(FIRST), D: about(FIRST + WAITS), E: about(FIRST + 2 * WAITS)}
    assert await fair.moments() == steps
    await fair.release(A)
    assert await fair.acquire(B, wait_ms=WAITS) is None


async def test_trying_once_moves_nobody(fair: FairScripts) -> None:
    # testLockAcquiredBooleanTimeoutDrift_Descrete
    await fair.acquire(A)
    for _ in range(3):
        reply = await fair.try_once(B)
        assert reply is not None
        assert 0 <= reply <= LEASE
        assert await fair.queued() == []
        assert await fair.moments() == {}
    await fair.end_lease()
    assert await fair.try_once(C) is None


async def test_an_acquire_takes_its_own_wait_off_the_others(fair: FairScripts) -> None:
    # testLockAcquiredTimeoutDrift_Descrete
    await fair.acquire(A)
    await wait(fair, B, C, D)
    await fair.release(A)
    assert await fair.acquire(B, wait_ms=WAITS) is None
    assert await fair.moments() == {C: about(FIRST), D: about(FIRST + WAITS)}
    await wait(fair, E)
    assert (await fair.moments())[E] == about(FIRST + 2 * WAITS)
    await fair.release(B)
    assert await fair.acquire(C, wait_ms=WAITS) is None
    assert await fair.moments() == {D: about(FIRST), E: about(FIRST + WAITS)}


async def test_the_third_acquires_when_all_before_it_are_dead(fair: FairScripts) -> None:
    # testAbandonedTimeoutDrift_Descrete: dead is who has not asked for a lease
    await fair.acquire(A, lease_ms=2500)
    for owner in (B, C, D):
        await fair.acquire(owner, lease_ms=2500, wait_ms=100, alive_ms=2500)
    moments = await fair.moments()
    assert moments[C] - moments[B] == moments[D] - moments[C] == 100
    await wait_until_gone(fair)
    while max((await fair.alive()).values()) > 0:
        pass  # their leases end without anybody's doing
    assert await fair.acquire(D, wait_ms=100) is None
    assert await fair.queued() == []


async def test_a_dead_last_waiter_puts_off_nobody(fair: FairScripts) -> None:
    # testFirstThreadDeathTimeoutDrift
    await fair.acquire(A)
    for owner in (B, C, D):
        await fair.acquire(owner)
    await fair.die(D)
    for number in range(20):
        passing = f"client-p:{number}"
        await fair.acquire(passing, wait_ms=WAITS)
        await fair.leave(passing, WAITS)
    await fair.acquire(E)
    for index, owner in enumerate(await fair.queued()):
        assert (await fair.moments())[owner] <= LEASE + WAIT * (index + 1) + 4000


async def test_behind_a_dead_one_of_ours_redissons_waiters_count_from_now(
    fair: FairScripts,
) -> None:
    # Redisson would have taken it for dead when its score has passed, and theirs count from there.
    await fair.acquire(A)
    await wait(fair, B, C)
    await fair.java_tries(D, WAITS)
    await fair.java_tries(E, 10)
    assert (await fair.moments())[D] == about(FIRST + 2 * WAITS)
    await fair.die(B)
    await fair.die(C)
    await fair.release(A)
    assert await fair.queued() == [D, E]
    assert await fair.moments() == {D: about(WAITS), E: about(WAITS)}
    # Who asks is told when the next can be found dead now.
    assert await fair.try_once(B) == about(WAITS)
    assert await fair.moments() == {D: about(WAITS), E: about(WAITS)}


async def test_a_waiter_that_moves_up_has_time_to_acquire(fair: FairScripts) -> None:
    await fair.acquire(A)
    await wait(fair, B)
    await fair.java_tries(C, 10)
    await wait(fair, D)
    await fair.die(B)
    began = now()
    await fair.release(A)
    moments = await fair.moments()
    assert 500 - 1000 * (now() - began) < moments[C] <= 1000
    # Ours keeps what Redisson may take off; that it is alive is written elsewhere.
    assert moments[D] == about(FIRST)
