"""Every key and channel that a client uses for a name lies in the slot of that name.

One node of a cluster has all slots here, and refuses a script whose keys lie in several of them.
MONITOR tells what each script was called with and what it did: the keys it computes, too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
import redis as redis_py
from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py._keys import key_slot
from redisson_py._redis.scripts import source
from redisson_py.locks.election import candidate_of
from redisson_py.testing import EmbeddedServer
from tests.support.leases import renewed_at_once
from tests.support.monitor import Monitor, words
from tests.support.streams import stream_of
from tests.support.waiting import until_listening

Tour = Callable[[Redisson, Any], Awaitable[None]]


async def lock(client: Redisson, name: Any) -> None:
    it = client.get_lock(name)
    async with it as lease, it:
        await lease.extend(20)
        await it.inspect()
    async with it:
        await renewed_at_once(client)
        async with Redisson.from_url(client_url(client)) as other:
            assert not await other.get_lock(name).try_acquire(timeout=0.5)
    await it.force_release()


async def fenced_lock(client: Redisson, name: Any) -> None:
    async with client.get_fenced_lock(name) as lease:
        await renewed_at_once(client)
        await lease.extend(20)


async def fair_lock(client: Redisson, name: Any) -> None:
    it = client.get_fair_lock(name)
    async with it as lease:
        await lease.extend(20)
        waiting = asyncio.create_task(it.try_acquire(timeout=0.5))
        assert not await waiting
        await it.inspect()
    await it.force_release()


async def read_write_lock(client: Redisson, name: Any) -> None:
    both = client.get_read_write_lock(name, prefer="writers")
    read, write = both.read_lock(), both.write_lock()
    async with write as lease, read:
        await lease.extend(20)
        await both.inspect()
    async with read as lease:
        await lease.extend(20)
        await lease.extend(5)
        await asyncio.create_task(cannot_write(both.write_lock()))
    async with read:
        await renewed_at_once(client)
    await read.force_release()
    await write.force_release()


async def cannot_write(write: Any) -> None:
    assert not await write.try_acquire(timeout=0.5)


async def semaphore(client: Redisson, name: Any) -> None:
    it = client.get_semaphore(name, 3)
    permit = await it.acquire(2)
    await renewed_at_once(client)
    await it.release(1)
    await it.release(1)
    del permit
    await it.try_set_permits(3)
    await it.add_permits(2)
    await it.set_permits(5)
    await it.available()
    await it.inspect()
    await it.drain()
    assert not await it.try_acquire(timeout=0.5)
    await it.delete()


async def expirable_semaphore(client: Redisson, name: Any) -> None:
    it = client.get_permit_expirable_semaphore(name, 3)
    one, two = await it.acquire_many(2)
    await it.update_lease_time(one.id, 20)
    # Somebody else's, as an operator has it.
    async with Redisson.from_url(client_url(client)) as other:
        await other.get_permit_expirable_semaphore(name).update_lease_time(two.id, 20)
    await it.lease_time(one.id)
    await renewed_at_once(client)
    await it.release_many([one.id, two.id])
    await it.release(await it.acquire())
    await it.try_set_permits(3)
    await it.set_permits(4)
    await it.add_permits(1)
    await it.available()
    await it.inspect()


def client_url(client: Redisson) -> str:
    return f"redis://{stream_of(client)._opener.where}"


async def latch(client: Redisson, name: Any) -> None:
    it = client.get_latch(name)
    assert await it.try_set_count(2)
    waiting = asyncio.create_task(it.wait(10))
    await it.count()
    await it.count_down(2)
    await waiting
    await it.try_set_count(1)
    await it.delete()


async def barrier(client: Redisson, name: Any) -> None:
    it = client.get_barrier(name, 2)
    await asyncio.gather(it.wait(10), it.wait(10))
    with pytest.raises(TimeoutError):
        await it.wait(0.5)
    await it.inspect()
    await it.reset()
    await it.abort()
    await it.reset()


async def kept_and_handed_over(client: Redisson, name: Any) -> None:
    for get in (client.get_lock, client.get_fair_lock, client.get_fenced_lock):
        it: Any = get(name)
        lease = await it.acquire()
        await (await client.adopt(await lease.hand_over())).release()
        async with it.hold(min_hold=20):
            pass
        await it.force_release()


async def election(client: Redisson, name: Any) -> None:
    it = client.get_election(name)
    async with it.campaign("one") as leadership:
        await leadership.proclaim("two")
        await renewed_at_once(client)
        assert await it.leader()
        await it.inspect()
        async with Redisson.from_url(client_url(client)) as other:
            with pytest.raises(TimeoutError):
                await other.get_election(name).acquire("three", timeout=0.5)
    leadership = await it.acquire("four")
    await candidate_of(it).force_release()
    await leadership.wait_lost()


async def once(client: Redisson, name: Any) -> None:
    it = client.get_once(name)
    async with it as lease:
        await renewed_at_once(client)
        await it.inspect()
        await lease.complete(b"done")
    await it.forget()


async def rate_limiter(client: Redisson, name: Any) -> None:
    for per_client in (False, True):
        it = client.get_rate_limiter(name, 2, 600, per_client=per_client)
        await it.acquire(2)
        assert not await it.try_acquire(timeout=0.1)
        waiting = asyncio.create_task(it.acquire(2))
        await until_listening(client)
        await it.set_rate(2, 600)
        await waiting
        asking = asyncio.create_task(it.acquire())
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        await it.inspect()
        await it.delete()


TOURS: list[Tour] = [
    lock,
    fenced_lock,
    fair_lock,
    read_write_lock,
    semaphore,
    expirable_semaphore,
    latch,
    barrier,
    kept_and_handed_over,
    election,
    once,
    rate_limiter,
]


@pytest.fixture(scope="module")
def node(server_choice: str) -> Iterator[EmbeddedServer]:
    """The only node of a cluster."""
    if "://" in server_choice or server_choice == "container":
        pytest.skip("needs a binary")
    server = EmbeddedServer(server_choice, config={"cluster-enabled": "yes"})
    server.start_blocking()
    try:
        with closing(redis_py.Redis.from_url(server.url)) as admin:
            untyped: Any = admin
            untyped.execute_command("CLUSTER", "ADDSLOTS", *range(16384))
            give_up = time.monotonic() + 20
            while "cluster_state:ok" not in str(untyped.execute_command("CLUSTER", "INFO")):
                assert time.monotonic() < give_up
                time.sleep(0.02)
        yield server
    finally:
        server.close_blocking()


def names_in(seen: list[str]) -> list[str]:
    """Return the keys and channels of one command."""
    command, *arguments = seen
    match command.upper():
        case "EVALSHA" | "EVAL":
            return arguments[2 : 2 + int(arguments[1])]
        case "SUBSCRIBE" | "UNSUBSCRIBE" | "EXISTS" | "DEL":
            return arguments
        case "HELLO" | "CLIENT" | "INFO" | "PING" | "SCRIPT" | "TIME" | "SELECT" | "ECHO":
            return []
        case _:
            return arguments[:1]


@pytest.mark.usefixtures("old_busy_counts")
@pytest.mark.parametrize("name", ["orders", "{orders}:7", "a{b}c", "{a}{b}"])
@pytest.mark.more
async def test_every_script_works_on_keys_of_one_slot(name: str, node: EmbeddedServer) -> None:
    called: set[str] = set()
    for tour in TOURS:
        if tour is latch and "{" in name:
            # Refused: Redisson puts braces around the whole name.
            continue
        async with Redis.from_url(node.url) as admin, Monitor(admin) as monitor:
            await admin.flushall()
            client = Redisson.from_url(node.url, idle_lifetime=60)
            client._context.options.names.in_cluster = True
            async with client:
                await tour(client, name)
            commands = [words(row) for row in await monitor.rows()]
        used = {each for command in commands for each in names_in(command)}
        slots = {each: key_slot(each.encode()) for each in used if ":client:" not in each}
        assert len(slots) > 3
        assert {*slots.values()} == {key_slot(name.encode())}, (tour.__name__, slots)
        called |= {command[1] for command in commands if command[0].upper() == "EVALSHA"}
    missing = {s.name for s in source.load_all() if not {w.sha for w in s.wordings} & called}
    assert missing == ({each for each in missing if "latch." in each} if "{" in name else set())


@pytest.mark.parametrize("name", ["a}b", "a}b{c", "{}x", "x{"])
async def test_a_refused_name_would_not_work(name: str, node: EmbeddedServer) -> None:
    client = Redisson.from_url(node.url)
    async with client:
        with pytest.raises(Exception, match=r"CROSSSLOT|same slot|non local key"):
            await client.get_lock(name).acquire(timeout=30)
        sent = client.statistics().commands_sent
        client._context.options.names.in_cluster = True
        for make in (
            client.get_fair_lock,
            client.get_fenced_lock,
            client.get_read_write_lock,
            client.get_semaphore,
            client.get_permit_expirable_semaphore,
            client.get_latch,
            client.get_election,
            client.get_once,
            client.get_rate_limiter,
            lambda name: client.get_barrier(name, 2),
            lambda name: client.get_multi_lock(client.get_lock("k"), client.get_fair_lock(name)),
        ):
            with pytest.raises(ValueError, match="cannot be used in a cluster"):
                make(name)
        assert client.statistics().commands_sent == sent
