"""Leases of permits that real Redisson clients and ours share, and who gives up."""

from __future__ import annotations

import asyncio
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
from tests.interop.java import MS, JavaObject
from tests.interop.permits import LEASES, LONG, NAME, counted, from_java
from tests.interop.waits import only_messages_wake, soon, until_asleep
from tests.support.waiting import until, until_async


@pytest.fixture(autouse=True)
def _no_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    only_messages_wake(monkeypatch)


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

    async def test_a_permit_that_the_watchdog_renews_stays_taken_for_java(
        self, clients: ClientFactory, redis: Redis, theirs: JavaObject
    ) -> None:
        holder = clients(lease_time=12)
        ours = holder.get_permit_expirable_semaphore(NAME, 1)
        permit = await ours.acquire()
        first_end = await redis.zscore(LEASES, bytes.fromhex(permit.id))
        assert first_end is not None
        waiting = theirs.call("acquire", LONG, MS, thread="a")

        async def over() -> bool:
            seconds, micros = await redis.time()
            return int(seconds) * 1000 + int(micros) / 1000 > first_end + 1

        await until_async(over)
        assert await counted(ours, theirs) == (0, 1)
        assert not permit.lost
        assert not waiting.done()
        await permit.release()
        await theirs.call("release", await soon(waiting))

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

    async def test_a_deleted_semaphore_voids_the_permits_of_both(
        self, ours: PermitExpirableSemaphore, theirs: JavaObject, redis: Redis
    ) -> None:
        await ours.try_set_permits(2)
        far, near = await theirs.call("acquire"), await ours.acquire()
        assert await theirs.call("delete") is True
        assert await redis.exists(NAME, LEASES) == 0
        with pytest.raises(LeaseLostError):
            await near.release()
        assert await theirs.call("tryRelease", far) is False
        assert await counted(ours, theirs) == (0, 0)
