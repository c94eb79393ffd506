"""Nothing of the streams to Sentinels is left: after closing, other event loops, forks."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from redisson_py import ConnectionLostError, Redisson
from redisson_py._redis.topology.finder import Finder
from redisson_py.testing import EmbeddedSentinel
from tests.fixtures.client import ClientFactory
from tests.fixtures.topologies import found
from tests.support.streams import stream_of
from tests.support.waiting import until
from tests.topology.sentinels import finder_of, listens


@pytest.fixture(scope="module")
def servers(server_choice: str) -> Iterator[EmbeddedSentinel]:
    """A master with Sentinels that nobody breaks."""
    with found(server_choice) as choice:
        servers = EmbeddedSentinel(choice, replicas=0)
    servers.start_blocking()
    yield servers
    servers.close_blocking()


async def use(client: Redisson) -> None:
    """Hold something, and listen to all Sentinels."""
    async with client.get_lock("a"):
        await until(lambda: listens(client))


def sockets(client: Redisson) -> int:
    """Return how many connections a client has."""
    streams = [stream_of(client), *(each.stream for each in finder_of(client).sentinels.known)]
    return sum(each._connection is not None for each in streams)


async def test_closing_leaves_nothing(servers: EmbeddedSentinel) -> None:
    tasks = asyncio.all_tasks()
    for _ in range(3):
        async with Redisson.from_url(servers.url) as client:
            await use(client)
            assert sockets(client) == 4
        assert asyncio.all_tasks() == tasks
        assert sockets(client) == 0


async def test_an_idle_client_sends_nothing(
    servers: EmbeddedSentinel, clients: ClientFactory
) -> None:
    client = clients(servers.url, lease_time=60)
    # All connections that it needs are open then.
    async with client.get_lock("a"):
        pass
    await until(lambda: listens(client))
    sentinels = [each.stream.traffic for each in finder_of(client).sentinels.known]
    before: Any = [client.statistics().commands_sent, *(each.commands for each in sentinels)]
    # Longer than any period of ours: the reply timeout here is a second at most.
    await asyncio.sleep(2.5)
    after: Any = [client.statistics().commands_sent, *(each.commands for each in sentinels)]
    assert after == before
    assert client.statistics().connections <= 2


async def test_closing_while_nobody_answers_ends(
    servers: EmbeddedSentinel, clients: ClientFactory
) -> None:
    client = clients("redis+sentinel://127.0.0.1:1,127.0.0.1:2/main")
    asking = asyncio.create_task(client.get_lock("a").acquire())
    await until(lambda: finder_of(client).sentinels.known[1].stream._last_error)
    await client.aclose()
    assert await asyncio.wait([asking])
    assert "the client was closed" in str(asking.exception())


@pytest.mark.parametrize("ends", [True, False], ids=["shut down", "closed"])
def test_another_event_loop(servers: EmbeddedSentinel, ends: bool) -> None:
    client = Redisson.from_url(servers.url)
    for _ in range(3):
        if ends:
            asyncio.run(use(client))
            continue
        loop = asyncio.new_event_loop()
        loop.run_until_complete(use(client))
        assert sockets(client) == 4
        loop.close()

    async def last() -> None:
        async with client:
            await use(client)

    asyncio.run(last())
    assert sockets(client) == 0


# What redis-py was opening is left to the garbage collector, as with one server.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_event_loop_that_is_closed_while_a_master_is_silent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def ask(client: Redisson) -> None:
        with pytest.raises(ConnectionLostError):
            await client.get_lock("a").acquire(timeout=0.1)

    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        client = Redisson.from_url(f"redis://{address},127.0.0.1:1")
        loop = asyncio.new_event_loop()
        loop.run_until_complete(ask(client))
        loop.close()
        asyncio.run(ask(client))
    gc.collect()
    assert not [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")]


def test_an_attempt_that_fails_in_the_last_iteration_of_its_event_loop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail() -> None:
        loop.stop()
        raise ConnectionLostError("refused", maybe_held=False)

    def in_an_event_loop_that_ends(finder: Finder) -> None:
        loop.call_soon(lambda: finder._begin(fail()))
        loop.run_forever()
        loop.close()
        finder.leave_behind()

    loop = asyncio.new_event_loop()
    in_an_event_loop_that_ends(finder_of(Redisson.from_url("redis+sentinel://127.0.0.1:1/main")))
    gc.collect()
    assert not caplog.records
