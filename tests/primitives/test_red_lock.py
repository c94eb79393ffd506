"""What is special about a RedLock: several servers, a quorum of them, members that come and go."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from redisson_py import (
    LeaseLostError,
    QuorumError,
)
from redisson_py._time import now
from redisson_py.composite._identity import Servers
from redisson_py.composite._unresponsive import is_unresponsive
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


async def test_name_is_that_of_the_members_each_once(fleet: Fleet) -> None:
    clients = fleet.clients(3)
    assert RedLock(*(client.get_lock("k") for client in clients)).name == "k"
    names: list[str | bytes] = ["a", b"b", "a"]
    lock = RedLock(*(client.get_lock(name) for client, name in zip(clients, names, strict=True)))
    assert sorted(str(lock.name).split(", ")) == ["a", "b"]


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


async def test_what_was_passed_is_the_other_tasks_on_every_server(fleet: Fleet) -> None:
    lock = fleet.red_lock(3, turn=30)

    async def get_it() -> tuple[int, bool]:
        async with lock:
            async with lock:
                inner = await lock.hold_count()
            return inner, await lock._members[2].owned()

    async with lock:
        waiting = asyncio.create_task(get_it())
        await until(lambda: lock.statistics().waiters)
    assert not await lock._members[2].owned()
    assert await waiting == (2, True)


async def test_waiting_sends_nothing(fleet: Fleet) -> None:
    lock, rival = fleet.red_lock(3), fleet.red_lock(3)
    clients = fleet.made[:3]
    async with rival:
        waiting = asyncio.create_task(lock.acquire())
        await until_asleep(lock)
        sent = [client._router.traffic.commands for client in clients]
        # As a wake-up that is worth nothing: one server's lock is free, and taken again.
        other = RedLock(*(client.get_lock("other") for client in fleet.clients(3)))
        async with other:
            pass
        assert [client._router.traffic.commands for client in clients] == sent
    await (await waiting).release()


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


async def test_own_undo_does_not_wake_the_waiter(fleet: Fleet) -> None:
    """One server has forgotten: it says yes at each question, and that is given back."""
    lock, rival = fleet.red_lock(3), fleet.red_lock(3)
    async with rival:
        await until_executed(rival)
        await fleet.redis[0].delete("k")
        waiting = asyncio.create_task(lock.acquire())
        await until_asleep(lock)
        await until_executed(lock)
        async with Counted(fleet.redis[0]) as counted:
            await asyncio.sleep(0.3)
        assert counted.calls.get("evalsha", 0) <= 2
    await (await waiting).release()


# Granted, or not.


@pytest.mark.usefixtures("old_busy_counts")
async def test_majority_in_other_hands_is_told_by_server(fleet: Fleet) -> None:
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


async def test_time_can_run_out_in_the_line(fleet: Fleet) -> None:
    lock = fleet.red_lock(3)
    async with lock:
        with pytest.raises(QuorumError, match="tasks of this client are ahead") as caught:
            await in_a_task(lock.acquire(timeout=1))
        assert len(caught.value.answers) == 3


async def test_lease_that_is_over_before_the_answers_is_not_granted(fleet: Fleet) -> None:
    """Redisson counts such a grant, and subtracts no margin for clocks that drift."""
    lock = fleet.red_lock(3)
    with pytest.raises(LeaseLostError):
        await lock.acquire(lease_time=0.001)
    await until_async(fleet.everything_free)
    before = now()
    async with lock.hold(lease_time=20) as lease:
        assert lease.remaining <= 20 * 0.99 - 0.002
        assert lease._ends_at >= before + 20 * 0.99 - 0.002


# Several who want it.


async def test_split_votes_are_resolved(fleet: Fleet) -> None:
    """Three clients that ask five servers each in another order, all at the same time."""
    locks = []
    for shift in range(3):
        lock = fleet.red_lock(5)
        owners = (lock._ownership.owners * 2)[2 * shift : 2 * shift + 5]
        lock._ownership.owners, lock._ownership.servers = owners, Servers(owners)
        locks.append(lock)
        async with lock:
            pass
        await until_executed(lock)
    inside = 0

    async def visit(lock: RedLock) -> None:
        nonlocal inside
        for _ in range(5):
            async with lock:
                inside += 1
                assert inside == 1
                await asyncio.sleep(0)
                inside -= 1

    async with asyncio.timeout(60):
        await asyncio.gather(*(visit(lock) for lock in locks for _ in range(2)))
