"""The store and `etcdctl lock`, which is Go's `concurrency.Mutex`, on the same names."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import AsyncIterator, Iterator
from typing import Self

import pytest
import pytest_asyncio

from redisson_py._stores.contract import Busy
from tests.stores.etcd_client import PATIENCE, Client, soon
from tests.stores.etcd_server import EtcdServer, environment

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[EtcdServer]:
    with EtcdServer() as started:
        yield started


@pytest.fixture(params=["plain", "with/a slash", "ends/"])
def name(request: pytest.FixtureRequest) -> str:
    return f"{next(_numbers)}-{request.param}"


@pytest_asyncio.fixture
async def client(server: EtcdServer) -> AsyncIterator[Client]:
    async with Client(server.url) as started:
        yield started


class EtcdctlLock:
    """A process that asks for a lock, prints its key when it has it, and waits for SIGINT."""

    def __init__(self, server: EtcdServer, name: str) -> None:
        self._command = server.command("lock", "--ttl", "5", name)

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdout=asyncio.subprocess.PIPE, env=environment()
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def held(self) -> str:
        """Return its key, when it has the lock."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            return (await self._process.stdout.readline()).decode().strip()

    async def release(self) -> None:
        self._process.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE):
            await self._process.wait()


async def test_we_wait_for_etcdctl(server: EtcdServer, client: Client, name: str) -> None:
    async with EtcdctlLock(server, name) as other:
        key = await other.held()
        assert await client.ask(name, "a:1") == Busy(None)
        assert await client.ask(name, "a:1", waits=True) == Busy(None)
        state = await client.store.look(name, soon())
        assert state.holder is not None
        # It writes no value: its lease stands for it.
        assert f"{name}/{state.holder.owner}" == key
        assert 0 < state.holder.remaining <= 5
        assert state.waiters == ("a:1",)
        await other.release()
        await client.bell.heard(name)
        granted = await client.granted(name, "a:1", waits=True)
        assert granted.token > state.holder.token
    assert server.keys(f"{name}/") == [f"{name}/{client.session.number:x}"]


async def test_etcdctl_waits_for_us(server: EtcdServer, client: Client, name: str) -> None:
    granted = await client.granted(name, "a:1")
    async with EtcdctlLock(server, name) as other:
        async with asyncio.timeout(PATIENCE):
            while not (state := await client.store.look(name, soon())).waiters:
                await asyncio.sleep(0.01)
        assert state.holder is not None
        assert (state.holder.owner, state.holder.token) == ("a:1", granted.token)
        held = asyncio.create_task(other.held())
        # A hold that is moved to a lease of its own is the same for it.
        await client.granted(name, "a:1", renewed=False, lease=60)
        moved = await client.store.look(name, soon())
        assert moved.holder is not None
        assert (moved.holder.owner, moved.holder.token) == ("a:1", granted.token)
        assert moved.holder.remaining > 50
        assert not held.done()
        assert await client.give_back(name, "a:1") is True
        assert await held == f"{name}/{state.waiters[0]}"
        assert await client.ask(name, "a:2", waits=True) == Busy(None)
        await other.release()
        await client.bell.heard(name)
        await client.granted(name, "a:2", waits=True)


async def test_etcdctl_and_we_take_turns(server: EtcdServer, client: Client, name: str) -> None:
    await client.granted(name, "a:1")
    async with EtcdctlLock(server, name) as other, Client(server.url) as third:
        async with asyncio.timeout(PATIENCE):
            while not (await client.store.look(name, soon())).waiters:
                await asyncio.sleep(0.01)
        assert await third.ask(name, "b:1", waits=True) == Busy(None)
        await client.give_back(name, "a:1")
        await other.held()
        assert await third.ask(name, "b:1", waits=True) == Busy(None)
        await other.release()
        await third.bell.heard(name)
        await third.granted(name, "b:1", waits=True)
