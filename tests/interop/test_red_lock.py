"""What is special about red locks of both sides: servers that die, and those that forget."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from redisson_py import RedLock
from tests.fixtures.fleet import Fleet, until_executed
from tests.fixtures.java import new_java
from tests.interop.java import Java, JavaObject
from tests.interop.kinds import SOON, clients_of
from tests.interop.tasks import Tasks

#: Of Redisson's clients: what a server that is gone costs.
HASTY: dict[str, Any] = {"timeout": 2000, "retryAttempts": 0}


@pytest.fixture(scope="module")
def machine(request: pytest.FixtureRequest) -> Iterator[Java]:
    """A Java machine that may complain of servers that are gone."""
    with new_java(request) as java:
        yield java


async def theirs(java: Java, fleet: Fleet, count: int = 3, **settings: Any) -> JavaObject:
    """Return a red lock on the first servers, of clients in this machine."""
    redissons = [
        await java.connect(server.url, "", **HASTY, **settings) for server in fleet.servers[:count]
    ]
    members = [await redisson.get("getLock", "k") for redisson in redissons]
    return await redissons[0].get("getRedLock", *members)


async def held_by(fleet: Fleet, lock: RedLock, count: int = 3) -> str:
    """Return for each server who holds the lock there: p for us, j for Java, - for nobody."""
    ids = tuple(context.owners.client_id for context in clients_of(lock))
    found = ""
    for server, redis in zip(fleet.servers[:count], fleet.redis, strict=False):
        owners: list[Any] = await redis.hkeys("k") if server.running else []
        found += "-" if not owners else "p" if owners[0].decode().startswith(ids) else "j"
    return found


async def test_with_a_dead_server_the_others_are_a_majority_for_both_sides(
    fleet: Fleet, machine: Java, tasks: Tasks
) -> None:
    lock, mine = await theirs(machine, fleet), fleet.red_lock(3)
    async with mine:
        pass
    await fleet.servers[1].kill()
    assert await lock.call("tryLock")
    assert await held_by(fleet, mine) == "j-j"
    assert await mine.try_acquire() is None
    assert await held_by(fleet, mine) == "j-j"
    waiting = tasks.call("a", mine.acquire, timeout=2 * SOON)
    await lock.call("unlock")
    lease = await waiting
    assert await held_by(fleet, mine) == "p-p"
    assert not await lock.call("tryLock")
    assert await held_by(fleet, mine) == "p-p"
    java_waiting = lock.call("tryLock", 60, "SECONDS")
    await lease.release()
    async with asyncio.timeout(SOON):
        assert await java_waiting
    assert await held_by(fleet, mine) == "j-j"
    await lock.call("unlock")
    assert await held_by(fleet, mine) == "---"


async def test_a_server_that_stands_still_keeps_neither_side_out(
    fleet: Fleet, machine: Java
) -> None:
    lock, mine = await theirs(machine, fleet), fleet.red_lock(3)
    async with mine:
        pass
    await fleet.servers[2].pause()
    assert await lock.call("tryLock", 60, "SECONDS")
    assert await mine.try_acquire() is None
    await lock.call("unlock")
    async with mine.hold(timeout=2 * SOON):
        assert not await lock.call("tryLock")
        await fleet.servers[2].resume()
        # Now it can have that one, but that is none.
        assert not await lock.call("tryLock")
    await until_executed(mine)
    assert await lock.call("tryLock")
    assert await mine.try_acquire() is None
    await lock.call("unlock")


async def test_a_minority_that_forgot_lets_nobody_in(fleet: Fleet, machine: Java) -> None:
    lock, mine = await theirs(machine, fleet, count=5), fleet.red_lock(5)
    assert await lock.call("tryLock")
    for number in (0, 3):
        await fleet.servers[number].restart(keep_data=False)
    assert await held_by(fleet, mine, 5) == "-jj-j"
    assert await mine.try_acquire() is None
    await until_executed(mine)
    # What the two gave was given back.
    assert await held_by(fleet, mine, 5) == "-jj-j"
    await lock.call("unlock")
    async with mine:
        await until_executed(mine)
        for number in (1, 3):
            await fleet.redis[number].flushall()
        assert not await lock.call("tryLock")
        assert "j" not in await held_by(fleet, mine, 5)
