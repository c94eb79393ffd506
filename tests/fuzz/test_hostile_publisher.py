"""Messages of somebody who may only publish wake waiters in vain, and do nothing else."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, Final

import pytest
from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py.testing import embedded_server
from tests.fuzz.values import NUMBERS, WORDS
from tests.support.waiting import until_waiting

_PAYLOADS: Final = (*WORDS, *(b"%d" % number for number in NUMBERS), b" 1 ", b"1_0", b"")

#: Commands of a client beside those that a message causes: connecting, subscribing, asking first,
#: renewing, describing itself, leaving.
_OTHERS: Final = 60


async def play(seed: int, url: str, messages: int = 500) -> int:
    """Play one round on an empty server; return how many wake-ups the messages caused."""
    random = Random(seed)
    async with (
        Redis.from_url(url) as publisher,
        Redisson.from_url(url, lease_time=10) as holder,
        Redisson.from_url(url, lease_time=10) as other,
    ):
        things = [_things(client) for client in (holder, other)]
        leases: list[Any] = [await thing.acquire() for thing in things[0]]
        waiters = [asyncio.create_task(thing.acquire()) for thing in things[1]]
        waiters.append(asyncio.create_task(other.get_latch("l", 1).wait()))
        waiters.append(asyncio.create_task(other.get_barrier("b", 2).wait()))
        await until_waiting(other, len(waiters))
        tasks, before = len(asyncio.all_tasks()), other.statistics()
        channels = await _channels(publisher, len(waiters))
        asked = await _calls(publisher)
        for _ in range(messages):
            await publisher.publish(random.choice(channels), random.choice(_PAYLOADS))
        await publisher.publish(random.choice(channels), b"0" * random.choice((10, 10**6)))
        await other.ping()
        assert not any(waiter.done() for waiter in waiters), "a message was taken for a grant"
        assert len(asyncio.all_tasks()) <= tasks + 5, "messages start tasks"
        # Each message is for one channel, and on each there is one waiter: it asks once at most.
        calls = await _calls(publisher) - asked
        assert calls <= messages + 1 + _OTHERS, f"{calls} calls after {messages} messages"
        assert other.statistics().reconnects == before.reconnects
        assert not any(lease.lost for lease in leases)
        for lease in leases:
            await lease.release()
        await holder.get_latch("l").count_down()
        reached = asyncio.create_task(holder.get_barrier("b", 2).wait())
        async with asyncio.timeout(30):
            granted = await asyncio.gather(*waiters)
            await reached
        for each in granted[: len(leases)]:
            await each.release()
        return calls


def _things(client: Redisson) -> list[Any]:
    """Return one of each kind, of which one task can have all."""
    return [
        client.get_lock("k"),
        client.get_fair_lock("f"),
        client.get_fenced_lock("t"),
        client.get_read_write_lock("w").write_lock(),
        client.get_semaphore("s", permits=1),
        client.get_permit_expirable_semaphore("p", permits=1),
    ]


async def _channels(redis: Redis, count: int) -> list[bytes]:
    """Return the channels that somebody listens to, when there are enough of them."""
    async with asyncio.timeout(30):
        while True:
            found: list[Any] = await redis.pubsub_channels()
            if len(found) >= count:
                return sorted(found)
            await asyncio.sleep(0.01)


async def _calls(redis: Redis) -> int:
    """Return how many scripts were called so far."""
    info = await redis.info("commandstats")
    return int(info.get("cmdstat_evalsha", {}).get("calls", 0))


@pytest.mark.parametrize("seed", range(3))
async def test_messages_are_never_taken_for_grants(seed: int) -> None:
    async with embedded_server() as url:
        assert await play(seed, url) > 0
