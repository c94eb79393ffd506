"""Leases and permits that end beside a re-entry, a loss, a deletion or a shutdown."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import Counter
from contextlib import AsyncExitStack
from types import FunctionType
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import LeaseLostError, Redisson
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.kinds import KINDS, Stage
from tests.support.waiting import until


async def test_fenced_re_entry_beside_a_release_keeps_the_token(client: Redisson) -> None:
    """The first lease is released by another task while the re-entry is on its way."""
    lock = client.get_fenced_lock("fenced")
    first = await lock.acquire()
    releasing = asyncio.create_task(first.release())
    second = await lock.acquire()
    await releasing
    assert first.token is not None
    assert second.token == first.token
    await second.release()


@pytest.mark.parametrize("kind", ["expirable_semaphore", "semaphore"])
async def test_lost_permits_are_not_kept_for_ever(
    client: Redisson, redis: Redis, kind: str
) -> None:
    """A long-lived task and many permits that end: no state may grow with their number."""
    kept: list[weakref.ref[Any]] = []
    for _ in range(2):
        permit: Any = await KINDS[kind].one(client).acquire()
        kept.append(weakref.ref(permit))
        await redis.flushall()
        with pytest.raises(LeaseLostError):
            await permit.extend(5)
        with pytest.raises(LeaseLostError):
            await permit.release()
    gc.collect()
    assert kept[0]() is None


async def test_permit_of_no_units_is_released_like_any_other(
    client: Redisson, redis: Redis
) -> None:
    """Nor is it renewed, or found abandoned again and again."""
    semaphore = client.get_semaphore("permits", 2)
    async with semaphore:
        pass
    permit = await semaphore.acquire(0)
    await permit.extend(5)
    await permit.release()
    assert not permit.lost
    async with await semaphore.acquire(0) as permit:
        assert not permit.lost
        client._watchdog.check()
    assert client.statistics().losses == 0
    assert client._watchdog._schedule.next_event() is None
    assert await semaphore.available() == 2
    await redis.delete("permits")


async def test_closing_while_a_renewal_is_unanswered_says_nothing(
    clients: ClientFactory, proxy: ProxyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = await proxy("held")
    client = clients(url=link.url, lease_time=3)
    renewals: list[object] = []
    send = client._executor.start_batch

    def counted(*args: Any, **values: Any) -> Any:
        renewals.append(None)
        return send(*args, **values)

    monkeypatch.setattr(client._executor, "start_batch", counted)
    said: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: said.append(told))
    await client.get_lock("held").acquire()
    link.black_hole("down")
    await until(lambda: renewals)
    await client.aclose()
    gc.collect()
    await asyncio.sleep(0)
    assert said == []


async def test_re_entry_of_a_deleted_lock_says_taken(client: Redisson, redis: Redis) -> None:
    lock = client.get_lock("deleted")
    first = await lock.acquire()
    await redis.delete("deleted")
    with pytest.raises(LeaseLostError) as caught:
        await lock.acquire()
    assert caught.value.reason == "taken"
    with pytest.raises(LeaseLostError):
        await first.release()


async def test_lease_pushed_on_an_exit_stack_is_released(stage: Stage) -> None:
    party = stage.party()
    async with AsyncExitStack() as stack:
        lease = await party.thing.acquire()
        stack.push_async_exit(lease)
    assert lease.remaining == 0
    await stage.assert_nothing_held(party)


async def test_multi_lock_outside_a_block_is_given_back_at_shutdown(
    server_url: str, redis: Redis
) -> None:
    """When all tasks have ended, nothing can release it any more, as with a lock."""

    async def forget_it() -> None:
        client = Redisson.from_url(server_url)
        await client.get_multi_lock(client.get_lock("one"), client.get_lock("two")).acquire()

    await asyncio.to_thread(asyncio.run, forget_it())
    assert await redis.exists("one", "two") == 0


async def test_both_leases_of_a_re_entered_multi_lock_are_told_of_the_loss(
    client: Redisson, redis: Redis
) -> None:
    """The first gives its members back while the second is still to be told."""
    both = client.get_multi_lock(client.get_lock("one"), client.get_lock("two"))
    leases = [await both.acquire() for _ in range(3)]
    await redis.delete("one")
    with pytest.raises(LeaseLostError):
        await client.get_lock("one").acquire()
    assert [lease.lost for lease in leases] == [True] * 3
    await until(lambda: client.statistics().held_leases == 0)
    for lease in leases:
        with pytest.raises(LeaseLostError):
            await lease.release()


WAITS = 1000

#: Objects that a test may leave; a leak would be one for each wait.
FEW = WAITS // 10


def objects() -> Counter[type]:
    """Count the futures and the functions that are alive; tasks are another type."""
    gc.collect()
    found: Counter[type] = Counter()
    for each in gc.get_objects():
        if type(each) in (asyncio.Future, FunctionType):
            found[type(each)] += 1
    return found


async def wait_in_vain(lease: Any, count: int) -> None:
    """Start this many concurrent waits for a loss that does not come."""
    waits = [asyncio.create_task(lease.wait_lost()) for _ in range(count)]
    await asyncio.sleep(0)
    for wait in waits:
        wait.cancel()
    outcomes = await asyncio.gather(*waits, return_exceptions=True)
    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)


@pytest.mark.parametrize("stage", ["lock", "red_lock", "semaphore"], indirect=True)
async def test_cancelled_waits_leave_nothing(stage: Stage) -> None:
    party = stage.party()
    async with party.thing as lease:
        await wait_in_vain(lease, 10)
        before = objects()
        await wait_in_vain(lease, WAITS)
        after = objects()
    assert {kind.__name__: count for kind, count in (after - before).items() if count > FEW} == {}
