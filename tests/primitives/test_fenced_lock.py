"""FencedLock: its tokens."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from redisson_py import FencedLease, Lease, Redisson
from tests.fixtures.client import ClientFactory
from tests.support.waiting import until_waiting

COUNTER = "redisson_lock_token:{k}"


async def test_passed_holds_get_tokens_of_their_own(clients: ClientFactory) -> None:
    client, other = clients(), clients()
    tokens: list[int] = []

    async def work(which: Redisson) -> None:
        async with which.get_fenced_lock("k") as lease:
            assert lease.token is not None
            tokens.append(lease.token)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        for number in range(300):
            group.create_task(work(client if number % 2 else other))
    # In the order in which the sections ran, across both clients.
    assert tokens == sorted(set(tokens))
    assert len(tokens) == 300


async def test_inspect_names_the_counter(client: Redisson) -> None:
    assert (await client.get_fenced_lock("k").inspect()).keys == ("k", COUNTER)


async def test_every_way_gives_a_fenced_lease(client: Redisson) -> None:
    lock = client.get_fenced_lock("k")
    tried = await lock.try_acquire()
    assert isinstance(tried, FencedLease)
    waiting = asyncio.create_task(lock.acquire())
    await until_waiting(client, 1)
    await tried.release()
    passed = await waiting
    assert isinstance(passed, FencedLease)
    assert passed.token > tried.token
    await passed.release()
    async with lock as outer, lock as again, lock.hold(timeout=30, lease_time=9) as inner:
        assert {type(lease) for lease in (outer, again, inner)} == {FencedLease}
        assert isinstance(outer, Lease)
        assert inner.token == again.token == outer.token > passed.token
    async with client.get_lock("k") as plain:
        assert not isinstance(plain, FencedLease)
        assert plain.token is None


async def test_a_plain_lock_has_no_token_to_give(client: Redisson) -> None:
    plain, fenced = client.get_lock("k"), client.get_fenced_lock("k")
    async with plain:
        sent = client.statistics().commands_sent
        for enter in (fenced.acquire, fenced.try_acquire):
            with pytest.raises(RuntimeError, match="no fencing token"):
                await enter()
        assert client.statistics().commands_sent == sent
    async with fenced as outer, plain as inner:
        assert inner.token == outer.token


async def test_token_grows_although_the_counter_was_lost(client: Redisson, redis: Redis) -> None:
    lock = client.get_fenced_lock("k")
    async with lock as before:
        pass
    await redis.delete(COUNTER)
    async with lock as after:
        assert before.token is not None
        assert after.token is not None
        assert after.token > before.token
