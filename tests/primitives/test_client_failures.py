"""The client's background task fails: it is told, and it is not the end of the client."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from redisson_py import ClientClosedError, ConnectionLostError
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.streams import answered_at, stream_of
from tests.support.waiting import until_async, until_listening, until_waiting

pytestmark = pytest.mark.also("floor")


async def test_failure_of_the_background_task_is_loud_and_not_the_end(
    clients: ClientFactory, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    client, other = clients(), clients()
    theirs = await other.get_lock("{k}theirs").acquire()
    async with client.get_lock("k") as lease:
        local = asyncio.create_task(client.get_lock("k").acquire())
        remote = asyncio.create_task(client.get_lock("{k}theirs").acquire())
        await until_waiting(client, 2)
        await until_listening(client)
        # Whatever goes wrong inside it: here, something that is not there.
        stream_of(client)._become_ready = None  # type: ignore[method-assign,assignment]
        stream_of(client).abort("test")
        for waiting in (remote, asyncio.create_task(answered_at(client, "k"))):
            with pytest.raises(ConnectionLostError, match=r"TypeError.*not callable") as caught:
                await waiting
            assert isinstance(caught.value.__cause__, TypeError)
        failures = [each for each in caplog.records if "background task" in each.getMessage()]
        assert failures
        assert all(each.exc_info and each.levelname == "ERROR" for each in failures)
        del stream_of(client)._become_ready
        # The next use finds it at work, and what was held is still held.
        await answered_at(client, "k")
        assert not lease.lost
        assert await client.get_lock("k").owned()
    await (await local).release()
    await theirs.release()
    async with client.get_lock("{k}theirs").hold(timeout=10):
        pass


async def test_what_must_arrive_survives_a_failure_of_the_background_task(
    clients: ClientFactory, redis: Redis
) -> None:
    client = clients()
    lease = await client.get_lock("k").acquire()
    stream_of(client)._become_ready = None  # type: ignore[method-assign,assignment]
    stream_of(client).abort("test")
    with pytest.raises(ConnectionLostError):
        await lease.release()
    assert await redis.exists("k")
    del stream_of(client)._become_ready
    await until_async(lambda: _is_free(redis, "k"))


async def _is_free(redis: Redis, key: str) -> bool:
    return not await redis.exists(key)


async def test_end_of_the_task_itself_is_loud_and_not_the_end(
    clients: ClientFactory, caplog: pytest.LogCaptureFixture
) -> None:
    client = clients()

    async def run() -> None:
        # Not an Exception: the task ends, however careful it is.
        raise GeneratorExit

    client._router.run = run  # type: ignore[method-assign]
    with pytest.raises(ConnectionLostError, match="GeneratorExit"):
        await client.ping()
    assert "background task" in caplog.text
    del client._router.run
    await client.ping()


async def test_closing_while_it_connects_is_no_failure(
    clients: ClientFactory, proxy: ProxyFactory, caplog: pytest.LogCaptureFixture
) -> None:
    link = await proxy()
    client = clients(link.url)
    # The last question before the connection is used.
    link.swallow_reply(b"*1\r\n$5\r\nHELLO\r\n", 1)
    asking = asyncio.create_task(client.get_lock("k").acquire())
    await link.wait_until(lambda link: link.triggered == 1)
    await client.aclose()
    with pytest.raises(ClientClosedError):
        await asking
    assert not [each for each in caplog.records if each.levelname == "ERROR"]
