"""A plain semaphore that real Redisson clients and ours share."""

from __future__ import annotations

import asyncio

import pytest

from redisson_py import Redisson, Semaphore
from tests.fixtures.client import ClientFactory
from tests.fixtures.java import RedissonFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.interop.java import Java, JavaObject
from tests.interop.permits import NAME
from tests.interop.waits import only_messages_wake, soon, until_asleep
from tests.support.streams import answered_at
from tests.support.waiting import until, until_async, until_listening

pytestmark = pytest.mark.also("interop-cluster")

CHANNEL = "redisson_sc:{semaphore}"


@pytest.fixture(autouse=True)
def _no_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    only_messages_wake(monkeypatch)


async def theirs(redisson: JavaObject) -> JavaObject:
    return await redisson.get("getSemaphore", NAME)


async def counted(ours: Semaphore, java: JavaObject) -> int:
    """Return how many permits are free, on which both must agree."""
    free = await ours.available()
    assert await java.call("availablePermits", thread="looks on") == free
    return free


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

    @pytest.mark.parametrize("way", ["release", "addPermits", "trySetPermits", "releaseIfExists"])
    async def test_python_is_woken_by_whatever_java_frees(
        self, client: Redisson, redisson: JavaObject, java: Java, way: str
    ) -> None:
        if way == "releaseIfExists" and not java.since(4, 0):
            pytest.skip(f"Redisson {java.release} has no releaseIfExists")
        ours, far = client.get_semaphore(NAME), await theirs(redisson)
        if way != "trySetPermits":
            await far.call("trySetPermits", 1)
            await far.call("acquire")
        waiting = asyncio.create_task(ours.acquire())
        await until_listening(client)
        await far.call(way, 1)
        permit = await soon(waiting)
        assert await counted(ours, far) == 0
        await permit.release()

    async def test_a_thread_that_waits_for_a_deleted_one_waits_for_the_next(
        self, client: Redisson, redisson: JavaObject
    ) -> None:
        ours, java = client.get_semaphore(NAME), await theirs(redisson)
        await ours.try_set_permits(0)
        waiting = java.call("acquire", thread="a")
        await until_asleep(java, "a")
        assert await ours.delete()
        await until_asleep(java, "a")
        assert not waiting.done()
        await ours.try_set_permits(1)
        await soon(waiting)
        assert await counted(ours, java) == 0

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
