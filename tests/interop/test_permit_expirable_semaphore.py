"""A semaphore of permits with ids that real Redisson clients and ours share, and their leases."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import (
    LeaseLostError,
    NotHeldError,
    PermitExpirableSemaphore,
    Redisson,
)
from tests.fixtures.client import ClientFactory
from tests.fixtures.java import JavaFactory
from tests.interop.holder import holding
from tests.interop.java import MS, Java, JavaError, JavaObject
from tests.interop.permits import LASTING, LONG, NAME, UNKNOWN, counted, from_java
from tests.interop.waits import soon, until_asleep
from tests.support.waiting import until, until_listening

pytestmark = pytest.mark.usefixtures("only_messages")


@pytest.fixture
def ours(client: Redisson) -> PermitExpirableSemaphore:
    """The semaphore, as Python has it."""
    return client.get_permit_expirable_semaphore(NAME)


@pytest_asyncio.fixture
async def theirs(redisson: JavaObject) -> AsyncIterator[JavaObject]:
    """The semaphore, as Java has it; deleted in the end, because permits of Java may last."""
    semaphore = await from_java(redisson)
    yield semaphore
    await semaphore.call("delete", thread="ends")


@pytest.mark.also("interop-cluster")
class TestIds:
    async def test_a_permit_of_java_is_looked_up_lengthened_and_released_in_python(
        self, ours: PermitExpirableSemaphore, theirs: JavaObject
    ) -> None:
        await theirs.call("trySetPermits", 2)
        permit = await theirs.call("acquire", LONG, MS)
        assert 0 < await ours.lease_time(permit) <= LASTING
        assert await ours.update_lease_time(permit, 10 * LASTING) is True
        assert LASTING < await ours.lease_time(permit) <= 10 * LASTING
        never = await theirs.call("acquire")
        assert await ours.lease_time(never) == math.inf
        assert await counted(ours, theirs) == (0, 2)
        await ours.release(permit)
        assert await ours.try_release(never) is True
        assert await counted(ours, theirs) == (2, 0)
        assert await theirs.call("tryRelease", permit) is False
        with pytest.raises(JavaError):
            await theirs.call("release", never)
        with pytest.raises(NotHeldError):
            await ours.release(permit)

    async def test_a_permit_of_python_is_lengthened_and_released_in_java(
        self, client: Redisson, ours: PermitExpirableSemaphore, theirs: JavaObject
    ) -> None:
        await ours.try_set_permits(3)
        first, second = await ours.acquire_many(2, lease_time=LASTING)
        third = await ours.acquire(lease_time=LASTING)
        assert await theirs.call("updateLeaseTime", first.id, 10 * LONG, MS) is True
        assert LASTING < await ours.lease_time(first) <= 10 * LASTING
        await theirs.call("release", first.id)
        assert await theirs.call("tryRelease", second.id) is True
        assert await theirs.call("tryRelease", second.id.upper()) is False
        assert await theirs.call("updateLeaseTime", third.id, -1, MS) is True
        assert await ours.lease_time(third) == math.inf
        await theirs.call("release", third.id)
        assert await counted(ours, theirs) == (3, 0)
        for permit in (first, second, third):
            with pytest.raises(LeaseLostError):
                await permit.release()
        assert await counted(ours, theirs) == (3, 0)

    async def test_several_at_once_across(
        self, ours: PermitExpirableSemaphore, theirs: JavaObject, java: Java
    ) -> None:
        await theirs.call("trySetPermits", 6)
        far = await theirs.call("acquire", 3)
        near = [permit.id for permit in await ours.acquire_many(2, lease_time=LASTING)]
        assert await theirs.call("tryAcquire", 2) == []
        assert await ours.try_acquire_many(2) is None
        assert await counted(ours, theirs) == (1, 5)
        if java.since(3, 41):
            # All or none, on both sides; releases before gave back those that were there.
            assert await theirs.call("tryRelease", [near[0], UNKNOWN]) == 0
        assert await ours.try_release_many([far[0], UNKNOWN]) == 0
        with pytest.raises(NotHeldError):
            await ours.release_many([far[0], UNKNOWN])
        assert await counted(ours, theirs) == (1, 5)
        await ours.release_many([*far[:2], near[0]])
        assert await counted(ours, theirs) == (4, 2)
        assert await theirs.call("tryRelease", [near[1], far[2]]) == 2
        assert await ours.try_release(near[1]) is False
        assert await counted(ours, theirs) == (6, 0)


@pytest.mark.also("interop-cluster")
class TestCounting:
    @pytest.mark.parametrize("java_reduces", [True, False])
    async def test_below_zero_nobody_gets_in_until_enough_came_back(
        self,
        client: Redisson,
        ours: PermitExpirableSemaphore,
        theirs: JavaObject,
        java_reduces: bool,
    ) -> None:
        await ours.try_set_permits(2)
        far, near = await theirs.call("acquire"), await ours.acquire()
        mine = asyncio.create_task(ours.acquire())
        await until_listening(client)
        if java_reduces:
            await theirs.call("addPermits", -2)
            # A negative message: a release that stays below zero.
            await theirs.call("release", far)
        waiting = theirs.call("acquire", LONG, MS, thread="a")
        await until_asleep(theirs, "a")
        if not java_reduces:
            await ours.add_permits(-2)
            await ours.release(far)
        assert await counted(ours, theirs) == (-1, 1)
        await near.release()
        assert await counted(ours, theirs) == (0, 0)
        assert not mine.done()
        assert not waiting.done()
        await ours.set_permits(2)
        await theirs.call("release", await soon(waiting))
        await (await soon(mine)).release()
        assert await counted(ours, theirs) == (2, 0)


@pytest.mark.also("interop-cluster")
class TestWakeUps:
    @pytest.mark.parametrize("way", ["permit", "id", "many", "add_permits", "set_permits"])
    async def test_java_is_woken_by_whatever_python_frees(
        self, ours: PermitExpirableSemaphore, theirs: JavaObject, way: str
    ) -> None:
        await ours.try_set_permits(1)
        permit = await ours.acquire()
        waiting = theirs.call("acquire", LONG, MS, thread="a")
        await until_asleep(theirs, "a")
        match way:
            case "permit":
                await permit.release()
            case "id":
                await ours.release(permit.id)
            case "many":
                await ours.release_many([permit])
            case _:
                await getattr(ours, way)(2 if way == "set_permits" else 1)
        assert len(await soon(waiting)) == 32
        await ours.try_release(permit)


class TestLeases:
    @pytest.mark.parametrize("java_holds", [True, False])
    async def test_a_waiter_acquires_when_a_lease_ends(
        self,
        client: Redisson,
        clients: ClientFactory,
        ours: PermitExpirableSemaphore,
        theirs: JavaObject,
        java_holds: bool,
    ) -> None:
        await ours.try_set_permits(1)
        if java_holds:
            gone = await theirs.call("acquire", 300, MS)
        else:
            held = await clients().get_permit_expirable_semaphore(NAME).acquire(lease_time=3)
            gone = held.id
        if java_holds:
            await (await soon(ours.acquire())).release()
        else:
            await theirs.call("release", await soon(theirs.call("acquire", LONG, MS)))
        assert await theirs.call("tryRelease", gone) is False
        assert await ours.try_release(gone) is False
        assert await ours.update_lease_time(gone, 60) is False
        assert await theirs.call("updateLeaseTime", gone, LONG, MS) is False
        with pytest.raises(NotHeldError):
            await ours.release(gone)
        if not java_holds:
            await until(lambda: held.lost)
        assert await counted(ours, theirs) == (1, 0)

    async def test_a_dead_process_gives_its_permits_back_within_a_lease_to_a_thread(
        self, redis: Redis, ours: PermitExpirableSemaphore, theirs: JavaObject, server_url: str
    ) -> None:
        """Redisson knows these leases: nobody of ours need be there."""
        await theirs.call("trySetPermits", 2)
        async with holding(8, ["two permits"], server_url) as process:
            waiting = theirs.call("acquire", 2, LONG, MS, thread="a")
            await until_asleep(theirs, "a")
            process.kill()
            await theirs.call("release", await soon(waiting))
        assert await counted(ours, theirs) == (2, 0)

    async def test_permits_of_a_dead_java_process_return_by_lease_end_or_by_id(
        self, ours: PermitExpirableSemaphore, start_java: JavaFactory, server_url: str
    ) -> None:
        await ours.try_set_permits(2)
        machine = start_java()
        dead = await from_java(await machine.connect(server_url))
        lasting = await dead.call("acquire")
        ending = await dead.call("acquire", 600, MS)
        waiting = asyncio.create_task(ours.acquire())
        machine.kill()
        await (await soon(waiting)).release()
        assert await ours.try_release(ending) is False
        assert (await ours.available(), await ours.acquired()) == (1, 1)
        await ours.release(lasting)
        assert await ours.available() == 2
