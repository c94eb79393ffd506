"""What an error of the connection hangs on, and how long an attempt to connect may take."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py._redis.redis_py import servers_from_url
from redisson_py.errors import BackendError, ClientClosedError, ConnectionLostError, RedissonError
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory, ServerFactory
from tests.stream.conftest import TalkFactory
from tests.support.fake_peer import SILENCE, FakePeer, hello
from tests.support.passwords import chain
from tests.support.waiting import until, until_async

#: Nothing listens there.
NOWHERE = "redis://127.0.0.1:1"


async def failed(work: Awaitable[Any]) -> RedissonError:
    """Return the error that something ends with."""
    with pytest.raises(RedissonError) as caught:
        await work
    return caught.value


def check_chain(*errors: BaseException) -> None:
    """Check that nothing is its own cause, or that of what says the same."""
    for each in errors:
        found = chain(each)
        assert all(one.__cause__ is not one and one.__context__ is not one for one in found)
        texts = [(type(one), str(one)) for one in found]
        assert len(texts) == len(set(texts)), texts


CALLS: dict[str, Callable[[Redisson], Awaitable[Any]]] = {
    "ping": Redisson.ping,
    "try": lambda client: client.get_lock("k").try_acquire(timeout=0.3),
    "acquire": lambda client: client.get_lock("k").acquire(timeout=0.3),
    "multi": lambda client: client.get_multi_lock(
        client.get_lock("j"), client.get_lock("k")
    ).acquire(timeout=0.3),
    "permits": lambda client: client.get_semaphore("s", 1).acquire(timeout=0.3),
    "count": lambda client: client.get_latch("l").count_down(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_no_error_is_its_own_cause_without_a_server(
    clients: ClientFactory, call: Callable[[Redisson], Awaitable[Any]]
) -> None:
    client = clients(url=NOWHERE, command_timeout=0.3)
    found = await failed(call(client))
    check_chain(found)
    assert "127.0.0.1:1" in str(found)


async def test_what_fails_together_has_errors_of_its_own(
    server_factory: ServerFactory, clients: ClientFactory
) -> None:
    """Else what one task raises from it, or adds to it, is seen by the others."""
    server = await server_factory(password="pw")
    client = clients(url=server.url.replace("pw", "wrong"))
    errors = await asyncio.gather(*(failed(client.ping()) for _ in range(5)))
    assert len({id(each) for each in errors}) == 5
    assert len({str(each) for each in errors}) == 1
    assert all(type(each) is BackendError for each in errors)
    assert all(type(each.__cause__).__module__ == "redis.exceptions" for each in errors)


async def test_a_release_that_fails_is_not_its_own_cause(
    clients: ClientFactory, proxy: ProxyFactory
) -> None:
    link = await proxy()
    client = clients(url=link.url, command_timeout=2)
    lock = client.get_lock("k")
    lease = await lock.acquire(lease_time=60)
    link.refuse()
    link.cut()
    check_chain(await failed(lease.release()))
    link.pass_through()

    async def free() -> bool:
        # The release is repeated, sooner or later.
        with suppress(ConnectionLostError):
            return not await lock.locked()
        return False

    await until_async(free)


@pytest.mark.parametrize("way", ["url", "client"])
async def test_an_attempt_to_connect_takes_as_long_as_the_user_says(way: str) -> None:
    async with FakePeer() as peer:
        peer.greeting = SILENCE
        if way == "url":
            client = Redisson.from_url(f"{peer.url}?socket_connect_timeout=0.2", command_timeout=2)
        else:
            theirs = Redis.from_url(peer.url, socket_connect_timeout=0.2)
            client = Redisson(theirs, command_timeout=2)
        found = await failed(client.ping())
        assert "within 0.2 s" in str(found)
        # The attempts that one of a second or more would have left no time for.
        assert len(peer.links) > 1
        await client.aclose()


def test_an_attempt_may_take_longer_than_redis_py_allows() -> None:
    """Its own timeouts do not come before ours."""
    connector = servers_from_url("redis://127.0.0.1:1?socket_connect_timeout=60", None).connector
    connection = connector.connection_class(**connector.settings)
    assert (connector.connect_timeout, connection.socket_connect_timeout) == (60, None)
    assert connection.socket_timeout is None


async def test_socket_timeout_bounds_a_call(clients: ClientFactory) -> None:
    async with FakePeer() as peer:
        peer.otherwise = SILENCE
        client = clients(url=f"{peer.url}?socket_timeout=0.2")
        async with asyncio.timeout(4):  # the default is 5 s
            found = await failed(client.ping())
        assert isinstance(found, ConnectionLostError)


async def test_closing_while_a_server_is_greeted(
    talks: TalkFactory, peer: FakePeer, caplog: pytest.LogCaptureFixture
) -> None:
    """The caller is told, and nobody else."""
    # The first HELLO is redis-py's.
    greetings = [hello(), SILENCE]
    peer.greeting = lambda _: greetings.pop(0)
    talk = await talks()
    call = talk.call("GET", "k")
    await until(lambda: not greetings)
    await talk.stream.close(ClientClosedError("closed"))
    with pytest.raises(ClientClosedError):
        await call.future
    assert talk._running is not None
    await asyncio.wait([talk._running])
    assert "background task" not in caplog.text
