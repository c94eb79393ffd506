"""What is special about a RedLock: a quorum of servers, and those that answer after it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress

import pytest
from redis.exceptions import ResponseError

from redisson_py import LeaseLostError, QuorumError
from redisson_py._redis.commands.lock import RELEASE
from redisson_py._redis.identity import is_unresponsive
from redisson_py._time import now
from redisson_py.composite._hold import CompositeLease
from redisson_py.composite.red_lock import RedLock
from tests.fixtures.fleet import Fleet, until_executed
from tests.support.counting import Counted
from tests.support.kinds import in_a_task
from tests.support.streams import parts_of, stream_of_member
from tests.support.waiting import until, until_async


async def until_asleep(lock: RedLock) -> None:
    """Return when somebody listens for a release on every server, and no answer is due."""
    contexts = [parts_of(member) for member in lock._ownership.owners]
    streams = [each.executor.router.stream_for(b"") for each in contexts]
    await until(
        lambda: (
            all(each.bus.table.seats for each in contexts)
            and not any(stream.waiting for stream in streams)
        )
    )


# Members.


async def test_members_are_locks_of_different_servers(fleet: Fleet) -> None:
    one, other, again = fleet.clients(1)[0], fleet.clients(2)[1], fleet.clients(1)[0]
    with pytest.raises(ValueError, match="at least one"):
        RedLock()
    with pytest.raises(ValueError, match="one server"):
        RedLock(one.get_lock("a"), one.get_lock("b"))
    with pytest.raises(ValueError, match="one server"):
        RedLock(one.get_lock("a"), other.get_lock("a"), again.get_lock("a"))
    for no_lock in ("a", RedLock(one.get_lock("a")), one):
        with pytest.raises(TypeError, match="made of locks"):
            RedLock(other.get_lock("a"), no_lock)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="fair"):
        RedLock(other.get_fair_lock("a"))


@pytest.mark.parametrize(("count", "quorum"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
async def test_quorum_is_more_than_half(fleet: Fleet, count: int, quorum: int) -> None:
    lock = fleet.red_lock(count)
    in_the_way = [client.get_lock("k") for client in fleet.clients(count)]
    leases = [await each.acquire() for each in in_the_way[: count - quorum + 1]]
    assert await lock.try_acquire() is None
    await leases.pop().release()
    async with lock:
        assert await fleet.held(count=count) == count
    for lease in leases:
        await lease.release()


async def test_fenced_locks_and_write_locks_can_be_members(fleet: Fleet) -> None:
    clients, rival = fleet.clients(3), fleet.red_lock(3)
    async with RedLock(*(client.get_fenced_lock("k") for client in clients)) as lease:
        assert lease.token is None
        assert await rival.try_acquire() is None
        # The token of a server is had by entering its lock once more.
        async with clients[0].get_fenced_lock("k") as inner:
            assert inner.token


# Counts.


@pytest.mark.parametrize("count", [3, 5])
async def test_acquire_and_release_are_one_script_a_server(fleet: Fleet, count: int) -> None:
    lock = fleet.red_lock(count)
    async with lock:
        pass
    await until_executed(lock)
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(Counted(redis)) for redis in fleet.redis[:count]]
        lease = await lock.acquire()
        await until_executed(lock)
        assert await fleet.held(count=count) == count
        await lease.release()
        await until_executed(lock)
    assert [each.calls["evalsha"] for each in servers] == [2] * count
    # What was on its way when a quorum had answered was not taken for lost.
    tombstones = [await redis.keys("*tombstone*") for redis in fleet.redis]
    assert tombstones == [[]] * len(fleet.redis)


async def test_release_wakes_a_waiter_once_for_all_servers(fleet: Fleet) -> None:
    """The messages of three servers are one chance, and are asked about once."""
    lock, rival = fleet.red_lock(3), fleet.red_lock(3)
    held = await rival.acquire()
    await until_executed(rival)
    waiting = asyncio.create_task(lock.acquire())
    await until_asleep(lock)
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(Counted(each)) for each in fleet.redis[:3]]
        await held.release()
        lease = await waiting
        await until_executed(lock)
        await until_executed(rival)
    # The release, and one question; one more where the first came before the release.
    assert {each.calls["evalsha"] - 1 for each in servers} <= {1, 2}
    await lease.release()


# Granted, or not.


@pytest.mark.usefixtures("old_busy_counts")
async def test_majority_in_other_hands_is_reported_by_server(fleet: Fleet) -> None:
    lock = fleet.red_lock(3)
    in_the_way = [client.get_lock("k") for client in fleet.clients(2)]
    leases = [await each.acquire(lease_time=20) for each in in_the_way]
    assert await lock.try_acquire() is None
    assert await lock.try_acquire(timeout=0.5) is None
    for timeout in (0, 1):
        with pytest.raises(QuorumError) as caught:
            await lock.acquire(timeout=timeout)
        answers = caught.value.answers
        assert set(answers) == {f"127.0.0.1:{each.port}/0" for each in fleet.servers[:3]}
        assert sorted(text.split(" for")[0] for text in answers.values()) == [
            "busy",
            "busy",
            "granted, then released",
        ]
        assert "2 of 3" in str(caught.value)
        await until_executed(lock)
        assert [bool(each) for each in await fleet.holds()] == [True, True, False]
    for lease in leases:
        await lease.release()


async def test_caller_in_a_hurry_makes_no_server_silent(fleet: Fleet) -> None:
    lock = fleet.red_lock(3)
    async with lock:
        await until_executed(lock)
    for server in fleet.servers[:2]:
        await server.pause()
    with pytest.raises(QuorumError):
        await lock.try_acquire(timeout=0.01)
    assert not any(is_unresponsive(stream_of_member(owner)) for owner in lock._ownership.owners)
    for server in fleet.servers[:2]:
        await server.resume()
    async with lock.hold(timeout=10):
        await until_executed(lock)


async def test_lease_that_has_ended_before_the_answers_is_not_granted(fleet: Fleet) -> None:
    """Redisson counts such a grant, and subtracts no margin for clocks that drift."""
    lock = fleet.red_lock(3)
    with pytest.raises(LeaseLostError):
        await lock.acquire(lease_time=0.001)
    await until_async(fleet.everything_free)
    before = now()
    async with lock.hold(lease_time=20) as lease:
        assert lease.remaining <= 20 * 0.99 - 0.002
        assert lease._ends_at >= before + 20 * 0.99 - 0.002


async def test_time_can_run_out_in_the_queue(fleet: Fleet) -> None:
    lock = fleet.red_lock(3)
    async with lock:
        with pytest.raises(QuorumError, match="tasks of this client are ahead") as caught:
            await in_a_task(lock.acquire(timeout=1))
        assert len(caught.value.answers) == 3


async def test_server_that_says_yes_later_joins(fleet: Fleet) -> None:
    lock = fleet.red_lock(3, lease_time=60)
    async with lock:
        await until_executed(lock)
    await fleet.servers[2].pause()
    async with lock as lease:
        assert await fleet.held(count=2) == 2
        await fleet.servers[2].resume()
        await until_executed(lock)
        assert await fleet.held() == 3
        # So that one of the others can be lost.
        await fleet.redis[0].delete("k")
        assert await lock._members[0].force_release() is False
        assert not lease.lost
        assert await lock.owned()
    await until_executed(lock)
    assert await fleet.held() == 0


async def test_reentry_waits_briefly_for_a_server_that_has_not_answered(fleet: Fleet) -> None:
    lock = fleet.red_lock(3, lease_time=100)
    async with lock:
        await until_executed(lock)
    await fleet.servers[2].pause()
    async with lock:
        entering = lock.acquire(timeout=10)
        asyncio.get_running_loop().call_soon(fleet.servers[2]._running_process().resume)
        inner = await entering
        await until_executed(lock)
        assert [list(each.values()) for each in await fleet.holds()] == [[2]] * 3
        await inner.release()


async def test_server_that_says_yes_after_a_pass_joins_the_next_holder(fleet: Fleet) -> None:
    lock = fleet.red_lock(3, turn=30, lease_time=60)
    async with lock:
        await until_executed(lock)
    entered, leave = asyncio.Event(), asyncio.Event()

    async def hold_it() -> tuple[int, bool]:
        async with lock:
            entered.set()
            await leave.wait()
            return await lock._members[2].hold_count(), await lock.owned()

    await fleet.servers[2].pause()
    lease = await lock.acquire()
    next_holder = asyncio.create_task(hold_it())
    await until(lambda: lock.statistics().waiters)
    await lease.release()
    await entered.wait()
    await fleet.servers[2].resume()
    await until_executed(lock)
    assert not await lock._members[2].owned()
    leave.set()
    assert await next_holder == (1, True)


async def test_member_that_its_holder_keeps_is_not_passed(fleet: Fleet) -> None:
    lock = fleet.red_lock(3, turn=30)
    lease = await lock.acquire()
    await until_executed(lock)
    async with lock._members[0]:
        waiting = asyncio.create_task(lock.acquire())
        await until(lambda: lock.statistics().waiters)
        await lease.release()
        next_lease = await waiting
        assert next_lease.owner != lease.owner
        assert await lock._members[0].owned()
    await next_lease.release()


async def test_late_server_is_left_to_a_waiter_for_its_lock_alone(fleet: Fleet) -> None:
    """The holder itself, even: it does not know yet that it has it."""
    lock = fleet.red_lock(3, lease_time=60)
    async with lock:
        await until_executed(lock)
    await fleet.servers[2].pause()
    async with lock:
        alone = lock._members[2].acquire(timeout=20)
        asyncio.get_running_loop().call_later(0.02, fleet.servers[2]._running_process().resume)
        await (await alone).release()


async def test_released_before_a_server_has_answered_nothing_is_left_there(fleet: Fleet) -> None:
    lock = fleet.red_lock(3, lease_time=60)
    async with lock:
        await until_executed(lock)
    await fleet.servers[2].pause()
    async with lock:
        pass
    await fleet.servers[2].resume()
    await until_executed(lock)
    assert await fleet.held() == 0
    async with lock:
        await until_executed(lock)
        assert await fleet.held() == 3


async def test_question_that_comes_after_its_release_leaves_nothing(fleet: Fleet) -> None:
    """The server knows the one script and not the other, which is sent again behind it."""
    lock = fleet.red_lock(3, lease_time=60)
    async with lock:
        await until_executed(lock)
    await until_executed(lock)
    await fleet.redis[2].script_flush()
    for wording in RELEASE.wordings:
        with suppress(ResponseError):
            # Below Redis 7 only the first is one.
            await fleet.redis[2].script_load(wording.text)
    await fleet.servers[2].pause()
    async with lock:
        pass
    await fleet.servers[2].resume()
    await until_executed(lock)
    await until_async(fleet.everything_free)
    async with lock:
        await until_executed(lock)
        assert await fleet.held() == 3


@pytest.mark.more
async def test_a_member_that_joins_late_ends_with_the_others(fleet: Fleet) -> None:
    lock = fleet.red_lock(3)
    async with lock:
        await until_executed(lock)
    await fleet.servers[2].pause()
    lease = await lock.acquire(max_hold=3)
    assert isinstance(lease, CompositeLease)
    await fleet.servers[2].resume()
    await until(lambda: len(lease.held_members) == 3)
    assert len({member._limit for member in lease.held_members}) == 1
    await lease.wait_lost()
    assert lease._loss().reason == "ended"
    # Released, and not left to a lease of 30 seconds.
    await until_async(fleet.everything_free)


@pytest.mark.more
async def test_of_a_member_that_joins_late_the_name_stays_taken_too(fleet: Fleet) -> None:
    lock = fleet.red_lock(3)
    async with lock:
        await until_executed(lock)
    await fleet.servers[2].pause()
    async with lock.hold(min_hold=300) as lease:
        assert isinstance(lease, CompositeLease)
        await fleet.servers[2].resume()
        await until(lambda: len(lease.held_members) == 3)
    await until_executed(lock)
    assert await fleet.held() == 3
    assert await lock.try_acquire() is None
    assert await lock.force_release()
    await until_async(fleet.everything_free)
