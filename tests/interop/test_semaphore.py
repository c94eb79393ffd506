"""A plain semaphore that real Redisson clients and ours share: wake-ups, dead holders, deletion."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from redisson_py import LeaseLostError, Redisson, Semaphore
from tests.fixtures.client import ClientFactory
from tests.fixtures.java import JavaFactory, RedissonFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.interop.holder import holding
from tests.interop.java import JavaObject
from tests.interop.permits import NAME
from tests.interop.waits import soon, until_asleep
from tests.support.streams import answered_at
from tests.support.waiting import until, until_async, until_listening

pytestmark = pytest.mark.usefixtures("only_messages")


CHANNEL = "redisson_sc:{semaphore}"
#: Seconds: the lease of a process that renews it until it is killed.
HOLDS = 8
LEASES = "{semaphore}:redisson_py:permits"


async def theirs(redisson: JavaObject) -> JavaObject:
    return await redisson.get("getSemaphore", NAME)


async def counted(ours: Semaphore, java: JavaObject) -> int:
    """Return how many permits are free, on which both must agree."""
    free = await ours.available()
    assert await java.call("availablePermits", thread="looks on") == free
    return free


@pytest.mark.also("interop-cluster")
class TestCounting:
    async def test_what_java_holds_comes_on_top_of_a_number_that_was_set(
        self, client: Redisson, redisson: JavaObject
    ) -> None:
        ours, java = client.get_semaphore(NAME, 5), await theirs(redisson)
        permit = await ours.acquire(2)
        await ours.set_permits(4)
        assert await counted(ours, java) == 2
        await java.call("acquire")
        await ours.set_permits(6)
        assert await counted(ours, java) == 4
        await java.call("release")
        await permit.release()
        assert await counted(ours, java) == 7


@pytest.mark.also("interop-cluster")
class TestWakeUps:
    @pytest.mark.parametrize(
        "way", ["permit", "release", "add_permits", "set_permits", "try_set_permits"]
    )
    async def test_java_is_woken_by_whatever_python_frees(
        self, client: Redisson, redisson: JavaObject, way: str
    ) -> None:
        ours, java = client.get_semaphore(NAME), await theirs(redisson)
        if way != "try_set_permits":
            await ours.try_set_permits(1)
            permit = await ours.acquire()
        waiting = java.call("acquire", thread="a")
        await until_asleep(java, "a")
        if way == "permit":
            await permit.release()
        else:
            await getattr(ours, way)(2 if way == "set_permits" else 1)
        await soon(waiting)
        assert await counted(ours, java) == 0
        if way in ("add_permits", "set_permits"):
            await permit.release()

    async def test_a_waiter_for_three_permits_waits_until_three_are_free(
        self, client: Redisson, redisson: JavaObject
    ) -> None:
        ours, java = client.get_semaphore(NAME, 3), await theirs(redisson)
        permits = [await ours.acquire() for _ in range(3)]
        waiting = java.call("acquire", 3, thread="a")
        await until_asleep(java, "a")
        for permit in permits:
            assert not waiting.done()
            await permit.release()
        await soon(waiting)
        mine = asyncio.create_task(ours.acquire(3))
        await until_listening(client)
        wake_ups = client.statistics().wake_ups
        await java.call("release")
        await java.call("release")
        await until(lambda: client.statistics().wake_ups > wake_ups)
        await until_listening(client)
        assert not mine.done()
        await java.call("release")
        await (await soon(mine)).release()

    @pytest.mark.parametrize("java_releases", [True, False])
    async def test_one_release_wakes_both(
        self, client: Redisson, redissons: RedissonFactory, java_releases: bool
    ) -> None:
        ours, java = client.get_semaphore(NAME), await theirs(await redissons())
        other = await theirs(await redissons())
        await other.call("trySetPermits", 0)
        waiting = java.call("acquire", thread="a")
        await until_asleep(java, "a")
        mine = asyncio.create_task(ours.acquire())
        await until_listening(client)
        await (other.call("release", 2) if java_releases else ours.add_permits(2))
        await soon(waiting)
        await (await soon(mine)).release()
        assert await counted(ours, java) == 1


@pytest.mark.also("interop-cluster")
class TestGivingUp:
    async def test_a_task_that_is_cancelled_when_it_is_granted_passes_it_on(
        self,
        client: Redisson,
        clients: ClientFactory,
        redisson: JavaObject,
        proxy: ProxyFactory,
    ) -> None:
        link, java, ours = await proxy(NAME), await theirs(redisson), client.get_semaphore(NAME, 1)
        far = clients(link.url)
        await ours.available()
        await answered_at(far, NAME)
        link.black_hole("down")
        mine = asyncio.create_task(far.get_semaphore(NAME).acquire())

        async def granted() -> bool:
            return await ours.available() == 0

        await until_async(granted)
        waiting = java.call("acquire", thread="a")
        await until_asleep(java, "a")
        mine.cancel()
        with pytest.raises(asyncio.CancelledError):
            await mine
        await soon(waiting)
        link.cut()
        link.pass_through()
        assert await counted(ours, java) == 0


async def until_ended(redis: Redis) -> None:
    """Return when the lease of everybody of ours is over, by the server's clock."""

    async def has_ended() -> bool:
        seconds, micros = await redis.time()
        present = seconds * 1000 + micros // 1000
        return await redis.zcount(LEASES, present + 1, "inf") == 0

    assert await redis.zcard(LEASES)
    await until_async(has_ended)


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
            await until_ended(redis)
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
