"""A fair lock's waiters that die, that live long, and neighbours of Redisson's.

The weaknesses of Redisson's queue that this one does not have: numbers as in parity.md, part 2.
"""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.counting import Counted
from tests.support.fair_locks import JAVA, die, fair_lock, one_by_one
from tests.support.scripts.fair import WAIT, FairScripts
from tests.support.streams import answered
from tests.support.waiting import set_safety_poll, until_async, until_listening

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


async def test_a_dead_redisson_waiter_is_passed_over_after_its_timeout(
    clients: ClientFactory, fair: FairScripts
) -> None:
    await fair.acquire(JAVA)
    await fair.java_tries("dead:1")
    lock = fair_lock(clients(lease_time=LEASE))
    (waiting,) = await one_by_one(fair, lock.acquire())
    await fair.set_moment("dead:1", 300)
    await fair.release(JAVA)
    lease = await waiting
    assert await fair.queued() == []
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


# Weakness 20: living waiters are evicted.


async def test_a_live_waiter_keeps_its_place_for_more_than_five_minutes(
    clients: ClientFactory, fair: FairScripts
) -> None:
    client = clients(lease_time=LEASE)
    await fair.acquire(JAVA)
    (waiting,) = await one_by_one(fair, fair_lock(client).acquire())
    await fair.java_tries("behind:1")
    mine = (await fair.queued())[0]
    for _ in range(3):
        # Five minutes pass: all moments come nearer by that.
        for owner, left in (await fair.moments()).items():
            await fair.set_moment(owner, left - WAIT)

        async def has_asked() -> bool:
            return (await fair.moments())[mine] >= WAIT

        await until_async(has_asked)
        await fair.java_tries("newcomer:1")
        assert (await fair.queued())[0] == mine, "evicted though alive"
    await fair.java_unlocks(JAVA)
    await (await waiting).release()
    for owner in await fair.queued():
        await fair.leave(owner)


@pytest.mark.more
async def test_a_live_waiter_outlives_its_own_lease_behind_an_idle_head(
    clients: ClientFactory, fair: FairScripts
) -> None:
    await fair.acquire(JAVA)
    await fair.java_tries("slow:1")
    await fair.release(JAVA)
    client, other = clients(lease_time=LEASE), clients(lease_time=LEASE)
    first, second = await one_by_one(fair, fair_lock(client).acquire(), fair_lock(other).acquire())
    queued = await fair.queued()
    await fair.set_moment("slow:1", 1000 * 1.2 * LEASE)
    lease = await first
    assert await fair.queued() == queued[2:]
    assert not second.done()
    await lease.release()
    await (await second).release()


# Weakness 24: an abandoned queue stays for ever.


@pytest.mark.more
async def test_an_abandoned_queue_is_gone_when_the_lock_is_used_a_lease_later(
    clients: ClientFactory, proxy: ProxyFactory, fair: FairScripts
) -> None:
    link = await proxy()
    far, near = clients(link.url, lease_time=LEASE), clients()
    lock = fair_lock(far)
    lease = await fair_lock(near).acquire()
    gone = await one_by_one(fair, *(lock.acquire() for _ in range(4)))
    die(link)
    for task in gone:
        task.cancel()
    await asyncio.wait(gone)
    await lease.release()

    async def all_count_as_dead() -> bool:
        return max((await fair.alive()).values()) < 0

    await until_async(all_count_as_dead)
    assert len(await fair.queued()) == 4
    async with fair_lock(near).hold(timeout=0):
        assert await fair.queued() == []
        assert not await fair.redis.exists(fair.queue, fair.timeouts, fair.waiters)
    link.pass_through()
    await answered(far)
