"""The server restarts, forgets its scripts, kills connections, refuses the password."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext, suppress

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from redisson_py import Lease, LeaseLostError, Redisson
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ServerFactory
from tests.support.waiting import until, until_listening


async def test_hand_offs_under_client_kill_and_script_flush(
    clients: ClientFactory, redis: Redis
) -> None:
    workers = [clients(client_name=f"worker{n}") for n in range(2)]
    sections = 0
    inside = False
    done = asyncio.Event()

    async def work(client: Redisson) -> None:
        nonlocal sections, inside
        for _ in range(100):
            async with client.get_lock("k").hold(timeout=30):
                assert not inside
                inside = True
                await asyncio.sleep(0)
                inside = False
                sections += 1

    async def restart() -> None:
        # A flag, not a cancellation: below Python 3.12 redis-py swallows one now and then.
        while not done.is_set():
            for each in await redis.client_list():
                if each["name"].startswith("worker"):
                    # It may be gone by itself meanwhile.
                    with suppress(ResponseError):
                        await redis.client_kill_filter(_id=each["id"])
            await redis.script_flush()
            await asyncio.sleep(0.01)

    nemesis = asyncio.create_task(restart())
    await asyncio.gather(*[work(client) for client in workers for _ in range(2)])
    done.set()
    await nemesis
    assert sections == 400
    assert sum(client.statistics().losses for client in workers) == 0


@pytest.mark.parametrize("with_data", [True, False], ids=["with its data", "without"])
async def test_killed_server_keeps_the_hold_or_the_holder_is_notified(
    with_data: bool, clients: ClientFactory, server_factory: ServerFactory
) -> None:
    server = await server_factory(appendonly=with_data)
    holder, waiter = clients(server.url, lease_time=6), clients(server.url)
    waiting: asyncio.Task[Lease] | None = None
    restarting: asyncio.Task[None] | None = None
    kept = False

    async def restart() -> None:
        await server.kill()
        await server.start()

    with nullcontext() if with_data else pytest.raises(LeaseLostError):
        async with holder.get_fenced_lock("k") as lease:
            waiting = asyncio.create_task(waiter.get_fenced_lock("k").acquire(timeout=30))
            await until_listening(waiter)
            restarting = asyncio.create_task(restart())
            # A body whose lease is lost is cancelled; the server comes back nevertheless.
            await asyncio.shield(restarting)
            renewals = holder.statistics().renewals
            await until(lambda: holder.statistics().renewals > renewals)
            kept = await holder.get_fenced_lock("k").owned()
    assert kept is with_data
    assert waiting is not None
    assert restarting is not None
    await restarting
    async with await waiting as next_one:
        # The counter may be gone; its numbers are not used again.
        assert (next_one.token or 0) > (lease.token or 0) > 0
    assert holder.statistics().losses == (not with_data)
    assert holder.statistics().connections <= 3
