"""A plain semaphore that is shared with Redisson: dead holders, counts below zero, deletion."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from redisson_py import LeaseLostError, Redisson
from tests.fixtures.client import ClientFactory
from tests.fixtures.java import JavaFactory
from tests.interop.holder import holding
from tests.interop.java import JavaObject
from tests.interop.permits import NAME
from tests.interop.waits import only_messages_wake, soon, until_asleep
from tests.support.waiting import until_async, until_listening

#: Seconds: the lease of a process that renews it until it is killed.
HOLDS = 8
LEASES = "{semaphore}:redisson_py:permits"


@pytest.fixture(autouse=True)
def _no_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    only_messages_wake(monkeypatch)


async def theirs(redisson: JavaObject) -> JavaObject:
    return await redisson.get("getSemaphore", NAME)


async def until_over(redis: Redis) -> None:
    """Return when the lease of everybody of ours is over, by the server's clock."""

    async def over() -> bool:
        seconds, micros = await redis.time()
        present = seconds * 1000 + micros // 1000
        return await redis.zcount(LEASES, present + 1, "inf") == 0

    assert await redis.zcard(LEASES)
    await until_async(over)


class TestDeadHolders:
    async def test_a_waiting_task_returns_permits_of_a_dead_process_to_threads_too(
        self, client: Redisson, redisson: JavaObject, server_url: str
    ) -> None:
        ours, java = client.get_semaphore(NAME), await theirs(redisson)
        await java.call("trySetPermits", 2)
        async with holding(HOLDS, ["two units"], server_url) as process:
            waiting = java.call("acquire", thread="a")
            await until_asleep(java, "a")
            mine = asyncio.create_task(ours.acquire())
            await until_listening(client)
            process.kill()
            await soon(waiting)
            await (await soon(mine)).release()
        assert await java.call("availablePermits") == 1

    async def test_where_nobody_of_ours_asks_it_comes_back_when_somebody_does(
        self, client: Redisson, redisson: JavaObject, redis: Redis, server_url: str
    ) -> None:
        """Redisson knows of no leases, and a waiting thread of no other wake-up than a message."""
        ours, java = client.get_semaphore(NAME), await theirs(redisson)
        await java.call("trySetPermits", 2)
        async with holding(HOLDS, ["two units"], server_url) as process:
            waiting = java.call("acquire", thread="a")
            await until_asleep(java, "a")
            process.kill()
            await until_over(redis)
            assert await java.call("availablePermits") == 0
            assert await java.call("tryAcquire") is False
            # Any question will do.
            assert await ours.available() == 2
            await soon(waiting)
        assert await java.call("availablePermits") == await ours.available() == 1

    async def test_what_a_dead_java_process_had_is_gone_as_with_redisson(
        self, client: Redisson, start_java: JavaFactory, server_url: str
    ) -> None:
        ours = client.get_semaphore(NAME, 2)
        machine = start_java()
        dead = await theirs(await machine.connect(server_url))
        permit = await ours.acquire()
        await dead.call("acquire")
        machine.kill()
        assert await ours.try_acquire() is None
        snapshot = await ours.inspect()
        assert [each.owner for each in snapshot.holders] == [permit.owner]
        await permit.release()
        assert await ours.available() == 1
        # Whoever knows better says so.
        await ours.add_permits(1)
        assert await ours.available() == 2


class TestBelowZero:
    @pytest.mark.parametrize("java_reduces", [True, False])
    async def test_releases_fill_it_up_before_anybody_gets_in(
        self, clients: ClientFactory, redisson: JavaObject, java_reduces: bool
    ) -> None:
        # What is released must not be passed on here, past the counter.
        client = clients(turn=0)
        ours, java = client.get_semaphore(NAME, 2), await theirs(redisson)
        permit = await ours.acquire()
        await java.call("acquire")
        mine = asyncio.create_task(ours.acquire())
        await until_listening(client)
        if java_reduces:
            # A negative message; and again with the release.
            await java.call("addPermits", -5)
            await java.call("release")
        waiting = java.call("acquire", thread="a")
        await until_asleep(java, "a")
        if not java_reduces:
            await ours.add_permits(-5)
            await ours.add_permits(1)
        assert await ours.available() == await java.call("availablePermits") == -4
        await permit.release()
        await ours.add_permits(3)
        assert await ours.available() == await java.call("availablePermits") == 0
        assert not mine.done()
        assert not waiting.done()
        await ours.add_permits(2)
        await soon(waiting)
        await (await soon(mine)).release()
        assert await ours.available() == await java.call("availablePermits") == 1


class TestManyPermits:
    @pytest.mark.parametrize("permits", [2**31, 2**32, 2**53 - 2])
    async def test_more_than_java_can_count_wake_java_all_the_same(
        self, client: Redisson, redisson: JavaObject, permits: int
    ) -> None:
        ours, java = client.get_semaphore(NAME, 0), await theirs(redisson)
        await ours.available()
        waiting = java.call("acquire", thread="a")
        await until_asleep(java, "a")
        await ours.add_permits(permits)
        await soon(waiting)


class TestDeletion:
    async def test_what_was_taken_from_a_deleted_one_is_void(
        self, client: Redisson, redisson: JavaObject
    ) -> None:
        ours, java = client.get_semaphore(NAME, 3), await theirs(redisson)
        permits = [await ours.acquire(), await ours.acquire()]
        assert await java.call("delete") is True
        assert await ours.available() == await java.call("availablePermits") == 0
        with pytest.raises(LeaseLostError):
            await permits[0].release()
        # One of ours that makes it again gets what it says.
        await ours.add_permits(2)
        assert await ours.available() == await java.call("availablePermits") == 2
        with pytest.raises(LeaseLostError):
            await permits[1].release()
        assert await java.call("availablePermits") == 2

    async def test_one_that_redisson_makes_again_gets_what_is_out_on_top(
        self, client: Redisson, redisson: JavaObject
    ) -> None:
        ours, java = client.get_semaphore(NAME, 3), await theirs(redisson)
        permit = await ours.acquire(2)
        await java.call("delete")
        assert await java.call("trySetPermits", 3) is True
        await permit.release()
        assert await ours.available() == await java.call("availablePermits") == 5
