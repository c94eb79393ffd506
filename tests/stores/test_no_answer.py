"""A caller without an answer is told why there was none, and never a password."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from redisson_py import ConnectionLostError
from tests.stores.backends import BACKENDS, Backend

STORES = [name for name in BACKENDS if name != "redis"]
#: Seconds in which a first use gives up; every attempt here fails at once.
TIMEOUT = 1.5
REFUSED = r"[Cc]onnection refused|Connect call failed"
UNKNOWN = r"Name or service not known|no host in the URL has an address|address lookup failed"

pytestmark = pytest.mark.parametrize("backend", STORES, indirect=True)


@pytest.fixture
def nobody() -> Iterator[int]:
    """A port at which nothing listens, and nothing else will."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


async def answer_at(backend: Backend, url: str) -> str:
    """Return what a caller is told that asks for a lock there."""
    with pytest.raises(ConnectionLostError) as caught:
        async with backend.client(url, command_timeout=TIMEOUT) as client:
            await client.get_lock("k").acquire()
    assert not caught.value.maybe_held
    said = str(caught.value)
    password = re.search(r"//\w*:(\w+)@", url)
    assert password is None or password[1] not in said
    return said


async def test_a_port_without_a_server(backend: Backend, nobody: int) -> None:
    said = await answer_at(backend, backend.url_at(nobody))
    assert f"127.0.0.1:{nobody}" in said
    assert re.search(f"in time: .*({REFUSED})", said), said


async def test_a_host_without_an_address(backend: Backend) -> None:
    host = f"nohost.invalid:{backend.server.port}"
    url = backend.url.replace(f"127.0.0.1:{backend.server.port}", host)
    said = await answer_at(backend, url)
    assert f"from {client_title(backend)} at {host}" in said
    assert re.search(f"in time: .*({UNKNOWN})", said), said


async def test_a_server_that_has_gone_and_comes_back(backend: Backend) -> None:
    async with backend.client() as client:
        lock = client.get_lock("k")
        async with lock:
            pass
        await backend.kill()
        try:
            with pytest.raises(ConnectionLostError, match=rf"in time: .*({REFUSED})"):
                await lock.acquire(timeout=TIMEOUT)
        finally:
            await backend.restart()
        # What went wrong then is not said of what goes wrong next.
        async with lock:
            pass
        await backend.pause()
        try:
            with pytest.raises(ConnectionLostError, match=r"in time$"):
                await lock.acquire(timeout=TIMEOUT)
        finally:
            await backend.resume()


def client_title(backend: Backend) -> str:
    """Return what errors call the server."""
    client: Any = backend.client()
    return str(client._executor.carrier.store.title)
