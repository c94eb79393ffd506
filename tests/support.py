"""What several tests need: waiting for a stated condition, counting what reaches the server."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

import pytest
from redis.asyncio import Redis

from redisson_py import Lease, Redisson, RedissonError
from redisson_py._engine import waiting
from redisson_py._engine.wakeups import Table
from redisson_py._stream.router import Router, SingleRouter
from redisson_py._stream.stream import Stream
from redisson_py._time import now
from redisson_py._topology.synced import SyncedStream
from redisson_py.semaphores import _queue
from tests.fixtures.cluster_look import master_of


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Return when `condition()` is true; fail if that takes longer than `seconds`."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.001)


async def until_async(condition: Callable[[], Awaitable[object]], seconds: float = 10.0) -> None:
    """As `until`, for a condition that must be awaited."""
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.005)


async def assert_ends_in_time(lease: Lease, redis: Redis, key: str) -> None:
    """Fail unless a lease ends here before Redis ends it, by this machine's one clock.

    Both ends are read while they are ahead, so no delay of a busy machine matters.
    """
    ends = time.time() + lease.remaining
    both: Any = (await master_of(redis, key)).pipeline(transaction=True)
    (seconds, microseconds), left = await both.time().pttl(key).execute()
    assert ends < seconds + microseconds / 1e6 + left / 1000, "the server let others in first"


def assert_left(left: float | None, lease_time: float, since: float) -> None:
    """Fail unless a lease of `lease_time` seconds that was set after `since` has `left` of them.

    But for one second, and for the time that has passed: no delay of a busy machine matters.
    """
    assert left is not None
    assert lease_time - 1 - (now() - since) < left <= lease_time


def renew_now(client: Redisson) -> None:
    """Have the watchdog ask after what a client holds at once, and not in a third of the lease.

    So a test need not wait, and its lease may be one that no delay of a busy machine outlasts.
    """
    client._watchdog.ask_now(lambda key: True)


async def renewed_at_once(client: Redisson, times: int = 1) -> None:
    """Have a client renew what it holds so many times, now."""
    for _ in range(times):
        following = client.statistics().renewals + 1
        renew_now(client)
        await until(lambda wanted=following: client.statistics().renewals >= wanted)  # type: ignore[misc]


def set_safety_poll(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Set how long waiters sleep at most before they ask again although no message came."""
    for module in (waiting, _queue):
        monkeypatch.setattr(module, "SAFETY_POLL", seconds)


async def until_waiting(client: Redisson, count: int) -> None:
    """Return when `count` tasks of this client wait."""
    await until(lambda: client.statistics().waiters == count)


def stream_of(client: Redisson, key: str = "k") -> Stream:
    """Return the stream to the server of a key; in a cluster, as far as is known by now."""
    return client._router.stream_for(key.encode())


#: Keys on each of the three masters of a cluster.
EVERYWHERE = ("a", "b", "k")


def is_single(client: Redisson) -> bool:
    """Whether a client has one server, and not a cluster."""
    return isinstance(client._router, SingleRouter)


async def answered(client: Redisson) -> None:
    """Return when all servers of a client have answered, and so executed what was sent before."""
    keys = EVERYWHERE[:1] if is_single(client) else EVERYWHERE
    await asyncio.gather(*[answered_at(client, key) for key in keys])


async def answered_at(client: Redisson, key: str) -> None:
    """Return when the server of a key has answered on each connection; errors as for `ping`."""
    await client._executor.ask(key.encode(), "PING")
    stream = stream_of(client, key)
    if isinstance(stream, SyncedStream):
        await client._executor.answer(stream.grants.command(("PING",), 10, key.encode()))


async def until_listening(client: Redisson) -> None:
    """Return when the head of a queue of this client has asked, heard "busy", and sleeps."""

    await until(lambda: listens(client._table, client._router))


def listens(table: Table, router: Router) -> bool:
    """Return whether somebody has a seat, and the servers of all who have one have answered."""
    channels = [each for each, channel in table.channels.items() if channel.seats]
    streams = {router.stream_for(each) for each in channels}
    return bool(streams) and all(each.ready and each.idle for each in streams)


#: What clients of a cluster say instead.
_SHARDED = {"spublish": "publish", "ssubscribe": "subscribe", "sunsubscribe": "unsubscribe"}


class Counted:
    """Counts the commands the server executes inside a block, but not the look at them.

    Those of a cluster by the names that one server has for them.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self.calls: dict[str, int] = {}

    async def __aenter__(self) -> Self:
        await self._redis.config_resetstat()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        stats: dict[str, Any] = await self._redis.info("commandstats")
        self.calls = {
            _SHARDED.get(name, name): int(values["calls"])
            for name, values in (
                (name.removeprefix("cmdstat_"), values) for name, values in stats.items()
            )
            if name not in ("config|resetstat", "info", "config", "replconf")
        }


def assert_all_retrieved(caplog: pytest.LogCaptureFixture) -> None:
    """Raise if asyncio logged an error of ours that nobody asked a future or task for.

    Not those of redis-py's streams: the order of their finalizers is the garbage collector's.
    """
    gc.collect()
    lost = [record.exc_info for record in caplog.records if "never retrieved" in record.message]
    assert not [info for info in lost if info and isinstance(info[1], RedissonError)]
