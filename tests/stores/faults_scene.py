"""What the tests of faults share: proxies, a network that misbehaves, losses, other processes.

Run as `python -m tests.stores.faults_scene STORE URL hold NAME LEASE` it holds a lock and prints
`held`, then `lost: REASON` and how its late release ended. As `... count NAME FILE` it adds 1 to
the number in a file, 60 times under the lock, and prints `counted`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from redisson_py import ConnectionLostError, LeaseLostError, RedissonError, ReleaseFailedError
from redisson_py.testing import FaultProxy
from tests.stores.backends import BACKENDS, LEASE, Backend
from tests.support.any_client import Client

#: Seconds for what must happen soon, however busy the machine is.
SOON = 10.0
INCREMENTS = 60


def proxied(backend: Backend) -> FaultProxy:
    """Return a proxy in front of the server of a store."""
    return FaultProxy.in_front_of(backend.url, raw=True)


class BadNetwork:
    """Loses answers, requests and connections, as a seed says.

    What lost bytes is cut before anything goes on, as TCP would. Between two faults some work is
    done.

    Args:
        proxy: Where.
        seed: For what is done, and when.
        work: Returns how much work was done.

    Attributes:
        faults: How often each was done.
    """

    def __init__(self, proxy: FaultProxy, seed: int, work: Callable[[], int]) -> None:
        self.faults: Counter[str] = Counter()
        self._work = work
        self._proxy = proxy
        self._random = random.Random(seed)

    async def run(self) -> None:
        """Misbehave until this is cancelled; then the network is well again."""
        try:
            while True:
                before, more = self._work(), self._random.randrange(1, 16)
                while self._work() < before + more:
                    await asyncio.sleep(0.001)
                await asyncio.sleep(self._random.uniform(0.0, 0.01))
                fault = self._random.choice((self._lose_answer, self._cut_behind, self._go_dark))
                await fault()
                self._proxy.cut()
                self._proxy.pass_through()
        finally:
            self._proxy.cut()
            self._proxy.pass_through()

    async def _lose_answer(self) -> None:
        """Let the server carry out what comes, and drop what it answers."""
        before = self._proxy.down.bytes_in
        self._proxy.black_hole("down")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                await self._proxy.wait_until(lambda proxy: proxy.down.bytes_in > before)
                self.faults["answers lost"] += 1

    async def _cut_behind(self) -> None:
        """Cut the connections right after a request was passed on."""
        before = self._proxy.up.bytes_out
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                await self._proxy.wait_until(lambda proxy: proxy.up.bytes_out > before)
                self.faults["cut behind a request"] += 1

    async def _go_dark(self) -> None:
        """Let everything disappear."""
        self._proxy.black_hole()
        self.faults["black holes"] += 1
        await asyncio.sleep(self._random.uniform(0.01, 0.1))


def lock_of(client: Any, name: str, kind: str) -> Any:
    """Return a lock: `fenced`, or what not every store has: `read`, `write` and `semaphore`."""
    if kind == "fenced":
        return client.get_fenced_lock(name)
    if kind == "semaphore":
        return client.get_semaphore_mutex(name)
    both = client.get_read_write_lock(name)
    return both.read_lock() if kind == "read" else both.write_lock()


class Ledger:
    """What tasks of several clients did under one name.

    Attributes:
        grants: How often it was acquired.
        tokens: The fencing tokens, in the order of the grants.
        done: How often each thing happened.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.grants = 0
        self.tokens: list[int] = []
        self.done: Counter[str] = Counter()
        self._inside: Counter[str] = Counter()

    async def work(self, client: Client, kind: str, enough: Callable[[], bool], seed: int) -> None:
        """Acquire, extend and release until it is enough; lost connections may end each of them."""
        chance = random.Random(seed)
        lock = lock_of(client, self.name, kind)
        while not enough():
            try:
                lease = await lock.acquire()
            except ConnectionLostError as error:
                self.done["acquires lost, maybe held" if error.maybe_held else "not sent"] += 1
                continue
            others = self._inside - Counter(read=self._inside["read"] if kind == "read" else 0)
            assert others.total() == 0, "two holders"
            self._inside[kind] += 1
            self.grants += 1
            if kind == "fenced":
                self.tokens.append(lease.token)
            try:
                await asyncio.sleep(chance.uniform(0.0, 0.004))
                if chance.random() < 0.3:
                    await lease.extend(10 * LEASE)
                    self.done["extended"] += 1
            except ConnectionLostError:
                self.done["extensions lost"] += 1
            finally:
                assert not lease.lost
                self._inside[kind] -= 1
            try:
                await lease.release()
                self.done["released"] += 1
            except (ConnectionLostError, ReleaseFailedError):
                self.done["releases lost"] += 1

    def check(self) -> None:
        """Fail unless each token is greater than the one before."""
        assert self.tokens == sorted(set(self.tokens))


async def take_away(backend: Backend, name: str) -> None:
    """Delete what a store keeps of a lock, with the tools of its administrators."""
    kind = type(backend).__name__.removesuffix("Backend")
    if kind == "Redis":
        async with backend.client() as client:
            await client.get_lock(name).force_release()
    elif kind == "Postgres":
        import asyncpg

        link = await asyncpg.connect(backend.url)
        try:
            await link.execute("DELETE FROM redisson_py_locks WHERE name = $1", name)
        finally:
            await link.close()
    elif kind == "MySQL":
        await backend.server.sql(f"DELETE FROM redisson_py_locks WHERE name = '{name}'")
    elif kind == "Etcd":
        await asyncio.to_thread(backend.server.ctl, "del", "--prefix", f"{name}/")
    else:
        await asyncio.to_thread(_delete_nodes, backend, name)


def _delete_nodes(backend: Backend, name: str) -> None:
    from kazoo.client import KazooClient

    link = KazooClient(backend.url.removeprefix("zookeeper://"))
    link.start()
    try:
        link.delete(f"/redisson_py/{name}", recursive=True)
    finally:
        link.stop()
        link.close()


async def end_session(backend: Backend, client: Client) -> None:
    """Have the server end the session of a client, where it has one."""
    store: Any = client._store  # type: ignore[union-attr]
    if type(backend).__name__ == "EtcdBackend":
        number = store._sessions.current.number
        await asyncio.to_thread(backend.server.ctl, "lease", "revoke", f"{number:x}")
    else:
        number, password = store._ensemble._session._client.client_id
        await asyncio.to_thread(_close_session, backend, number, password)


def _close_session(backend: Backend, number: int, password: bytes) -> None:
    from kazoo.client import KazooClient

    link = KazooClient(
        backend.url.removeprefix("zookeeper://"), client_id=(number, password), timeout=LEASE
    )
    # The session moves to this connection, and ends with it.
    link.start()
    assert link.client_id is not None
    assert link.client_id[0] == number
    link.stop()
    link.close()


class Process:
    """Another process that uses the store: see the top of this module."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def line(self) -> str:
        """Return the next line that it prints."""
        assert self.process.stdout is not None
        async with asyncio.timeout(3 * SOON):
            return (await self.process.stdout.readline()).decode().strip()


@asynccontextmanager
async def another_process(store: str, url: str, *what: object) -> AsyncGenerator[Process, None]:
    """Start another process, which is killed in the end if it still runs."""
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.stores.faults_scene", store, url, *map(str, what)),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    try:
        yield Process(started)
    finally:
        with contextlib.suppress(ProcessLookupError):
            started.kill()
        await started.wait()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


async def _hold(client: Client, name: str) -> None:
    lease = None
    try:
        async with client.get_lock(name) as lease:
            _say("held")
            # Short sleeps: a stopped process that wakes must not find one of them over.
            for _ in range(6000):
                await asyncio.sleep(0.01)
    except LeaseLostError as error:
        _say(f"lost: {error.reason}")
        assert lease is not None
        try:
            await lease.release()
        except RedissonError as late:
            _say(type(late).__name__)
        else:
            _say("released")


async def _count(client: Client, name: str, file: Path) -> None:
    for _ in range(INCREMENTS):
        async with client.get_lock(name):
            seen = int(await asyncio.to_thread(file.read_text))
            await asyncio.to_thread(file.write_text, str(seen + 1))
    _say("counted")


async def _main(store: str, url: str, what: str, name: str, last: str) -> None:
    kind: Any = BACKENDS[store]
    # Without its server: only the class is wanted, to make a client.
    backend: Backend = object.__new__(kind)
    lease = float(last) if what == "hold" else 10 * LEASE
    async with backend.client(url, lease_time=lease) as client:
        await (_hold(client, name) if what == "hold" else _count(client, name, Path(last)))


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
