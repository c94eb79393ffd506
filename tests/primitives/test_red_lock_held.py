"""A RedLock while it is held: re-entry, members that are lost or join, extending, looking."""

from __future__ import annotations

import asyncio
import logging

import pytest

from redisson_py import ClientClosedError, JointSnapshot, LeaseLostError, NotHeldError
from redisson_py._time import now
from redisson_py.composite.red_lock import RedLock
from tests.fixtures.fleet import Fleet, until_executed
from tests.support.kinds import in_a_task
from tests.support.leases import assert_left, renew_now
from tests.support.waiting import set_safety_poll, until


def renew_all(fleet: Fleet) -> None:
    for client in fleet.made:
        renew_now(client)


# Re-entry.


@pytest.mark.parametrize(
    ("outer", "inner"),
    [("multi", "red"), ("red", "multi"), ("multi", "multi of red"), ("multi of red", "multi")],
)
async def test_composites_of_the_same_members_count_their_own_leases(
    fleet: Fleet, outer: str, inner: str
) -> None:
    client, *others = fleet.clients(2)
    members = [each.get_lock("k") for each in (client, *others)]
    red = client.get_red_lock(*members)
    of_red = client.get_multi_lock(red)
    made = {"multi": client.get_multi_lock(*members), "red": red, "multi of red": of_red}

    async def counts() -> list[tuple[int, int]]:
        return [
            (await made[each].hold_count(), made[each].statistics().held_leases)
            for each in (outer, inner)
        ]

    async with made[outer]:
        assert await counts() == [(1, 1), (0, 0)]
        with pytest.raises(NotHeldError):
            await made[inner].release()
        async with made[inner]:
            assert await counts() == [(1, 1), (1, 1)]
        assert await counts() == [(1, 1), (0, 0)]
    assert await counts() == [(0, 0), (0, 0)]
    assert await fleet.held() == 0


async def test_members_that_are_not_reentrant_refuse(fleet: Fleet) -> None:
    lock = RedLock(*(each.get_lock("k", reentrant=False) for each in fleet.clients(3)))
    async with lock:
        with pytest.raises(RuntimeError, match="this task already holds"):
            await lock.acquire()
        assert await lock.hold_count() == 1
    assert not await lock.locked()


# Losing members.


async def test_loss_of_a_minority_is_no_loss(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    lock = fleet.red_lock(3)
    async with lock as lease:
        await until_executed(lock)
        await fleet.redis[1].delete("k")
        renew_all(fleet)
        await until(lambda: "lost lock 'k'" in caplog.text)
        assert not lease.lost
        assert lease.remaining > 0
        assert await lock.owned()


async def test_loss_of_a_quorum_cancels_the_body_and_frees_the_others(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    lock, rival = fleet.red_lock(3), fleet.red_lock(3)
    cancelled = False
    with pytest.raises(LeaseLostError) as caught:
        async with lock as lease:
            await until_executed(lock)
            for redis in fleet.redis[:2]:
                await redis.delete("k")
            renew_all(fleet)
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                cancelled = True
                assert lease.lost
                assert lease.remaining == 0
                raise
    assert cancelled
    assert caught.value.name == "k"
    assert caught.value.owner == lease.owner
    assert "lost red lock 'k': too few of its members are left" in caplog.text
    with pytest.raises(NotHeldError):
        await lock.release()
    assert await fleet.held() == 0
    async with rival.hold(timeout=10), asyncio.timeout(30):
        await lease.wait_lost()


async def test_member_freed_by_force_here_is_lost_at_once(fleet: Fleet) -> None:
    lock = fleet.red_lock(3)
    lease = await lock.acquire()
    await until_executed(lock)
    assert await lock._members[0].force_release()
    assert not lease.lost
    assert await lock._members[1].force_release()
    assert lease.lost
    with pytest.raises(LeaseLostError):
        await lease.release()


# Extending.


async def test_extend_needs_a_quorum_only(fleet: Fleet) -> None:
    lock = fleet.red_lock(3)
    lease = await lock.acquire()
    await until_executed(lock)
    await fleet.redis[0].delete("k")
    await lease.extend(60)
    assert 50 < lease.remaining < 60
    await until_executed(lock)
    await fleet.redis[1].delete("k")
    for _ in range(2):
        with pytest.raises(LeaseLostError):
            await lease.extend(60)
        assert lease.lost
    with pytest.raises(LeaseLostError):
        await lease.release()


# Looking.


async def test_what_it_says_of_itself(fleet: Fleet) -> None:
    lock, rival = fleet.red_lock(3), fleet.red_lock(3)
    assert (await lock.locked(), await lock.remaining()) == (False, None)
    assert not (await lock.inspect()).holders
    began = now()
    async with lock as lease:
        await until_executed(lock)
        assert await rival.locked()
        assert_left(await rival.remaining(), 30, began)
        assert (await lock.owned(), await rival.owned()) == (True, False)
        seen = await rival.inspect()
        assert isinstance(seen, JointSnapshot)
        assert {holder.owner for holder in seen.holders} > {lease.owner}
        assert set(seen.members) == {f"k at 127.0.0.1:{each.port}/0" for each in fleet.servers[:3]}
        assert seen.keys == ("k",) * 3
        assert lock.statistics().held_leases == 1
        assert rival.statistics().held_leases == 0
        # With two of three free it could be had.
        for redis in fleet.redis[:2]:
            await redis.delete("k")
        assert not await rival.locked()
        assert await rival.remaining() is None
        with pytest.raises(LeaseLostError):
            await lock.release()
    assert "red lock 'k'" in repr(lease)
    assert repr(lock) == "<RedLock 'k'>"


# Closing.


async def test_closed_clients_of_a_quorum_end_it(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    lock = fleet.red_lock(3)
    with pytest.raises(LeaseLostError):
        async with lock as lease:
            await until_executed(lock)
            await fleet.made[0].aclose()
            assert not lease.lost
            await in_a_task(fleet.made[1].aclose())
            await asyncio.sleep(30)
    assert await fleet.held() == 0
    with pytest.raises(ClientClosedError):
        await lock.acquire()


@pytest.mark.parametrize("closed", [0, 2])
async def test_waiters_hear_that_one_of_the_clients_is_closed(
    fleet: Fleet, closed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_safety_poll(monkeypatch, 60)
    lock, rival = fleet.red_lock(3), fleet.red_lock(3)
    async with rival:
        await until_executed(rival)
        waiting = asyncio.create_task(lock.acquire())
        await until(lambda: all(each._context.bus.table.seats for each in fleet.made[:3]))
        await fleet.made[closed].aclose()
        with pytest.raises(ClientClosedError):
            async with asyncio.timeout(20):
                await waiting
