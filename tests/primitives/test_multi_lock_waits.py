"""A MultiLock that waits for a member while it holds others: for a limited time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py._engine.task_ownership import TaskOwnership
from redisson_py.composite import _identity, multi_lock
from redisson_py.testing import EmbeddedServer
from tests.fixtures.client import ClientFactory
from tests.fixtures.fleet import Fleet
from tests.fixtures.redis_server import PASSWORD, ServerFactory, documented_rules, url_of_user
from tests.support.monitor import Monitor, words
from tests.support.streams import answered
from tests.support.waiting import until, until_async

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


async def test_it_keeps_its_place_in_a_queue_that_is_longer_than_its_limit(
    client: Redisson, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multi_lock, "_FIRST_WAIT", 0.02)
    monkeypatch.setattr(multi_lock, "_LONGEST_WAIT", 0.02)
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

    monkeypatch.setattr(multi_lock, "_LONGEST_PAUSE", 0.0)
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
    monkeypatch.setattr(multi_lock, "_CONTENDED", 60.0)
    client, other = clients(), clients()
    lock = client.get_multi_lock(*[client.get_lock(name) for name in "abc"])
    async with other.get_lock("a"):
        assert await lock.locked()  # connecting counts
        assert await lock.try_acquire(timeout=0.5) is None
        async with Monitor(redis) as monitor:
            assert await lock.try_acquire(timeout=0.5) is None
            scripts = [words(line) for line in await monitor.lines() if b'"EVALSHA"' in line]
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
        assert [_identity.run_id(owner) for owner in owners] == [None, None]
        assert not any(_identity.is_stranger(owner) for owner in owners)
    finally:
        for client in made:
            await client.aclose()
        for redis in fleet.redis[:2]:
            await redis.acl_deluser("poor")


async def test_members_of_one_name_are_sorted_as_in_every_other_process(fleet: Fleet) -> None:
    """By what the servers call themselves, however their addresses are spelt."""
    first = fleet.clients(2)
    second = [
        Redisson.from_url(server.url.replace("127.0.0.1", "localhost"))
        for server in fleet.servers[:2]
    ]
    fleet.made += second
    mixed = [[first[0], second[1]], [second[0], first[1]]]
    orders = []
    for clients in mixed:
        lock = clients[0].get_multi_lock(*[client.get_lock("k") for client in clients])
        async with lock:
            pass
        owners: Any = [member._ownership for member in lock._members]
        orders.append([_identity.run_id(owner) for owner in owners])
    assert orders[0] == orders[1]
    assert None not in orders[0]
