"""What is special about the fair lock: the order, whatever becomes of those who wait."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from redisson_py import (
    AcquireTimeoutError,
    ClientClosedError,
    ConnectionLostError,
    FairLock,
    Lease,
    Redisson,
)
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.counting import Counted
from tests.support.fair_locks import (
    JAVA,
    die,
    fair_lock,
    nothing_left,
    one_by_one,
    server_side,
    until_queued,
)
from tests.support.scripts.fair import WAIT, FairScripts
from tests.support.streams import answered
from tests.support.waiting import set_safety_poll, until_listening


class Visits:
    """Who was in the critical section, in order."""

    def __init__(self) -> None:
        self.order: list[int] = []

    async def visit(self, lock: FairLock, number: int, timeout: float | None = None) -> None:
        async with lock.hold(timeout=timeout):
            self.order.append(number)


@pytest.mark.also("cluster")
async def test_clients_are_served_in_the_order_they_came(
    clients: ClientFactory, fair: FairScripts
) -> None:
    locks = [fair_lock(clients()) for _ in range(3)]
    visits = Visits()
    async with locks[0]:
        coming = [visits.visit(locks[number % 3], number) for number in range(12)]
        waiting = await one_by_one(fair, *coming)
    await asyncio.gather(*waiting)
    assert visits.order == [*range(12)]


@pytest.mark.also("cluster")
async def test_a_waiter_that_gives_up_or_is_cancelled_keeps_the_order(
    clients: ClientFactory, fair: FairScripts
) -> None:
    locks = [fair_lock(clients()) for _ in range(2)]
    visits = Visits()
    async with locks[0]:
        coming = [
            # Those with a timeout leave by themselves.
            visits.visit(locks[number % 2], number, 0.5 if number in (2, 5) else None)
            for number in range(8)
        ]
        waiting = [*await one_by_one(fair, *coming[:2]), *map(asyncio.create_task, coming[2:])]
        for number in (0, 3, 7):
            waiting[number].cancel()
        await asyncio.wait([waiting[2], waiting[5]])
        await until_queued(fair, 3)
        queued = await fair.queued()
        assert queued[0].startswith(locks[1]._context.owners.client_id), "1 is the first now"
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [
        asyncio.CancelledError,
        type(None),
        AcquireTimeoutError,
        asyncio.CancelledError,
        type(None),
        AcquireTimeoutError,
        type(None),
        asyncio.CancelledError,
    ]
    assert visits.order[0] == 1
    assert sorted(visits.order) == [1, 4, 6]
    assert await nothing_left(fair)


@pytest.mark.also("cluster")
async def test_the_next_gets_in_at_once_when_the_head_of_a_free_lock_leaves(
    clients: ClientFactory,
    proxy: ProxyFactory,
    fair: FairScripts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_safety_poll(monkeypatch, 60)
    link = await proxy()
    # It asks again a third of its lease later.
    holder, slow, next_one = clients(), clients(link.url), clients(lease_time=90)
    lease = await fair_lock(holder).acquire()
    (leaving,) = await one_by_one(fair, fair_lock(slow).acquire())
    (waiting,) = await one_by_one(fair, fair_lock(next_one).acquire())
    await until_listening(next_one)
    link.hold()  # It will not ask before it leaves.
    await lease.release()
    assert len(await fair.queued()) == 2
    leaving.cancel()
    link.release_held()
    async with asyncio.timeout(20):  # sooner than any poll
        await (await waiting).release()


@pytest.mark.also("cluster")
async def test_inspect_lists_waiters_in_order(
    client: Redisson, clients: ClientFactory, fair: FairScripts
) -> None:
    lock, other = fair_lock(client), fair_lock(clients())
    async with lock as lease:
        waiting = await one_by_one(fair, other.acquire(), lock.acquire(), other.acquire())
        found = await lock.inspect()
        assert [holder.owner for holder in found.holders] == [lease.owner]
        assert found.holders[0].task is not None
        mine, others = client.id, other._context.owners.client_id
        clients_ = [owner.rpartition(":")[0] for owner in found.waiters or ()]
        assert clients_ == [others, mine, others]
        assert lock.statistics().waiters == client.statistics().waiters == 1
        assert other.statistics().waiters == 2
    assert found.keys == (
        "k",
        "redisson_lock_queue:{k}",
        "redisson_lock_timeout:{k}",
        "{k}:redisson_py:waiters",
    )
    for task, owner in zip(waiting, found.waiters or (), strict=True):
        lease = await task
        assert lease.owner == owner
        await lease.release()
    found = await lock.inspect()
    assert not found.holders
    assert not found.waiters


@pytest.mark.also("cluster")
async def test_closing_takes_its_waiters_out_of_the_queue(
    clients: ClientFactory, fair: FairScripts
) -> None:
    holder, closing, other = clients(), clients(), clients()
    lease = await fair_lock(holder).acquire()
    lock = fair_lock(closing)
    leaving = await one_by_one(fair, lock.acquire(), lock.acquire(timeout=30))
    (waiting,) = await one_by_one(fair, fair_lock(other).acquire())
    await closing.aclose()
    for task in leaving:
        with pytest.raises(ClientClosedError):
            await task
    assert len(await fair.queued()) == 1
    await lease.release()
    await (await waiting).release()


@pytest.mark.also("cluster")
async def test_a_hand_off_is_one_message_to_one_waiter(
    clients: ClientFactory, redis: Redis, fair: FairScripts
) -> None:
    # Waiters ask again after a third of a lease, which is longer than all this takes.
    both = [clients(lease_time=90) for _ in range(2)]
    locks = [fair_lock(client) for client in both]
    visits = Visits()
    lease = await locks[0].acquire()
    coming = [visits.visit(locks[number % 2], number) for number in range(20)]
    waiting = await one_by_one(fair, *coming)
    for client in both:
        await until_listening(client)
    wake_ups = sum(client.statistics().wake_ups for client in both)
    async with Counted(redis) as counted:
        await lease.release()
        await asyncio.gather(*waiting)
    assert visits.order == [*range(20)]
    assert counted.calls["publish"] == 20
    assert sum(client.statistics().wake_ups for client in both) == wake_ups + 20
    # Each visitor asks once more and releases; the holder released.
    assert counted.calls["evalsha"] == 41


@pytest.mark.also("cluster")
@pytest.mark.usefixtures("one_server")
async def test_redisson_hands_over_to_us_and_we_to_redisson(
    clients: ClientFactory, fair: FairScripts
) -> None:
    client = clients()
    lock = fair_lock(client)
    assert await fair.java_tries(JAVA) is None
    (waiting,) = await one_by_one(fair, lock.acquire())
    await fair.java_tries("second:1")
    await until_listening(client)
    wake_ups = client.statistics().wake_ups
    assert await fair.java_unlocks(JAVA) == 1
    lease: Lease = await waiting
    assert client.statistics().wake_ups == wake_ups + 1
    assert await fair.java_tries("second:1") is not None
    async with fair.redis.pubsub() as pubsub:
        await pubsub.subscribe(fair.channel_of("second:1"))
        await lease.release()
        async with asyncio.timeout(30):
            while (message := await pubsub.get_message(timeout=1)) is None or message[
                "type"
            ] != "message":
                pass
    assert message["data"] == b"0"
    assert await fair.java_tries("second:1") is None
    await fair.java_unlocks("second:1")


#: Long enough for waiters to stay alive on a busy machine.
LEASE = 3.0


# Weakness 18: a dead head blocks the queue for minutes.


async def test_dead_heads_are_passed_over_after_one_lease(
    clients: ClientFactory,
    proxy: ProxyFactory,
    fair: FairScripts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_safety_poll(monkeypatch, 60)
    link = await proxy()
    # The living one asks again a third of its lease later.
    far, near = clients(link.url, lease_time=LEASE), clients(lease_time=90)
    lease = await fair_lock(near).acquire()
    gone = await one_by_one(fair, *(fair_lock(far).acquire() for _ in range(3)))
    (waiting,) = await one_by_one(fair, fair_lock(near).acquire())
    await until_listening(near)
    die(link)
    await lease.release()
    # Redisson's moments are five minutes away and more.
    assert min((await fair.moments()).values()) > WAIT
    async with asyncio.timeout(20):  # sooner than any poll
        lease = await waiting
    assert await fair.queued() == []
    for task in gone:
        task.cancel()
    await asyncio.wait(gone)
    link.pass_through()
    await answered(far)
    await lease.release()


# Weakness 19: waiters behind a dead head ask without pause.


async def test_behind_the_head_of_a_free_lock_nobody_asks_without_pause(
    clients: ClientFactory, redis: Redis, fair: FairScripts
) -> None:
    await fair.acquire(JAVA)
    await fair.java_tries("dead:1")
    await fair.release(JAVA)
    client = clients()
    waiting = await one_by_one(fair, *(fair_lock(client).acquire() for _ in range(5)))
    await until_listening(client)
    async with Counted(redis) as counted:
        # Redisson would ask some thousand times; the loop's shortest pause makes it 25.
        await asyncio.sleep(0.25)
    assert counted.calls.get("evalsha", 0) == 0
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    await fair.leave("dead:1")
    await answered(client)


# The order, and the queue.


async def test_leases_that_nobody_releases_end_in_the_order_of_the_queue(
    clients: ClientFactory, fair: FairScripts
) -> None:
    # testLeaseTimeout
    locks = [fair_lock(clients()) for _ in range(2)]
    order: list[int] = []

    async def take(number: int) -> None:
        lease = await locks[number % 2].try_acquire(timeout=30, lease_time=1)
        assert lease is not None
        order.append(number)

    async with fair_lock(clients()):
        tasks = await one_by_one(fair, *(take(number) for number in range(4)))
    await asyncio.gather(*tasks)
    assert order == [*range(4)]


async def test_a_mapped_name_is_that_of_the_queue_too(clients: ClientFactory, redis: Redis) -> None:
    # testNameMapper
    client = clients(prefix="app:")
    fair = await server_side(redis, "app:k")
    async with fair_lock(client):
        (waiting,) = await one_by_one(fair, fair_lock(client).acquire())
        keys = {b"app:k", b"redisson_lock_queue:{app:k}", b"redisson_lock_timeout:{app:k}"}
        assert keys <= {*await redis.keys()}
    await (await waiting).release()
    assert await nothing_left(fair)


@pytest.mark.more
async def test_a_timed_wait_on_a_server_that_does_not_answer_leaves_no_entry(
    clients: ClientFactory, fair: FairScripts
) -> None:
    # testAcquireFailedNotCalledOnRedisTimeout
    client = clients()
    await answered(client)
    lease = await fair_lock(clients()).acquire()
    (waiting,) = await one_by_one(fair, fair_lock(client).try_acquire(timeout=2))
    await fair.redis.client_pause(2500)
    with pytest.raises(ConnectionLostError, match="no answer"):
        await waiting
    await answered(client)
    assert await fair.queued() == []
    assert await fair.moments() == await fair.alive() == {}
    await lease.release()
