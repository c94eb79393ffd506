"""What is special about a MultiLock: all or nothing, in one order, and limited waits."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import Lease, LeaseLostError, Redisson
from redisson_py._engine.task_ownership import TaskOwnership
from redisson_py._redis import identity
from redisson_py._time import now
from redisson_py.composite import multi_lock
from redisson_py.composite.multi_lock import MultiLock, MultiOwnership
from redisson_py.composite.red_lock import RedLock
from redisson_py.locks.lock_like import LockLike
from redisson_py.testing import EmbeddedServer
from tests.fixtures.client import ClientFactory
from tests.fixtures.fleet import Fleet
from tests.fixtures.redis_server import PASSWORD, ServerFactory, documented_rules, url_of_user
from tests.support.counting import Counted
from tests.support.leases import assert_left, renew_now
from tests.support.monitor import Monitor, words
from tests.support.streams import answered, stream_of
from tests.support.waiting import until, until_async, until_listening

NAMES = ("a", "b", "c")


def multi(client: Redisson, *names: str) -> MultiLock:
    """Return a multi lock of plain locks of one client."""
    return MultiLock(*(client.get_lock(name) for name in names or NAMES))


async def held(redis: Redis) -> list[bool]:
    """Return of which of the names somebody holds the lock."""
    return [bool(await redis.exists(name)) for name in NAMES]


async def assert_all_left(redis: Redis, lease_time: float, since: float) -> None:
    for name in NAMES:
        assert_left(await redis.pttl(name) / 1000, lease_time, since)


# Members.


@pytest.mark.also("cluster")
def test_members_are_locks_each_once(clients: ClientFactory) -> None:
    client, other = clients(), clients()
    for no_lock in ("a", client, None):
        with pytest.raises(TypeError, match="made of locks"):
            MultiLock(client.get_lock("a"), no_lock)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not of list: pass each lock as an argument"):
        client.get_multi_lock([client.get_lock("a")])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one"):
        MultiLock()
    for twin in (client.get_lock("a"), other.get_lock("a"), other.get_fenced_lock("a")):
        with pytest.raises(ValueError, match="the same lock in Redis"):
            MultiLock(client.get_lock("b"), client.get_lock("a"), twin)
    # In another database it is another lock.
    elsewhere = Redisson.from_url("redis://" + client._where + "/1")
    assert MultiLock(client.get_lock("a"), elsewhere.get_lock("a")).name == "a"


@pytest.mark.also("cluster")
def test_members_are_sorted_and_multi_locks_opened(client: Redisson) -> None:
    lock = MultiLock(client.get_lock("c"), multi(client, "b", "d"), client.get_lock(b"a"))
    assert [member.name for member in lock._members] == [b"a", "b", "c", "d"]
    assert lock.name == "a, b, c, d"
    assert repr(lock) == "<MultiLock 'a, b, c, d'>"


@pytest.mark.also("cluster")
async def test_members_of_any_kind(client: Redisson, redis: Redis) -> None:
    guarded = client.get_read_write_lock("rw")
    members: list[LockLike] = [
        client.get_fenced_lock("fenced"),
        client.get_fair_lock("fair"),
        guarded.read_lock(),
        client.get_read_write_lock("other").write_lock(),
        client.get_lock("plain", reentrant=False),
        RedLock(client.get_lock("red")),
    ]
    async with MultiLock(*members) as lease:
        assert lease.token is None
        for member in members:
            assert await member.owned(), member
        async with members[0] as inner:
            assert inner.token
    assert not [key for key in await redis.keys() if b"redisson" not in key]


@pytest.mark.also("cluster")
async def test_what_is_made_of_two_sides_is_two_locks(client: Redisson) -> None:
    sides = client.get_read_write_lock("rw")
    read = MultiLock(sides.read_lock(), client.get_lock("a"))
    write = MultiLock(sides.write_lock(), client.get_lock("a"))
    await write.acquire()
    await read.acquire()
    await write.release()
    assert [await side.owned() for side in (read, write)] == [True, False]
    assert not await sides.write_lock().owned()
    await read.release()
    assert (await sides.inspect()).holders == ()


# Acquiring and releasing.


@pytest.mark.also("cluster")
async def test_free_members_cost_one_round_trip_each_way(client: Redisson, redis: Redis) -> None:
    lock = multi(client)
    async with lock:
        pass
    before = stream_of(client).traffic.writes
    for lease_time in (None, 10):
        async with Counted(redis) as counted:
            async with lock.hold(lease_time=lease_time):
                pass
        assert counted.calls["evalsha"] == 2 * len(NAMES)
    assert stream_of(client).traffic.writes - before == 4


@pytest.mark.also("cluster")
async def test_lease_counts_from_when_all_are_held(clients: ClientFactory, redis: Redis) -> None:
    client, other = clients(), clients()
    lock = multi(client)
    began = now()
    async with other.get_lock("c") as in_the_way:
        waiting = asyncio.create_task(lock.acquire(lease_time=5))
        await until_listening(client)
        # Those that are held already are kept by the watchdog meanwhile.
        left = await redis.pttl("a") / 1000
        assert 28 - (now() - began) < left <= 30
        began = now()
    lease = await waiting
    assert in_the_way.lost is False
    assert lease.remaining < 5
    assert_left(lease.remaining, 5, began)
    await assert_all_left(redis, 5, began)
    await lease.release()


@pytest.mark.also("cluster")
async def test_lease_that_has_ended_before_all_are_held_is_reported(
    client: Redisson, redis: Redis
) -> None:
    with pytest.raises(LeaseLostError, match="multi lock 'a, b, c' was lost"):
        await multi(client).acquire(lease_time=0.001)
    await answered(client)
    assert await held(redis) == [False] * 3


@pytest.mark.usefixtures("old_busy_counts")
async def test_red_lock_that_is_busy_keeps_nothing_of_the_others(
    clients: ClientFactory, redis: Redis
) -> None:
    client, other = clients(), clients()
    lock = MultiLock(client.get_lock("a"), RedLock(client.get_lock("b")))
    async with other.get_lock("b"):
        for timeout in (0, 0.5):
            assert await lock.try_acquire(timeout=timeout) is None
            await answered(client)
            assert await held(redis) == [False, True, False]
    began = now()
    async with lock.hold(lease_time=5) as lease:
        assert lease.remaining < 5
        assert_left(lease.remaining, 5, began)
        assert await lock.hold_count() == 1


# Against deadlock.


@pytest.mark.also("cluster")
async def test_opposite_orders_do_not_deadlock(clients: ClientFactory) -> None:
    """Redisson takes members as they are given, and waits until a timeout breaks the circle."""
    orders = list(itertools.permutations(NAMES))
    locks = [
        multi(client, *order)
        for client, order in zip([clients(), clients()] * 3, orders, strict=True)
    ]
    inside = 0

    async def visit(lock: MultiLock) -> None:
        nonlocal inside
        for _ in range(4):
            async with lock:
                inside += 1
                assert inside == 1
                await asyncio.sleep(0)
                inside -= 1

    async with asyncio.timeout(60):
        await asyncio.gather(*(visit(lock) for lock in locks))


@pytest.mark.also("cluster")
async def test_nobody_waits_for_a_member_while_holding_a_later_one(
    clients: ClientFactory, redis: Redis
) -> None:
    client, other = clients(), clients()
    async with other.get_lock("b"):
        waiting = asyncio.create_task(multi(client, "c", "b", "a").acquire())
        await until_listening(client)
        await answered(client)
        assert await held(redis) == [True, True, False]
        async with multi(other, "c").hold(timeout=0):
            pass
    await (await waiting).release()


# Losing a member.


@pytest.mark.also("cluster")
async def test_member_lost_while_others_are_waited_for_is_taken_again(
    clients: ClientFactory, redis: Redis
) -> None:
    client, other = clients(), clients()
    lock = multi(client)
    async with other.get_lock("c"):
        waiting = asyncio.create_task(lock.acquire())
        await until_listening(client)
        await redis.delete("a")
        renew_now(client)
        await until(lambda: client.statistics().losses)
    lease = await waiting
    assert await held(redis) == [True] * 3
    assert not lease.lost
    await lease.release()


@pytest.mark.also("cluster")
async def test_release_goes_on_after_a_member_that_fails(client: Redisson, redis: Redis) -> None:
    """Redisson stops at the first error, and leaves the later members locked."""
    lock = multi(client)
    lease = await lock.acquire()
    for name in ("a", "c"):
        await redis.delete(name)
    with pytest.raises(LeaseLostError):
        await lease.release()
    assert await held(redis) == [False] * 3
    async with lock as lease:
        for name in ("a", "c"):
            await redis.delete(name)
            await redis.set(name, "no lock", px=20000)
        # A key of another type is a hold that is gone.
        with pytest.raises(LeaseLostError, match="taken"):
            await lock.release()
        assert await held(redis) == [True, False, True]
    for name in ("a", "c"):
        await redis.delete(name)


#: A deadlock lasts for ever.
PATIENCE = 30.0


@pytest_asyncio.fixture
async def other_server(server_factory: ServerFactory) -> AsyncIterator[EmbeddedServer]:
    """A second server, which may be killed."""
    yield await server_factory()


async def test_no_deadlock_with_a_task_that_takes_the_locks_in_the_other_order(
    clients: ClientFactory,
) -> None:
    client, other = clients(), clients()
    multi = client.get_multi_lock(client.get_lock("a"), client.get_lock("b"))

    async def get_both() -> None:
        async with multi:
            pass

    async with asyncio.timeout(PATIENCE):
        for _ in range(3):
            async with other.get_lock("b"):
                waiting = asyncio.create_task(get_both())
                await until_async(other.get_lock("a").locked)
                # Held by the other task, which waits for b.
                async with other.get_lock("a"):
                    pass
            await waiting


async def test_it_keeps_its_position_in_a_queue_that_is_longer_than_its_limit(
    client: Redisson, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multi_lock, "_FIRST_WAIT_SECONDS", 0.02)
    monkeypatch.setattr(multi_lock, "_LONGEST_WAIT_SECONDS", 0.02)
    walks = 0
    take = multi_lock._Walk.take

    async def counted(walk: Any, wait: float) -> Any:
        nonlocal walks
        walks += 1
        return await take(walk, wait)

    async def visit() -> None:
        async with client.get_lock("b"):
            pass

    monkeypatch.setattr(multi_lock._Walk, "take", counted)
    async with client.get_lock("b"):
        both = client.get_multi_lock(client.get_lock("a"), client.get_lock("b"))
        waiting = asyncio.create_task(both.acquire())
        await until(lambda: walks == 2 and client.statistics().waiters == 1)
        newcomer = asyncio.create_task(visit())
        # Long enough to give its place up some times.
        await asyncio.sleep(1)
    lease = await waiting
    assert not newcomer.done()
    assert walks == 2
    await lease.release()
    await newcomer


class _EnoughError(Exception):
    """Ends an acquire that has begun often enough."""


async def test_it_never_keeps_others_from_its_members_for_long(
    clients: ClientFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, other = clients(), clients()
    waits: list[float] = []

    async def in_vain(walk: Any, wait: float) -> None:
        walk.answered = True
        waits.append(wait)
        if len(waits) == 12:
            raise _EnoughError

    monkeypatch.setattr(multi_lock, "_LONGEST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(multi_lock._Walk, "take", in_vain)
    async with other.get_lock("b"):
        with pytest.raises(_EnoughError):
            await client.get_multi_lock(client.get_lock("a"), client.get_lock("b")).acquire()
    assert max(waits[:2]) < 2, "it begins with short ones"
    assert 2 < max(waits) < 8


@pytest.mark.usefixtures("old_busy_counts")
async def test_after_a_refusal_the_members_are_asked_one_by_one_for_a_while(
    clients: ClientFactory, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multi_lock, "_CONTENDED_SECONDS", 60.0)
    client, other = clients(), clients()
    lock = client.get_multi_lock(*[client.get_lock(name) for name in "abc"])
    async with other.get_lock("a"):
        assert await lock.locked()  # connecting counts
        assert await lock.try_acquire(timeout=0.5) is None
        async with Monitor(redis) as monitor:
            assert await lock.try_acquire(timeout=0.5) is None
            scripts = [words(row) for row in await monitor.rows() if b'"EVALSHA"' in row]
        # For the first only.
        assert scripts
        assert {script[3] for script in scripts} == {"a"}


async def test_server_of_a_later_member_that_is_away_for_a_while_is_waited_for(
    clients: ClientFactory, other_server: EmbeddedServer
) -> None:
    near, far = clients(), clients(other_server.url)
    await answered(far)
    multi = near.get_multi_lock(near.get_lock("a"), far.get_lock("b"))
    multi._ownership.one_by_one_until = float("inf")
    await other_server.kill()
    waiting = asyncio.create_task(multi.acquire())
    await until_async(near.get_lock("a").locked)
    # Longer than the first wait.
    await until_async(lambda: is_free(near))
    await other_server.start()
    lease = await waiting
    assert not lease.lost
    await lease.release()


async def is_free(client: Redisson) -> bool:
    return not await client.get_lock("a").locked()


async def test_server_that_forbids_info_is_identified_by_its_address(
    fleet: Fleet,
) -> None:
    rules = [rule for rule in documented_rules() if rule != "+info"]
    made: list[Redisson] = []
    for number in range(2):
        redis = fleet.redis[number]
        command: Any = redis.execute_command
        await command("ACL", "SETUSER", "poor", "reset", "on", f">{PASSWORD}", *rules)
        made.append(Redisson.from_url(url_of_user(fleet.servers[number].url, "poor")))
    fleet.made += made
    try:
        locks = [client.get_lock("k") for client in made]
        for lock in (made[0].get_red_lock(*locks), made[0].get_multi_lock(*locks)):
            for _ in range(2):
                async with lock.hold(timeout=10):
                    pass
        owners: list[TaskOwnership] = [lock._ownership for lock in locks]
        assert [identity.run_id(owner) for owner in owners] == [None, None]
        assert not any(identity.is_stranger(owner) for owner in owners)
    finally:
        for client in made:
            await client.aclose()
        for redis in fleet.redis[:2]:
            await redis.acl_deluser("poor")


@pytest.mark.parametrize("lost_first", [True, False])
async def test_a_loss_beside_a_reentry_whose_outer_lease_another_task_releases(
    clients: ClientFactory, monkeypatch: pytest.MonkeyPatch, lost_first: bool
) -> None:
    client = clients()
    lock = client.get_multi_lock(client.get_lock("a"), client.get_lock("b"))
    outer = await lock.acquire()
    take_all = MultiOwnership.all

    def lose_one() -> None:
        client._watchdog.lose(client.get_lock("a")._ownership.all_holds()[0], "taken")

    async def beside() -> None:
        if lost_first:
            lose_one()
            with pytest.raises(LeaseLostError):
                await outer.release()
        else:
            await outer.release()
            lose_one()

    async def slow(multi: MultiOwnership, *arguments: Any) -> list[Lease] | None:
        leases = await take_all(multi, *arguments)
        await asyncio.create_task(beside())
        return leases

    monkeypatch.setattr(MultiOwnership, "all", slow)
    with pytest.raises(LeaseLostError):
        await lock.acquire()
    assert client.statistics().held_leases == 0
