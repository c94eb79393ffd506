"""The scripts on the session's server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from tests.fixtures.redis_server import url_of_user
from tests.lua.test_golden_vectors import Listener, listening
from tests.support.scripts.any_lock import LOCKS, AnyLock
from tests.support.scripts.barrier import BarrierScripts
from tests.support.scripts.calls import Scripts, ask
from tests.support.scripts.client_queue import Hearing, QueueScripts, WriteQueueScripts, X, Y, Z
from tests.support.scripts.fair import FairScripts
from tests.support.scripts.latch import LatchScripts
from tests.support.scripts.lock import LockScripts
from tests.support.scripts.read_write import ReadWriteScripts


@pytest_asyncio.fixture
async def scripts(redis: Redis) -> Scripts:
    """Every script, by name."""
    return await Scripts.on(redis)


#: Takes a command, or all channels, from the user `poor`; `listens` is a channel that it keeps.
Forbid = Callable[..., Awaitable[None]]


@pytest_asyncio.fixture
async def poor_redis(redis: Redis, server_url: str) -> AsyncIterator[Redis]:
    """A client of a user that lacks what `forbid` names."""
    await ask(redis, "ACL", "SETUSER", "poor", "on", "nopass", "~*", "&*", "+@all")
    async with Redis.from_url(url_of_user(server_url, "poor")) as client:
        yield client
    await ask(redis, "ACL", "DELUSER", "poor")
    await redis.flushdb()


@pytest_asyncio.fixture
async def poor_scripts(poor_redis: Redis) -> Scripts:
    """Every script, as that user."""
    return await Scripts.on(poor_redis)


@pytest.fixture
def forbid(poor_redis: Redis, redis: Redis) -> Forbid:
    """Take something away from that user."""

    async def forbid(rule: str, listens: bytes = b"") -> None:
        rules = ["resetchannels", b"&" + listens] if rule == "own channels" else [rule]
        await ask(redis, "ACL", "SETUSER", "poor", "+@all", "allchannels", *rules)

    return forbid


@pytest.fixture
def lock(scripts: Scripts) -> LockScripts:
    """One plain lock."""
    return LockScripts(scripts)


@pytest.fixture
def fenced(scripts: Scripts) -> LockScripts:
    """One fenced lock."""
    return LockScripts(scripts, fenced=True)


@pytest.fixture
def any_lock(scripts: Scripts, kind: str) -> AnyLock:
    """A lock of the kind that the test is run for; a fair one without a queue."""
    return FairScripts(scripts, positions=0) if kind == "fair" else LOCKS[kind](scripts)


@pytest_asyncio.fixture(params=["plain", "fenced", "write"])
async def queue(request: pytest.FixtureRequest, scripts: Scripts) -> QueueScripts:
    """A lock and its queue while time stands still: plain, fenced, the write side of two."""
    await scripts.stop_clock()
    if request.param == "write":
        return WriteQueueScripts(scripts)
    return QueueScripts(scripts, fenced=request.param == "fenced")


@pytest_asyncio.fixture
async def heard(queue: QueueScripts, redis: Redis) -> AsyncIterator[Hearing]:
    """Keep X, Y and Z alive; return what one of them, or the channel of all ("all"), has heard."""
    channels = {each: queue.own_channel(each) for each in (X, Y, Z)}
    channels["all"] = queue.channel
    listeners: dict[str, Listener] = {}
    async with AsyncExitStack() as stack:
        for each, channel in channels.items():
            listeners[each] = await stack.enter_async_context(listening(redis, channel))

        async def heard(who: str) -> list[str]:
            messages = [message.decode() for message in await listeners[who].heard()]
            if who == "all" and isinstance(queue, WriteQueueScripts):
                # Redisson's writers say 1.
                messages = [each.replace("1", "0") for each in messages]
            return messages

        yield heard


@pytest_asyncio.fixture
async def fair(scripts: Scripts) -> AsyncIterator[FairScripts]:
    """One fair lock; when all have left nothing may remain but what expires."""
    fair = FairScripts(scripts)
    yield fair
    await fair.everybody_leaves()


@pytest.fixture
def rw(scripts: Scripts) -> ReadWriteScripts:
    """One read-write lock."""
    return ReadWriteScripts(scripts)


@pytest.fixture
def latch(scripts: Scripts) -> LatchScripts:
    """One latch."""
    return LatchScripts(scripts)


@pytest.fixture
def barrier(scripts: Scripts) -> BarrierScripts:
    """A barrier of three."""
    return BarrierScripts(scripts)
