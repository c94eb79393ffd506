"""What is special about the fair lock: the order, whatever becomes of those who wait."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from redisson_py import AcquireTimeoutError, ClientClosedError, FairLock, Lease, Redisson
from redisson_py._engine import bus
from redisson_py._time import now
from tests.fixtures.client import ClientFactory, assert_idle
from tests.fixtures.redis_server import ProxyFactory
from tests.support.counting import Counted
from tests.support.fair_locks import (
    JAVA,
    die,
    fair_lock,
    nothing_left,
    one_by_one,
    until_queued,
)
from tests.support.scripts.fair import WAIT, FairScripts
from tests.support.streams import answered
from tests.support.waiting import set_safety_poll, until, until_async, until_listening

pytestmark = pytest.mark.also("cluster")

#: Long enough for waiters to stay alive on a busy machine.
LEASE = 3.0


class Visits:
    """Who was in the critical section, in order."""

    def __init__(self) -> None:
        self.order: list[int] = []

    async def visit(self, lock: FairLock, number: int, timeout: float | None = None) -> None:
        async with lock.hold(timeout=timeout):
            self.order.append(number)


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


async def test_a_client_that_comes_again_and_again_is_served_once_a_round(
    clients: ClientFactory, fair: FairScripts
) -> None:
    locks = [fair_lock(clients()) for _ in range(3)]
    order: list[int] = []

    async def come_back(number: int) -> None:
        for _ in range(5):
            async with locks[number]:
                order.append(number)
                # The others are back in the queue before this one leaves.
                await until_queued(fair, min(2, 15 - len(order)))

    async with locks[0]:
        waiting = await one_by_one(fair, *(come_back(number) for number in range(3)))
    await asyncio.gather(*waiting)
    assert order[:12] == [0, 1, 2] * 4


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


@pytest.mark.parametrize("timeout", [20, 1e18])
async def test_the_queue_is_told_how_long_one_waits(
    clients: ClientFactory, fair: FairScripts, timeout: float
) -> None:
    lock = fair_lock(clients())
    async with lock:
        began = now()
        waiting = await one_by_one(fair, lock.acquire(), lock.acquire(timeout=timeout))
        first, second = await fair.queued()
        moments = await fair.moments()
        # However long all that took here.
        since = 1000 * (now() - began)
        # The first has what every waiter has at least; each other its own wait more.
        assert -2000 - since < moments[first] - (WAIT + 30_000) < 2000
        told = moments[second] - moments[first]
        assert -2000 - since < told - min(timeout, 366 * 86_400) * 1000 < 2000
    for task in waiting:
        await (await task).release()


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


async def test_who_waits_again_soon_asks_once_less_and_subscribes_no_more(
    clients: ClientFactory, redis: Redis, fair: FairScripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus, "LINGER", 1000.0)
    locks = [fair_lock(clients(lease_time=90)) for _ in range(4)]
    visits = Visits()
    for _ in range(2):
        async with Counted(redis) as counted:
            async with locks[3]:
                coming = [visits.visit(locks[number % 3], number) for number in range(6)]
                waiting = await one_by_one(fair, *coming)
            await asyncio.gather(*waiting)
    assert visits.order == 2 * [*range(6)]
    assert counted.calls.keys() & {"subscribe", "unsubscribe"} == set()
    # Each asks when it comes and when it is called, and releases; before they came another had it.
    assert counted.calls["evalsha"] == 6 * 3 + 2
    assert await nothing_left(fair)


async def test_one_waits_under_the_name_of_another_of_its_client_that_holds_by_now(
    clients: ClientFactory, redis: Redis, fair: FairScripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus, "LINGER", 1000.0)
    keeper, lock = (fair_lock(clients(lease_time=90)) for _ in range(2))
    async with keeper:
        first = asyncio.create_task(lock.acquire())
        await until_queued(fair, 1)
    lease = await first
    second = asyncio.create_task(lock.acquire())
    await until_queued(fair, 1)
    assert await redis.lrange(fair.queue, 0, -1) == await redis.hkeys("k")
    async with Counted(redis) as counted:
        await lease.release()
        await (await second).release()
    # The release leaves the place in the queue alone: who waits there is called, and asks once.
    assert counted.calls["evalsha"] == 3
    assert await nothing_left(fair)


async def test_a_waiter_that_a_reconnection_caught_is_queued_once(
    clients: ClientFactory, proxy: ProxyFactory, fair: FairScripts
) -> None:
    link = await proxy()
    holder, far = clients(), clients(link.url)
    await answered(far)
    lease = await fair_lock(holder).acquire()
    connections = far.statistics().connections
    link.cut_after_execution(b"EVALSHA")
    (waiting,) = await one_by_one(fair, fair_lock(far).acquire())
    await until(lambda: far.statistics().connections == connections + 1)
    await until_listening(far)
    assert len(await fair.queued()) == 1
    await lease.release()
    await (await waiting).release()


async def test_leaving_is_told_although_the_question_was_lost(
    clients: ClientFactory, proxy: ProxyFactory, fair: FairScripts
) -> None:
    link = await proxy()
    far = clients(link.url)
    await answered(far)
    async with fair_lock(clients()):
        link.hold()
        waiting = asyncio.create_task(fair_lock(far).acquire())
        await until(lambda: link.held)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert_idle(far)
        link.release_held()
        await answered(far)
        assert await fair.queued() == []


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


async def test_a_waiter_cut_off_for_longer_than_its_lease_is_queued_again_last(
    clients: ClientFactory, proxy: ProxyFactory, fair: FairScripts
) -> None:
    link = await proxy()
    far, near = clients(link.url, lease_time=LEASE), clients()
    visits = Visits()
    lease = await fair_lock(near).acquire()
    (cut_off,) = await one_by_one(fair, visits.visit(fair_lock(far), 1))
    (other,) = await one_by_one(fair, visits.visit(fair_lock(near), 2))
    die(link)
    first, _ = await fair.queued()

    async def counts_as_dead() -> bool:
        return (await fair.alive())[first] < 0

    await until_async(counts_as_dead)
    await lease.release()
    await other
    assert visits.order == [2]
    link.pass_through()
    await cut_off
    assert visits.order == [2, 1]
