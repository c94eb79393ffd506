"""How an outage is reported: to the log, to a listener, and at once to callers without patience."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
import pytest_asyncio

from redisson_py import ConnectionLostError, Listener
from redisson_py._listener import ConnectionLostEvent, ConnectionRestoredEvent
from redisson_py.testing import FaultProxy
from tests.stores.backends import Backend
from tests.stores.traces import SOON
from tests.support.waiting import until

#: Seconds: much longer than a test waits.
PATIENCE = 30.0
CALLS: dict[str, Callable[[Any], Awaitable[object]]] = {
    "acquire": lambda client: client.get_lock("k").acquire(timeout=0),
    "try_acquire": lambda client: client.get_lock("k").try_acquire(),
    "ping": lambda client: client.ping(timeout=0),
}


class Outages(Listener):
    """Keeps what it hears of outages."""

    def __init__(self) -> None:
        self.begun: list[ConnectionLostEvent] = []
        self.over: list[ConnectionRestoredEvent] = []

    def connection_lost(self, event: ConnectionLostEvent, /) -> None:
        self.begun.append(event)

    def connection_restored(self, event: ConnectionRestoredEvent, /) -> None:
        self.over.append(event)


@pytest_asyncio.fixture
async def proxy(backend: Backend) -> AsyncIterator[FaultProxy]:
    async with backend.proxy() as proxy:
        yield proxy


@pytest.fixture
def nobody() -> Iterator[int]:
    """A port at which nothing listens, and nothing else will."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_call_without_patience_fails_with_the_first_attempt(
    call: Callable[[Any], Awaitable[object]], backend: Backend, nobody: int
) -> None:
    url = backend.url_at(nobody)
    async with backend.client(url, command_timeout=PATIENCE) as client:
        # Beside one that waits.
        patient = asyncio.create_task(client.ping())
        async with asyncio.timeout(SOON):
            with pytest.raises(ConnectionLostError) as caught:
                await call(client)
            assert not caught.value.maybe_held
        assert not patient.done()
        patient.cancel()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_it_fails_so_when_the_server_has_gone(
    call: Callable[[Any], Awaitable[object]], backend: Backend
) -> None:
    async with backend.client(command_timeout=PATIENCE) as client:
        async with client.get_lock("k"):
            pass
        await backend.kill()
        try:
            async with asyncio.timeout(SOON):
                for _ in range(3):
                    with pytest.raises(ConnectionLostError):
                        await call(client)
        finally:
            await backend.restart()
        async with client.get_lock("k"):
            pass


@pytest.mark.parametrize("silent", [False, True], ids=["refused", "silent"])
async def test_an_outage_is_told_once_and_so_is_its_end(
    silent: bool, backend: Backend, proxy: FaultProxy, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "redisson_py")
    heard = Outages()
    # With this lease, a silence of three seconds breaks a connection to Redis.
    options: dict[str, Any] = {"lease_time": 18, "command_timeout": 2.0}
    async with backend.client(proxy.url, listener=heard, **options) as client:
        lock = client.get_lock("k")
        async with lock:
            pass
        # A short wait in vain is no outage.
        proxy.delay(1.0, direction="down")
        with pytest.raises(ConnectionLostError):
            await lock.acquire(timeout=0.1)
        proxy.pass_through()
        async with lock:
            pass
        assert not heard.begun
        if silent:
            proxy.black_hole()
        else:
            proxy.refuse()
            proxy.cut()
        for _ in range(2):
            with pytest.raises(ConnectionLostError):
                await lock.acquire()
        await until(lambda: len(heard.begun) == 1)
        assert not heard.over
        proxy.cut()
        proxy.pass_through()
        # The pauses between attempts to connect may be as long as the client's patience.
        await client.ping(timeout=SOON)
        async with lock:
            pass
        await until(lambda: len(heard.over) == 1)
        assert len(heard.begun) == client.statistics().reconnects == 1
    (lost,), (restored,) = heard.begun, heard.over
    assert lost.where == restored.where
    assert lost.why
    told = [each.getMessage() for each in caplog.records]
    assert sum("onnection to" in each for each in told) == 1
    assert sum(each.startswith("connected to ") for each in told) == 1
