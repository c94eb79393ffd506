"""What tests of the ZooKeeper store share: a bell that remembers, stores, and owners."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from redisson_py._stores.contract import Granted, Renewal, Wish
from redisson_py._stores.zookeeper import ZooKeeperStore
from redisson_py._time import now
from tests.fixtures.redis_server import unavailable
from tests.stores.zookeeper.server import ZooKeeperNotFoundError, ZooKeeperServer, running_zookeeper

#: Seconds that no call here should need.
LONG: Final = 60.0
LEASE: Final = 5.0
_numbers = itertools.count(1)


class Bell:
    """Remembers what rang."""

    def __init__(self) -> None:
        self.rung: list[str] = []
        self.all = 0
        self._news = asyncio.Event()

    def ring(self, name: str, owner: str | None = None) -> None:
        self.rung.append(name)
        self._news.set()

    def ring_all(self) -> None:
        self.all += 1
        self._news.set()

    async def until_rung(self, name: str) -> None:
        """Wait until a name has rung."""
        while name not in self.rung:
            self._news.clear()
            await self._news.wait()

    async def until_all(self, times: int) -> None:
        """Wait until everything has rung so many times."""
        while self.all < times:
            self._news.clear()
            await self._news.wait()


@contextmanager
def zookeeper_or_skip(
    folder: Path, *options: str, lines: tuple[str, ...] = ()
) -> Iterator[ZooKeeperServer]:
    """Start a server for a block of tests."""
    try:
        with running_zookeeper(folder, *options, lines=lines) as server:
            yield server
    except ZooKeeperNotFoundError as error:
        unavailable(str(error))


@asynccontextmanager
async def opened(
    url: str, bell: Bell | None = None, lease: float = LEASE
) -> AsyncGenerator[ZooKeeperStore, None]:
    """Start a store for the time of a block."""
    store = ZooKeeperStore.from_url(url, lease)
    await store.start(bell or Bell(), soon())
    try:
        yield store
    finally:
        await store.stop()


def soon(seconds: float = LONG) -> float:
    """Return a deadline."""
    return now() + seconds


def wish(name: str, owner: str, *, waits: bool = True, lease: float | None = None) -> Wish:
    """Return a wish; with a `lease`, that of a hold that is not renewed."""
    return Wish(name, owner, LEASE if lease is None else lease, lease is None, waits)


def renewal(name: str, owner: str, granted: Granted, lease: float = LEASE) -> Renewal:
    """Return the renewal of a grant."""
    return Renewal(name, owner, granted.token, lease)


def new_owner() -> str:
    """Return an owner that no test had before."""
    return f"client:{next(_numbers)}"


async def granted(store: ZooKeeperStore, name: str, owner: str) -> Granted:
    """Ask, and be granted the hold."""
    answer = await store.ask(wish(name, owner), soon())
    assert isinstance(answer, Granted), answer
    return answer


def dead_port() -> socket.socket:
    """Return a socket that takes connections and never answers."""
    return socket.create_server(("127.0.0.1", 0))
