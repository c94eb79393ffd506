"""The stores that the contract is tested over: a real server of each, and clients of it."""

from __future__ import annotations

import asyncio
import tempfile
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from redisson_py import Redisson
from redisson_py.testing import EmbeddedServer, FaultProxy
from tests.fixtures.redis_server import unavailable
from tests.support import any_client
from tests.support.all_permits import AllPermits

Client = any_client.Client

#: Seconds of a lease whose end a test waits for. etcd counts whole ones.
LEASE = 3.0
#: Seconds of the leases of clients: a busy machine may stop for a few, and they must not end then.
#: A renewal, which may be what notices a loss, comes after a third of it.
CLIENT_LEASE = 4 * LEASE


class Backend(ABC):
    """One store on a server of its own, which runs until `close`.

    Attributes:
        polls: Its waiters ask again; it wakes none of them.
        ends_leases: It ends a `lease_time` by itself. If not, the client renews until then, and can
            rely on no more than one renewal.
        forks: Its client works in a process that was forked after one was used.
        session: Seconds after which it frees what a client held that died.
        precision: By how many seconds what it says of a lease may differ.
    """

    polls = False
    ends_leases = True
    forks = True
    session = CLIENT_LEASE
    precision = 0.0

    def __init__(self) -> None:
        self.running = ExitStack()
        self.server: Any = None

    @property
    def url(self) -> str:
        """The URL of its server."""
        return str(self.server.url)

    def url_at(self, port: int) -> str:
        """Return the URL of its server at another port, which is that of a proxy."""
        return self.url.replace(f":{self.server.port}", f":{port}")

    def proxy(self) -> FaultProxy:
        """Make a proxy in front of its server."""
        return FaultProxy.in_front_of(self.url, raw=True)

    @abstractmethod
    def client(self, url: str = "", **options: Any) -> Client:
        """Make a client; without another URL one of its server."""

    def close(self) -> None:
        """End its server."""
        self.running.close()

    async def pause(self) -> None:
        """Stop the processes of its server."""
        await asyncio.to_thread(self.server.pause)

    async def resume(self) -> None:
        """Let them go on."""
        await asyncio.to_thread(self.server.resume)

    async def kill(self) -> None:
        """Kill its server."""
        await asyncio.to_thread(self.server.kill)

    async def restart(self) -> None:
        """Start the killed server again, with what it had written."""
        await asyncio.to_thread(self.server.start)


class RedisBackend(Backend):
    """Valkey."""

    def __init__(self) -> None:
        super().__init__()
        self.server = EmbeddedServer(appendonly=True)
        asyncio.run(self.server.start())
        self.running.callback(lambda: asyncio.run(self.server.close()))

    def client(self, url: str = "", **options: Any) -> Client:
        return Redisson.from_url(url or self.url, **{"lease_time": CLIENT_LEASE, **options})

    async def pause(self) -> None:
        await self.server.pause()

    async def resume(self) -> None:
        await self.server.resume()

    async def kill(self) -> None:
        await self.server.kill()

    async def restart(self) -> None:
        await self.server.start()


class DatabaseBackend(Backend):
    """PostgreSQL or MySQL, with SQL beside the store."""

    @abstractmethod
    def store(self, port: int = 0, connections: int = 4) -> Any:
        """Make a store without an engine, perhaps through another port."""

    @abstractmethod
    def row_locked(self, name: str) -> AbstractAsyncContextManager[None]:
        """Have a user lock the row of a name for the time of a block."""

    @abstractmethod
    async def sql(self, *statements: str) -> list[Any]:
        """Carry statements out as an administrator; return the rows of the last one."""


class PostgresBackend(DatabaseBackend):
    """PostgreSQL."""

    def __init__(self, version: int = 18) -> None:
        from tests.stores.postgres.server import running_postgres

        super().__init__()
        self.server = self.running.enter_context(running_postgres(version))

    def client(self, url: str = "", **options: Any) -> Client:
        from redisson_py.postgres import Postgres

        return Postgres.from_url(url or self.url, **{"lease_time": CLIENT_LEASE, **options})

    def store(self, port: int = 0, connections: int = 4) -> Any:
        from redisson_py._stores.postgres import PostgresStore

        return PostgresStore(self.url_at(port or self.server.port), connections=connections)

    @asynccontextmanager
    async def row_locked(self, name: str) -> AsyncGenerator[None]:
        from tests.stores.postgres.scene import connected

        async with connected(self.url) as user, user.transaction():
            await user.execute(f"SELECT FROM redisson_py_locks WHERE name = '{name}' FOR UPDATE")
            yield

    async def sql(self, *statements: str) -> list[Any]:
        from tests.stores.postgres.scene import connected

        rows: list[Any] = []
        async with connected(self.url) as admin:
            for statement in statements:
                rows = await admin.fetch(statement)
        return [tuple(row) for row in rows]


class MySQLBackend(DatabaseBackend):
    """MariaDB."""

    polls = True

    def __init__(self) -> None:
        from tests.stores.mysql.server import running_mariadb

        super().__init__()
        self.server = self.running.enter_context(running_mariadb())

    @property
    def url(self) -> str:
        return str(self.server.url())

    def client(self, url: str = "", **options: Any) -> Client:
        from redisson_py.mysql import MySQL

        return MySQL.from_url(url or self.url, **{"lease_time": CLIENT_LEASE, **options})

    def store(self, port: int = 0, connections: int = 4) -> Any:
        from redisson_py._stores.mysql import MySQLStore

        return MySQLStore.from_url(self.server.url(f"?connections={connections}", port=port))

    @asynccontextmanager
    async def row_locked(self, name: str) -> AsyncGenerator[None]:
        async with self.server.admin() as user:
            await user.execute("BEGIN")
            await user.execute(f"SELECT 1 FROM redisson_py_locks WHERE name = '{name}' FOR UPDATE")
            yield
            await user.execute("ROLLBACK")

    async def sql(self, *statements: str) -> list[Any]:
        return list(await self.server.sql(*statements))


class EtcdBackend(Backend):
    """One member of etcd."""

    forks = False
    precision = 1.0

    def __init__(self) -> None:
        from tests.stores.etcd.server import EtcdServer

        super().__init__()
        self.server = self.running.enter_context(EtcdServer())

    def client(self, url: str = "", **options: Any) -> Client:
        from redisson_py.etcd import Etcd

        return Etcd.from_url(url or self.url, **{"lease_time": CLIENT_LEASE, **options})


class ZooKeeperBackend(Backend):
    """One server of ZooKeeper."""

    ends_leases = False
    session = 4 / 3 * CLIENT_LEASE

    def __init__(self) -> None:
        from tests.stores.zookeeper.server import class_path, running_zookeeper

        super().__init__()
        class_path()  # raises where there is no ZooKeeper, before a folder is made
        folder = Path(self.running.enter_context(tempfile.TemporaryDirectory()))
        self.server = self.running.enter_context(running_zookeeper(folder))

    def client(self, url: str = "", **options: Any) -> Client:
        from redisson_py.zookeeper import ZooKeeper

        return ZooKeeper.from_url(url or self.url, **{"lease_time": CLIENT_LEASE, **options})


BACKENDS: dict[str, Callable[[], Backend]] = {
    "redis": RedisBackend,
    "postgres": PostgresBackend,
    "mysql": MySQLBackend,
    "etcd": EtcdBackend,
    "zookeeper": ZooKeeperBackend,
}


def started(name: str) -> Backend:
    """Start the server of a store; a test without it is skipped, and fails in CI."""
    try:
        return BACKENDS[name]()
    except (ImportError, FileNotFoundError) as error:
        unavailable(f"no server for {name}: {error}")


def lock_of(client: Any, name: str, kind: str) -> Any:
    """Return a lock: `fenced`, or what not every store has.

    That is a side, `read` or `write`; `semaphore`, a semaphore mutex; and `permit`, a semaphore
    with one permit.
    """
    if kind == "fenced":
        return client.get_fenced_lock(name)
    if kind == "semaphore":
        return client.get_semaphore_mutex(name)
    if kind == "permit":
        return AllPermits(client.get_semaphore(name, 1), 1)
    both = client.get_read_write_lock(name)
    return both.read_lock() if kind == "read" else both.write_lock()
