"""The work behind the pytest fixtures: servers, clients, and repairing what a test broke.

pytest itself loads the module `_redisson_py_pytest`, which has the options and the fixtures. It
imports this module when a test first asks for one of the fixtures.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Final, Generic, Protocol, TypeVar, final
from urllib.parse import urlsplit

import pytest

from redisson_py import Redisson
from redisson_py.testing import (
    CommandError,
    EmbeddedCluster,
    EmbeddedSentinel,
    EmbeddedServer,
    ServerNotFoundError,
)

URL_VARIABLE: Final = "REDISSON_PY_TEST_URL"
_WORKER: Final = "{worker}"
#: Seconds within which unharmed servers must report that they are healthy.
_HEALTHY: Final = 5.0
#: Seconds in which a server must have emptied itself.
_ANSWERS: Final = 15.0


class _Servers(Protocol):
    @property
    def nodes(self) -> list[EmbeddedServer]: ...
    def start_blocking(self) -> None: ...
    def close_blocking(self) -> None: ...


_S = TypeVar("_S", bound=_Servers)


# One server


@final
class Database:
    """A database that tests may empty.

    Args:
        url: Its URL.
        command: The command that empties it.
        where: Its name in errors, without secrets of the URL.
        server: Its server, if we started it: we restart it if the database cannot be emptied.
    """

    def __init__(
        self, url: str, command: str, where: str, server: EmbeddedServer | None = None
    ) -> None:
        self.url: Final = url
        self._command: Final = command
        self._where: Final = where
        self._server: Final = server

    def empty(self) -> None:
        """Empty it; the test fails if that is not possible."""
        problem = self._emptied()
        if problem is not None and self._server is not None:
            # A test stopped it, or made it refuse or ignore clients.
            self._server.kill_blocking()
            self._server.start_blocking()
            problem = self._emptied()
        if problem is not None:
            pytest.fail(f"cannot empty {self._where}: {problem}", pytrace=False)

    def _emptied(self) -> str | None:
        """Empty it; return what went wrong."""
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        options = {"socket_timeout": _ANSWERS, "socket_connect_timeout": _ANSWERS}
        try:
            with redis.Redis.from_url(self.url, retry=Retry(NoBackoff(), 0), **options) as plain:
                plain.execute_command(self._command)
        except (redis.RedisError, OSError, ValueError) as error:
            # Neither the text nor the error itself: they may contain the URL.
            return type(error).__name__
        return None


@contextmanager
def database(config: pytest.Config) -> Generator[Database, None, None]:
    """Start a server for the session, or use the user's."""
    url = config.getoption("--redisson-url") or os.environ.get(URL_VARIABLE)
    if url:
        yield _named(url, config)
        return
    with _server_is_found():
        server = EmbeddedServer()
    try:
        server.start_blocking()
        yield Database(server.url, "FLUSHALL", "the server of the tests", server)
    finally:
        server.close_blocking()


def _named(url: str, config: pytest.Config) -> Database:
    """Return the database of the user's server, if it may be emptied."""
    source = "--redisson-url" if config.getoption("--redisson-url") else URL_VARIABLE
    if not url.startswith(("redis://", "rediss://")):
        pytest.fail(f"{source} must begin with redis:// or rediss://", pytrace=False)
    if not config.getoption("--redisson-flush"):
        pytest.fail(
            f"each test needs an empty database. If nobody else uses the one of {source}, add"
            " --redisson-flush (FLUSHDB before each test); or remove"
            f" {source}, and the tests start their own server. Nothing was deleted",
            pytrace=False,
        )
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1 and _WORKER not in url:
        pytest.fail(
            f"{workers} workers would empty each other's database: in {source}, put {_WORKER} in"
            f" place of the database number, as in redis://localhost/{_WORKER}",
            pytrace=False,
        )
    number = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    url = url.replace(_WORKER, number)
    return Database(url, "FLUSHDB", f"the database of {source} at {_host_of(url)}")


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or "localhost"
    except ValueError:
        return "an invalid host"


@contextmanager
def _server_is_found() -> Generator[None, None, None]:
    try:
        yield
    except ServerNotFoundError as error:
        message = (
            f"{error}. `pip install 'redisson-py[pytest]'` installs a server; or name yours with"
            " --redisson-url"
        )
        # Not `pytest.fail`: pytest would print the error that is being handled as well.
        raise pytest.fail.Exception(message, pytrace=False) from None


# Clients


@asynccontextmanager
async def client(url: str) -> AsyncGenerator[Redisson, None]:
    """Make a client, and close it in this event loop; fail if it is left in use."""
    made = Redisson.from_url(url)
    yield made
    await _close(made)


@contextmanager
def client_without_loop(url: str) -> Generator[Redisson, None, None]:
    """Make a client for a test that runs event loops itself."""
    made = Redisson.from_url(url)
    yield made
    _run_apart(_close(made))


async def _close(client: Redisson) -> None:
    left = client.statistics()
    await client.aclose()
    if left.held_leases or left.waiters:
        pytest.fail(
            f"the test left redisson_client in use (leases held: {left.held_leases}, tasks waiting:"
            f" {left.waiters}); the log record 'closing while still holding' names the leases",
            pytrace=False,
        )


# Topologies


@final
class Kept(Generic[_S]):
    """Servers that the session keeps, and lends to one test after the other.

    Args:
        make: Finds the binary; starts nothing.
        empty: Deletes all data; returns True.
        repair: Undoes what a test did; returns whether the next test can use them.
    """

    def __init__(
        self,
        make: Callable[[], _S],
        empty: Callable[[_S], Awaitable[bool]],
        repair: Callable[[_S], Awaitable[bool]],
    ) -> None:
        self._make: Final = make
        self._empty: Final = empty
        self._repair: Final = repair
        self._servers: _S | None = None
        self._at_first: list[EmbeddedServer] = []

    @contextmanager
    def lent(self) -> Generator[_S, None, None]:
        """Lend them for one test; start new ones if the last test broke them beyond repair."""
        servers = self._servers
        if servers is None or not _run_apart(self._succeeds(self._empty, servers)):
            self.close()
            servers = self._start()
        try:
            yield servers
        finally:
            if not _run_apart(self._succeeds(self._repair, servers)):
                self.close()

    def close(self) -> None:
        """End them."""
        if self._servers is not None:
            servers, self._servers = self._servers, None
            servers.close_blocking()

    def _start(self) -> _S:
        with _server_is_found():
            servers = self._make()
        servers.start_blocking()
        self._servers = servers
        self._at_first = list(servers.nodes)
        return servers

    async def _succeeds(self, act: Callable[[_S], Awaitable[bool]], servers: _S) -> bool:
        """Return whether `act` succeeded on the servers that were started."""
        try:
            return servers.nodes == self._at_first and await act(servers)
        except (CommandError, OSError, RuntimeError):
            return False


@contextmanager
def clusters() -> Generator[Kept[EmbeddedCluster], None, None]:
    """Keep a cluster for the session."""
    kept = Kept(EmbeddedCluster, _empty_cluster, _repair_cluster)
    try:
        yield kept
    finally:
        kept.close()


@contextmanager
def sentinels() -> Generator[Kept[EmbeddedSentinel], None, None]:
    """Keep a master with replicas and sentinels for the session."""
    kept = Kept(EmbeddedSentinel, _empty_sentinel, _is_untouched)
    try:
        yield kept
    finally:
        kept.close()


async def _empty_cluster(cluster: EmbeddedCluster) -> bool:
    for master in await cluster.masters():
        await master.execute("FLUSHALL")
    return True


async def _repair_cluster(cluster: EmbeddedCluster) -> bool:
    await cluster.restore()
    return True


async def _empty_sentinel(sentinel: EmbeddedSentinel) -> bool:
    await (await sentinel.master()).execute("FLUSHALL")
    return True


async def _is_untouched(sentinel: EmbeddedSentinel) -> bool:
    """Return whether everything is as it was at the start.

    Sentinels remember a failover for a long time, and one that was frozen does nothing for half a
    minute: starting new ones is faster than waiting.
    """
    for each in (*sentinel.nodes, *sentinel.sentinels):
        if not each.running or each.paused:
            return False
    if await sentinel.master() is not sentinel.nodes[0]:
        return False
    await sentinel.wait_healthy(_HEALTHY)
    return True


_T = TypeVar("_T")


def _run_apart(work: Awaitable[_T]) -> _T:
    """Run `work` in an event loop of its own, whatever loop this thread has."""

    async def run() -> _T:
        return await work

    def run_it() -> _T:
        return asyncio.run(run())

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run_it).result()
