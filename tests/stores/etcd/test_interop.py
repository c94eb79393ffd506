"""Our locks, `etcdctl lock`, and what only Go's `concurrency.Mutex` has; see `test_interop`."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any, Self

import pytest

from redisson_py import LeaseLostError
from redisson_py._stores.locks import FencedStoreLock
from tests.fixtures.backends import Running
from tests.stores.backends import Backend
from tests.stores.etcd.client import PATIENCE
from tests.stores.etcd.server import EtcdServer, environment
from tests.stores.test_interop import LONG, lock_of, queued
from tests.stores.workers import Worker, WorkerError
from tests.support.any_client import Client

pytestmark = pytest.mark.usefixtures("no_polls")

_numbers = itertools.count(1)


@pytest.fixture
def backend(running_backend: Running) -> Backend:
    return running_backend("etcd")


@pytest.fixture
def server(backend: Backend) -> EtcdServer:
    assert isinstance(backend.server, EtcdServer)
    return backend.server


@pytest.fixture(params=["plain", "with/a slash", "/locks/orders", "ends/"])
def odd(request: pytest.FixtureRequest) -> str:
    return f"{request.param}{next(_numbers)}{'/' * request.param.endswith('/')}"


@pytest.fixture
def name() -> str:
    return f"interop{next(_numbers)}"


class EtcdctlLock:
    """`etcdctl lock NAME COMMAND`, whose command tells the key and lasts while a file is there."""

    def __init__(self, server: EtcdServer, name: str, file: Path) -> None:
        self._file = file
        waits = 'echo "$ETCD_LOCK_KEY"; while [ -e "$0" ]; do sleep 0.02; done'
        self._command = server.command("lock", "--ttl", "5", "--", name, "sh", "-c", waits)
        self._command.append(str(file))

    async def __aenter__(self) -> Self:
        self._file.touch()
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdout=asyncio.subprocess.PIPE, env=environment()
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._file.unlink(missing_ok=True)
        if self._process.returncode is None:
            self._process.kill()
            await self._process.communicate()

    async def held(self) -> str:
        """Return its key, when it has the lock."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            return (await self._process.stdout.readline()).decode().rstrip("\n")

    async def release(self) -> None:
        """Let the command end."""
        self._file.unlink()
        async with asyncio.timeout(PATIENCE):
            await self._process.communicate()
        assert self._process.returncode == 0


async def test_etcdctl_and_we_take_turns(
    server: EtcdServer, client: Client, other: Client, odd: str, tmp_path: Path
) -> None:
    lock = lock_of(client, odd)
    # Under an etcd lease of its own; the key is the same.
    lease = await lock.acquire(lease_time=60)
    async with EtcdctlLock(server, odd, tmp_path / "held") as etcdctl:
        await queued(lock, 1)
        snapshot = await lock.inspect()
        (their_owner,) = snapshot.waiters or ()
        assert snapshot.holders[0].remaining > 50
        assert snapshot.keys == (f"{odd}/",)
        waiting = asyncio.create_task(other.get_lock(odd).acquire())
        await queued(lock, 2)
        await lease.release()
        assert await etcdctl.held() == f"{odd}/{their_owner}"
        assert await lock.try_acquire() is None
        snapshot = await lock.inspect()
        # It writes no value: its lease stands for it.
        assert snapshot.holders[0].owner == their_owner
        assert 0 < snapshot.holders[0].remaining <= 5
        assert snapshot.waiters is not None
        assert len(snapshot.waiters) == 1
        assert snapshot.waiters[0].startswith(other.id)
        await etcdctl.release()
        await (await waiting).release()
    assert await asyncio.to_thread(server.keys, f"{odd}/") == []


async def test_tokens_grow_from_language_to_language(go: Worker, client: Client, name: str) -> None:
    lock = client.get_fenced_lock(name)
    assert isinstance(lock, FencedStoreLock)
    tokens = []
    for _ in range(2):
        async with lock as lease:
            tokens.append(lease.token)
        assert await go.acquire(name)
        holder = (await lock._state()).holder
        assert holder is not None
        assert await go.key(name) == f"{name}/{holder.owner}"
        tokens.append(holder.token)
        await go.release(name)
    assert tokens == sorted(set(tokens))


async def test_a_second_mutex_of_a_session_of_go_is_the_same_contender(
    go: Worker, client: Client, name: str
) -> None:
    assert await go.acquire(name)
    assert await go.acquire(name)
    waiting = asyncio.create_task(client.get_lock(name).acquire())
    await queued(lock_of(client, name), 1)
    await go.release(name)
    lease = await waiting
    with pytest.raises(WorkerError, match="already been released"):
        await go.release(name)
    assert not await go.acquire(name)
    await lease.release()


async def test_what_go_takes_for_contenders(go: Worker, client: Client, name: str) -> None:
    async with client.get_lock(f"{name}/inner"):
        assert not await go.acquire(name)
        async with client.get_lock(name):
            pass
    assert await go.acquire(f"{name}/inner")
    async with client.get_lock(name):
        pass


async def test_what_go_takes_for_contenders_of_both_kinds(
    go: Worker, client: Client, other: Client, name: str
) -> None:
    """Go's two kinds wait for each other, but for a reader; ours wait for Go's of one kind."""
    ours: Any = client
    sides = ours.get_read_write_lock(name)
    async with client.get_lock(name):
        assert not await go.acquire(f"write:{name}")
        assert await go.acquire(f"read:{name}", "reader", LONG)
        async with sides.read_lock():
            pass
    # A reader of Go's stays: its mutex waits for it, and our lock does not.
    assert not await go.acquire(name)
    async with client.get_lock(name):
        pass
    await go.release(f"read:{name}", "reader")
    async with sides.write_lock(), other.get_lock(name):
        assert not await go.acquire(name)
    assert await go.acquire(name)
    async with sides.write_lock(), sides.read_lock():
        pass
    await go.release(name)
    # What begins with `name/write` keeps Go's readers out.
    async with client.get_lock(f"{name}/writes"):
        assert not await go.acquire(f"read:{name}")
        async with sides.read_lock():
            pass


async def test_a_revoked_session_is_told_and_its_waiters_queue_again(
    server: EtcdServer, go: Worker, client: Client, name: str
) -> None:
    wanted = f"{name}-wanted"
    assert await go.acquire(wanted)
    waiting = asyncio.create_task(client.get_lock(wanted).acquire())
    with pytest.raises(LeaseLostError) as caught:
        async with client.get_lock(name):
            await queued(lock_of(client, wanted), 1)
            behind = asyncio.create_task(go.acquire(name, "behind", LONG))
            await queued(lock_of(client, name), 1)
            keys = await asyncio.to_thread(server.keys, f"{wanted}/")
            (ours,) = {key.rpartition("/")[2] for key in keys} - {
                (await go.key(wanted)).rpartition("/")[2]
            }
            await asyncio.to_thread(server.ctl, "lease", "revoke", ours)
            assert await behind
            await asyncio.sleep(LONG)
    assert caught.value.reason == "taken"
    await queued(lock_of(client, wanted), 1)
    assert not waiting.done()
    await go.release(wanted)
    await (await waiting).release()
    assert not await go.acquire(name), "another thread of Go has it"
