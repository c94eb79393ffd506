"""`lose` takes a lease away as Redis would, of every kind, and tells nobody else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redisson_py import (
    ConnectionLostError,
    Lease,
    LeaseLostError,
    NotHeldError,
    Redisson,
)
from redisson_py.testing import EmbeddedServer, lose, until_waiting
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ServerFactory
from tests.support.kinds import CENTRAL, KINDS, SINGLE


def make(name: str, client: Redisson) -> Any:
    kind = KINDS[name]
    return kind.make([client], "semaphore" if kind.semaphore else "k", 2)


@pytest.mark.parametrize("name", CENTRAL)
async def test_the_body_is_cancelled_and_the_lease_says_that_it_is_lost(
    client: Redisson, name: str
) -> None:
    inside = asyncio.Event()
    leases: list[Lease] = []

    async def work() -> None:
        async with await make(name, client).acquire() as lease:
            leases.append(lease)
            inside.set()
            await asyncio.Event().wait()

    working = asyncio.create_task(work())
    await inside.wait()
    await lose(leases[0])
    assert leases[0].lost
    with pytest.raises(LeaseLostError) as caught:
        await working
    assert caught.value.reason == "taken"
    assert client.statistics().held_leases == 0
    outside = await make(name, client).acquire()
    await lose(outside)
    assert outside.lost
    await outside.wait_lost()
    with pytest.raises(LeaseLostError):
        await outside.release()


@pytest.mark.parametrize("name", SINGLE)
async def test_a_waiter_of_another_process_gets_the_lock(clients: ClientFactory, name: str) -> None:
    holder, other = clients(), clients()
    lease = await make(name, holder).acquire()
    waited_for = KINDS[name].rival_of(other)
    waiting = asyncio.create_task(waited_for.acquire())
    await until_waiting(waited_for)
    await lose(lease)
    await (await waiting).release()
    with pytest.raises(LeaseLostError):
        await lease.release()


async def test_a_red_lock_loses_as_many_members_as_it_takes(
    clients: ClientFactory, server_factory: ServerFactory
) -> None:
    servers = [await server_factory() for _ in range(3)]
    members = [clients(url=server.url).get_lock("k") for server in servers]
    with pytest.raises(LeaseLostError) as caught:
        async with clients().get_red_lock(*members) as lease:
            await lose(lease)
    assert caught.value.reason == "taken"
    assert not any([await member.locked() for member in members])


@pytest.mark.parametrize("on_lost", ["cancel", "raise"])
async def test_inside_its_own_block_the_call_is_cancelled_or_the_body_runs_on(
    on_lost: str, clients: ClientFactory
) -> None:
    reached = False
    with pytest.raises(LeaseLostError):
        async with clients(on_lost=on_lost).get_lock("k") as lease:
            await lose(lease)
            await asyncio.sleep(0)
            reached = True
    assert reached == (on_lost == "raise")


async def test_reentries_are_lost_together(client: Redisson) -> None:
    lock = client.get_lock("k")
    outer, inner = await lock.acquire(), await lock.acquire()
    await lose(inner)
    assert outer.lost
    for lease in (inner, outer):
        with pytest.raises(LeaseLostError):
            await lease.release()


async def test_other_readers_and_other_permits_stay(clients: ClientFactory) -> None:
    one, two = clients(), clients()
    readers = [await each.get_read_write_lock("k").read_lock().acquire() for each in (one, two)]
    permits = [await each.get_semaphore("semaphore", 3).acquire() for each in (one, two)]
    several = await one.get_permit_expirable_semaphore("semaphore2", 3).acquire_many(2)
    for lost in (readers[0], permits[0], several[0]):
        await lose(lost)
        with pytest.raises(LeaseLostError):
            await lost.release()
    assert await two.get_semaphore("semaphore").available() == 2
    assert await two.get_permit_expirable_semaphore("semaphore2").available() == 2
    for kept in (readers[1], permits[1], several[1]):
        kept.check()
        # Redis has them, or this were a loss.
        await kept.release()


async def test_a_read_under_a_write_is_lost_alone(client: Redisson) -> None:
    lock = client.get_read_write_lock("k")
    async with lock.write_lock() as writing:
        reading = await lock.read_lock().acquire()
        await lose(reading)
        with pytest.raises(LeaseLostError):
            await reading.release()
        writing.check()
        assert await lock.write_lock().hold_count() == 1


async def test_a_released_lease_cannot_be_lost(client: Redisson) -> None:
    lease = await client.get_lock("k").acquire()
    await lease.release()
    with pytest.raises(NotHeldError, match="was released"):
        await lose(lease)


@pytest.mark.parametrize("name", ["lock", "fair_lock", "fenced_lock", "read_lock", "write_lock"])
async def test_what_a_client_holds_of_a_lock_is_lost(client: Redisson, name: str) -> None:
    lease = await make(name, client).acquire()
    async with client.get_lock("other") as other:
        await lose(make(name, client))
        assert lease.lost
        other.check()
    with pytest.raises(LeaseLostError):
        await lease.release()


async def test_what_is_not_held_cannot_be_lost(clients: ClientFactory) -> None:
    client, other = clients(), clients()
    async with other.get_lock("k") as lease:
        with pytest.raises(NotHeldError, match="this client does not hold it"):
            await lose(client.get_lock("k"))
        lease.check()


async def test_something_else_cannot_be_lost(client: Redisson) -> None:
    for other in (client, "k", client.get_multi_lock(client.get_lock("k"))):
        with pytest.raises(TypeError, match=f"not {type(other).__name__}"):
            await lose(other)  # type: ignore[arg-type]


async def test_without_an_answer_nothing_is_lost(
    clients: ClientFactory, own_server: EmbeddedServer
) -> None:
    client = clients(url=own_server.url, command_timeout=1, lease_time=60)
    lease = await client.get_lock("k").acquire()
    await own_server.pause()
    with pytest.raises(ConnectionLostError):
        await lose(lease)
    assert not lease.lost
    await own_server.resume()
    await client.aclose()


@pytest.mark.parametrize("tasks", [1, 3])
async def test_until_waiting_returns_when_so_many_tasks_wait(client: Redisson, tasks: int) -> None:
    lock = client.get_lock("k")
    async with lock:
        waiting = [asyncio.create_task(lock.acquire()) for _ in range(tasks)]
        await until_waiting(lock, tasks)
        await until_waiting(client, tasks)
        assert lock.statistics().waiters == tasks
    for each in waiting:
        await (await each).release()


async def test_until_waiting_says_how_many_wait(client: Redisson) -> None:
    with pytest.raises(TimeoutError, match="0 tasks wait for <RLock 'k'>, not 2"):
        await until_waiting(client.get_lock("k"), 2, timeout=0.01)
    with pytest.raises(ValueError, match="1 or more"):
        await until_waiting(client, 0)
