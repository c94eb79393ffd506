"""What goes wrong with requests, with the server and with the network, one test each."""

from __future__ import annotations

import asyncio
import socket
from itertools import pairwise
from statistics import fmean
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import AcquireTimeoutError, ConnectionLostError
from redisson_py._options import LONGEST_COMMAND_SECONDS
from redisson_py._retry import pause_before
from redisson_py.errors import LeaseLostError
from redisson_py.testing import EmbeddedServer, FaultProxy
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.leases import renew_now
from tests.support.stragglers import Stragglers
from tests.support.streams import stream_of
from tests.support.waiting import set_safety_poll, until, until_async, until_listening

OUT_OF_TIME = (AcquireTimeoutError, ConnectionLostError)


async def do(redis: Redis, *command: str | int) -> Any:
    """Send a command that redis-py has no typed method for."""
    untyped: Any = redis
    return await untyped.execute_command(*command)


# Requests.


async def test_question_that_never_arrived_is_asked_again_within_its_time(
    clients: ClientFactory, link: FaultProxy, redis: Redis
) -> None:
    client = clients(link.url)
    await client.ping()
    link.black_hole("up")
    arrived = link.up.bytes_in
    asking = asyncio.create_task(client.get_lock("k").acquire(lease_time=60))
    with pytest.raises(OUT_OF_TIME):
        await client.get_lock("late").acquire(timeout=0.1)
    await link.wait_until(lambda link: link.up.bytes_in > arrived)
    assert await redis.exists("k", "late") == 0
    link.pass_through()
    link.cut()
    async with await asking as lease:
        assert await redis.hgetall("k") == {lease.owner.encode(): b"1"}
    assert not await redis.exists("late")


async def test_duplicate_later_than_anything_is_repeated_ends_with_its_lease(
    clients: ClientFactory, link: FaultProxy, redis: Redis, server_url: str
) -> None:
    client = clients(link.url)
    await client.ping()
    sent: list[bytes] = []

    def note(command: bytes) -> bool:
        sent.extend([command] if b"EVALSHA" in command else [])
        return False

    link.swallow_reply(note)
    asking = asyncio.create_task(client.get_lock("k").acquire(lease_time=60))
    await link.wait_until(lambda link: bool(sent))
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await client.ping()
    (tombstone,) = await redis.keys("*tombstone*")
    assert (
        await redis.pttl(tombstone) / 1000
        > LONGEST_COMMAND_SECONDS + client._context.options.reply_timeout
    )
    await redis.delete(tombstone)  # as if its time were over
    async with Stragglers(server_url) as late:
        await late.deliver(sent[:1])
    assert 0 < await redis.pttl("k") <= 60_000
    await redis.delete("k")


def test_pauses_before_another_attempt_grow_are_bounded_and_differ() -> None:
    pauses = [pause_before(attempt) for attempt in range(1000)]
    assert all(0 < pause <= 1 for pause in pauses)
    assert len(set(pauses)) > 900
    assert max(pause_before(0) for _ in range(1000)) <= 0.02
    assert max(pauses[10:]) > 2 * min(pauses[10:])
    # Twice as long each time, on average, until the longest.
    means = [fmean(pause_before(attempt) for _ in range(1000)) for attempt in range(10)]
    assert all(1.7 < later / sooner < 2.3 for sooner, later in pairwise(means[:6]))
    assert min(means[7:]) > 10 * means[0]


# The server.


async def test_writes_that_are_paused_are_waited_for(
    clients: ClientFactory, own_server: EmbeddedServer, admin: Redis
) -> None:
    client = clients(own_server.url)
    await client.ping()
    await do(admin, "CLIENT", "PAUSE", 60_000, "WRITE")
    asking = asyncio.create_task(client.get_lock("k").acquire(timeout=30))
    with pytest.raises(OUT_OF_TIME):
        await clients(own_server.url).get_lock("late").acquire(timeout=0.2)
    assert await admin.exists("k", "late") == 0
    assert not asking.done()
    await do(admin, "CLIENT", "UNPAUSE")
    await (await asking).release()
    assert client.statistics().connections == 1
    await until_async(lambda: gone(admin, "late"))


async def gone(redis: Redis, name: str) -> bool:
    return not await redis.exists(name)


async def test_release_in_another_database_calls_nobody_and_grants_nothing(
    clients: ClientFactory, own_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_safety_poll(monkeypatch, 60)
    holder, waiter, elsewhere = (clients(own_server.url + path) for path in ("", "", "/1"))
    async with holder.get_lock("k") as lease:
        waiting = asyncio.create_task(waiter.get_lock("k").acquire(timeout=30))
        # It watches the channel of all releases too, and channels know no databases: it looks.
        await until(lambda: waiter._context.bus.table.seats == 2)
        await until_listening(waiter)
        asked = waiter.statistics().commands_sent
        async with elsewhere.get_lock("k"):
            assert not lease.lost
        await until(lambda: waiter.statistics().commands_sent > asked)
        await until_listening(waiter)
        assert waiter.statistics().wake_ups == 0
        assert not waiting.done()
        assert await holder.get_lock("k").owned()
    await (await waiting).release()


@pytest.mark.parametrize(
    "commands",
    [
        ["RENAME k other"],
        ["MOVE k 1"],
        ["SWAPDB 0 1"],
        ["PEXPIRE k 1"],
        ["CONFIG SET maxmemory-policy allkeys-lru", "CONFIG SET maxmemory 1"],
        ["CONFIG SET maxmemory-policy volatile-ttl", "CONFIG SET maxmemory 1"],
    ],
    ids=" ".join,
)
async def test_what_third_parties_or_an_eviction_do_to_the_key_is_a_loss(
    commands: list[str], clients: ClientFactory, own_server: EmbeddedServer, admin: Redis
) -> None:
    client = clients(own_server.url)
    with pytest.raises(LeaseLostError):
        async with client.get_lock("k"):
            for command in commands:
                await do(admin, *command.split())
            await until_async(lambda: gone(admin, "k"))
            await admin.config_set("maxmemory", 0)
            renew_now(client)
            await asyncio.sleep(30)
    assert client.statistics().losses == 1


async def test_server_without_its_replicas_is_waited_for(
    clients: ClientFactory, own_server: EmbeddedServer, admin: Redis
) -> None:
    if int((await admin.info("server"))["redis_version"].partition(".")[0]) < 7:
        pytest.skip("scripts of Redis 6.2 write all the same")
    client = clients(own_server.url)
    lease = await client.get_lock("k").acquire(lease_time=60)
    clock = asyncio.get_running_loop().time
    begun = clock()
    await admin.config_set("min-replicas-to-write", 1)
    with pytest.raises(OUT_OF_TIME):
        await client.get_lock("late").acquire(timeout=0.2)
    asking = asyncio.create_task(client.get_lock("other").acquire(timeout=30))
    releasing = asyncio.create_task(lease.release())
    await asyncio.wait({asking, releasing}, timeout=0.2)
    assert not asking.done()
    assert not releasing.done()
    # Each asks again after pauses that grow to a second.
    assert client.statistics().commands_sent < 60 + 6 * (clock() - begun)
    await admin.config_set("min-replicas-to-write", 0)
    await releasing
    await (await asking).release()
    await until_async(lambda: gone(admin, "late"))
    assert not await admin.exists("k")
    assert client.statistics().connections == 1


# The network.


async def test_waiter_on_a_dead_connection_is_soon_on_another(
    clients: ClientFactory, link: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_safety_poll(monkeypatch, 60)  # which would find it too, later
    holder, waiter = clients(), clients(link.url, lease_time=6)
    async with holder.get_lock("k"):
        waiting = asyncio.create_task(waiter.get_lock("k").acquire(timeout=30))
        await until_listening(waiter)
        link.black_hole()
    # The message is lost, and nobody says that the connection is dead.
    await until(lambda: not stream_of(waiter).ready)
    link.pass_through()
    link.cut()
    await (await waiting).release()
    assert waiter.statistics().connections == 2


async def test_name_of_the_server_is_looked_up_at_every_connection(
    clients: ClientFactory, proxy: ProxyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = [await proxy(), await proxy()]
    answers: list[FaultProxy | None] = [links[0], None, links[1]]
    connect = asyncio.open_connection

    async def looked_up(host: str, port: int, **more: Any) -> Any:
        if host != "redis.example":
            return await connect(host, port, **more)
        found = answers.pop(0)
        if found is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return await connect(found.host, found.port, **more)

    monkeypatch.setattr(asyncio, "open_connection", looked_up)
    client = clients(links[0].url.replace(f"{links[0].host}:{links[0].port}", "redis.example:6379"))
    async with client.get_lock("k") as lease:
        links[0].cut()
        assert await client.get_lock("k").owned()
        assert not lease.lost
    assert [link.accepted for link in links] == [1, 1]


async def test_idle_connection_that_the_server_closes_costs_no_lease(
    clients: ClientFactory, own_server: EmbeddedServer, admin: Redis
) -> None:
    client, waiter = clients(own_server.url), clients(own_server.url)
    async with client.get_lock("k") as lease:
        waiting = asyncio.create_task(waiter.get_lock("k").acquire(timeout=30))
        await until_listening(waiter)
        await admin.config_set("timeout", 1)
        await until(lambda: not stream_of(client).ready)
        assert await client.get_lock("k").owned()
        assert not lease.lost
    await (await waiting).release()
    # Who listens is spared.
    assert waiter.statistics().connections == 1
