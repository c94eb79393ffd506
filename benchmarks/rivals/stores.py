"""Locks on stores other than Redis: ours, and what a user of each store would take there.

A rival of PostgreSQL or MySQL keeps a connection for each task or thread: its lock belongs to one.
Drivers are imported where they are needed: each side is a process of its own, and has one.
"""

from __future__ import annotations

import hashlib
import warnings
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from importlib import import_module
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

from benchmarks.rivals.kinds import LOCK
from benchmarks.rivals.side import LEASE, CannotError, TaskSide, ThreadSide

#: The client of each scheme.
_CLIENTS = {
    "postgresql": ("redisson_py.postgres", "Postgres"),
    "mysql": ("redisson_py.mysql", "MySQL"),
    "etcd": ("redisson_py.etcd", "Etcd"),
    "zookeeper": ("redisson_py.zookeeper", "ZooKeeper"),
}


def _driver(module: str, name: str) -> Any:
    """Return what a driver has under a name.

    Raises:
        CannotError: It is not installed.
    """
    try:
        return getattr(import_module(module), name)
    except ImportError as error:
        raise CannotError(f"not installed ({error})") from error


class OursOnStore(TaskSide):
    """One client with default options: every lock is renewed by the watchdog."""

    async def open(self, url: str) -> None:
        """Make a client and connect."""
        module, name = _CLIENTS[urlsplit(url).scheme]
        self._client: Any = _driver(module, name).from_url(url)
        await self._client.ping()

    async def close(self) -> None:
        """Close the client."""
        await self._client.aclose()

    def lock(self, name: str) -> AbstractAsyncContextManager[Any]:
        """Return a reentrant lock."""
        lock: AbstractAsyncContextManager[Any] = self._client.get_lock(name)
        return lock

    async def pairs(self, name: str, end: float, kind: str = LOCK) -> int:
        """As every side, by the line that a user writes."""
        assert kind == LOCK
        get = self._client.get_lock
        done = 0
        while not done or perf_counter() < end:
            async with get(name):
                done += 1
        return done


class AdvisoryLock(TaskSide):
    """PostgreSQL's advisory lock of a session, by asyncpg."""

    async def open(self, url: str) -> None:
        """Remember the server; each lock connects when it is first entered."""
        self._url = url
        self._locks: dict[str, _Advisory] = {}
        self._connect: Any = _driver("asyncpg", "connect")

    async def close(self) -> None:
        """Connections end with the process."""

    def lock(self, name: str) -> AbstractAsyncContextManager[Any]:
        """Return a lock with a connection of its own, the same for each round of a name."""
        if name not in self._locks:
            self._locks[name] = _Advisory(self, name)
        return self._locks[name]

    async def connect(self) -> Any:
        """Return a new connection."""
        return await self._connect(self._url)


class _Advisory:
    def __init__(self, side: AdvisoryLock, name: str) -> None:
        self._side = side
        digest = hashlib.sha256(name.encode()).digest()
        self._key = int.from_bytes(digest[:8], "big", signed=True)
        self._connection: Any = None

    async def __aenter__(self) -> None:
        if self._connection is None:
            self._connection = await self._side.connect()
        await self._connection.execute("SELECT pg_advisory_lock($1)", self._key)

    async def __aexit__(self, *_: object) -> None:
        await self._connection.execute("SELECT pg_advisory_unlock($1)", self._key)


class GetLock(TaskSide):
    """MySQL's GET_LOCK, by asyncmy."""

    async def open(self, url: str) -> None:
        """Remember the server; each lock connects when it is first entered."""
        server = urlsplit(url)
        self._login = {
            "host": server.hostname,
            "port": server.port,
            "user": server.username,
            "password": server.password,
            "autocommit": True,
        }
        self._locks: dict[str, _GetLock] = {}
        self._connect: Any = _driver("asyncmy", "connect")

    async def close(self) -> None:
        """Connections end with the process."""

    def lock(self, name: str) -> AbstractAsyncContextManager[Any]:
        """Return a lock with a connection of its own, the same for each round of a name."""
        if name not in self._locks:
            self._locks[name] = _GetLock(self, name)
        return self._locks[name]

    async def cursor(self) -> Any:
        """Return a cursor of a new connection."""
        connection = await self._connect(**self._login)
        return connection.cursor()


class _GetLock:
    def __init__(self, side: GetLock, name: str) -> None:
        self._side = side
        self._name = hashlib.sha256(name.encode()).hexdigest()[:60]
        self._cursor: Any = None

    async def __aenter__(self) -> None:
        if self._cursor is None:
            self._cursor = await self._side.cursor()
        await self._cursor.execute("SELECT GET_LOCK(%s, 60)", (self._name,))
        assert await self._cursor.fetchone() == (1,)

    async def __aexit__(self, *_: object) -> None:
        await self._cursor.execute("SELECT RELEASE_LOCK(%s)", (self._name,))
        await self._cursor.fetchone()


class Aetcd(TaskSide):
    """aetcd's lock: a key and a lease for each acquisition, not renewed; waits by a watch."""

    async def open(self, url: str) -> None:
        """Connect."""
        server = urlsplit(url)
        client: Any = _driver("aetcd", "Client")
        self._client = client(host=server.hostname, port=server.port)
        await self._client.connect()

    async def close(self) -> None:
        """Disconnect."""
        await self._client.close()

    def lock(self, name: str) -> AbstractAsyncContextManager[Any]:
        """Return a lock with our default lease."""
        lock: AbstractAsyncContextManager[Any] = self._client.lock(name.encode(), ttl=LEASE)
        return lock


class Kazoo(ThreadSide):
    """kazoo's Lock: one client and its session for all threads."""

    async def open(self, url: str) -> None:
        """Connect."""
        client: Any = _driver("kazoo.client", "KazooClient")
        self._client = client(hosts=urlsplit(url).netloc, timeout=LEASE)
        self._client.start()

    async def close(self) -> None:
        """Disconnect."""
        self._client.stop()
        self._client.close()

    def lock(self, name: str) -> AbstractContextManager[Any]:
        """Return a lock."""
        lock: AbstractContextManager[Any] = self._client.Lock(f"/kazoo/{name}")
        return lock


class Tooz(ThreadSide):
    """tooz's lock on PostgreSQL, MySQL or ZooKeeper: one coordinator for all threads."""

    async def open(self, url: str) -> None:
        """Connect. Its drivers of databases are said to be removed one day: it warns of that."""
        warnings.simplefilter("ignore")
        get: Any = _driver("tooz.coordination", "get_coordinator")
        self._coordinator = get(url, b"benchmark")
        self._coordinator.start()

    async def close(self) -> None:
        """Disconnect."""
        self._coordinator.stop()

    def lock(self, name: str) -> AbstractContextManager[Any]:
        """Return a lock."""
        lock: AbstractContextManager[Any] = self._coordinator.get_lock(name.encode())
        return lock
