"""How an outage is told: to callers, at once to one without patience, to a listener, to the log."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
import pytest_asyncio

from redisson_py import ConnectionLostError, Listener
from redisson_py._listener import ConnectionLostEvent, ConnectionRestoredEvent
from redisson_py.testing import FaultProxy
from tests.stores.backends import BACKENDS, Backend
from tests.stores.traces import SOON
from tests.support.waiting import until

#: Seconds: much longer than a test waits; and in which every attempt has failed.
PATIENCE, SHORT = 30.0, 1.5
CALLS: dict[str, Callable[[Any], Awaitable[object]]] = {
    "acquire": lambda client: client.get_lock("k").acquire(timeout=0),
    "try_acquire": lambda client: client.get_lock("k").try_acquire(),
    "ping": lambda client: client.ping(timeout=0),
}
REFUSED = r"[Cc]onnection refused|Connect call failed"
UNKNOWN = r"Name or service not known|no host in the URL has an address|address lookup failed"
other_stores = pytest.mark.parametrize(
    "backend", [name for name in BACKENDS if name != "redis"], indirect=True
)


class Outages(Listener):
    """Keeps what it hears of outages."""

    def __init__(self) -> None:
        self.begun: list[ConnectionLostEvent] = []
        self.ended: list[ConnectionRestoredEvent] = []

    def connection_lost(self, event: ConnectionLostEvent, /) -> None:
        self.begun.append(event)

    def connection_restored(self, event: ConnectionRestoredEvent, /) -> None:
        self.ended.append(event)


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


@pytest.mark.parametrize("call", CALLS)
async def test_a_call_without_patience_fails_with_the_first_attempt(
    call: str, backend: Backend, nobody: int
) -> None:
    url = backend.url_at(nobody)
    async with backend.client(url, command_timeout=PATIENCE) as client:
        # Beside one that waits.
        patient = asyncio.create_task(client.ping())
        async with asyncio.timeout(SOON):
            with pytest.raises(ConnectionLostError) as caught:
                await CALLS[call](client)
            assert not caught.value.maybe_held
        assert not patient.done()
        patient.cancel()


async def test_a_server_that_has_gone_and_comes_back(backend: Backend) -> None:
    async with backend.client(command_timeout=PATIENCE) as client:
        lock = client.get_lock("k")
        async with lock:
            pass
        await backend.kill()
        try:
            async with asyncio.timeout(SOON):
                for call in CALLS.values():
                    with pytest.raises(ConnectionLostError):
                        await call(client)
            with pytest.raises(ConnectionLostError) as refused:
                await lock.acquire(timeout=SHORT)
        finally:
            await backend.restart()
        # What went wrong then is not said of what goes wrong next.
        async with lock:
            pass
        await backend.pause()
        try:
            with pytest.raises(ConnectionLostError) as silent:
                await lock.acquire(timeout=SHORT)
        finally:
            await backend.resume()
    if type(backend).__name__ != "RedisBackend":
        assert re.search(rf"in time: .*({REFUSED})", str(refused.value))
        assert str(silent.value).endswith("in time")


@other_stores
@pytest.mark.parametrize("why", [REFUSED, UNKNOWN], ids=["no server", "no address"])
async def test_a_caller_learns_why_and_no_password(backend: Backend, nobody: int, why: str) -> None:
    port = nobody if why == REFUSED else backend.server.port
    host = "127.0.0.1" if why == REFUSED else "nohost.invalid"
    url = backend.url_at(port).replace("127.0.0.1", host)
    client: Any = backend.client(url, command_timeout=SHORT)
    with pytest.raises(ConnectionLostError) as caught:
        async with client:
            await client.get_lock("k").acquire()
    assert not caught.value.maybe_held
    said = str(caught.value)
    assert f"from {client._executor.carrier.store.title} at {host}:{port}" in said
    assert re.search(f"in time: .*({why})", said), said
    password = re.search(r"//\w*:(\w+)@", url)
    assert password is None or password[1] not in said


@pytest.mark.parametrize("silent", [False, True], ids=["refused", "silent"])
async def test_an_outage_is_reported_once_and_so_is_its_end(
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
        assert not heard.ended
        proxy.cut()
        proxy.pass_through()
        # The pauses between attempts to connect may be as long as the client's patience.
        await client.ping(timeout=SOON)
        async with lock:
            pass
        await until(lambda: len(heard.ended) == 1)
        assert len(heard.begun) == client.statistics().reconnects == 1
    (lost,), (restored,) = heard.begun, heard.ended
    assert lost.where == restored.where
    assert lost.why
    texts = [each.getMessage() for each in caplog.records]
    assert sum("onnection to" in each for each in texts) == 1
    assert sum(each.startswith("connected to ") for each in texts) == 1
