"""What tests of the ZooKeeper store share: stores, what they are asked, and strangers."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

from kazoo.client import KazooClient

from redisson_py._stores.contract import Busy, Granted, Kind, Renewal, Wish
from redisson_py._stores.zookeeper import ZooKeeperStore
from redisson_py._time import now
from tests.fixtures.redis_server import unavailable
from tests.stores.bell import Bell
from tests.stores.zookeeper.server import (
    HOST,
    TICK,
    ZooKeeperNotFoundError,
    ZooKeeperServer,
    running_zookeeper,
)

#: Seconds that no call here should need.
LONG: Final = 60.0
LEASE: Final = 5.0
#: Seconds that a session lives without a sign of life, where a test waits for its end.
SHORT: Final = 15 * TICK
KINDS: Final[tuple[Kind, ...]] = ("lock", "read", "write", "semaphore")
_numbers = itertools.count(1)


@contextmanager
def zookeeper_or_skip(
    folder: Path, *options: str, rows: tuple[str, ...] = ()
) -> Iterator[ZooKeeperServer]:
    """Start a server for a block of tests."""
    try:
        with running_zookeeper(folder, *options, rows=rows) as server:
            yield server
    except ZooKeeperNotFoundError as error:
        unavailable(str(error))


@contextmanager
def stranger(server: ZooKeeperServer, **options: Any) -> Iterator[KazooClient]:
    """Connect a client that knows nothing of ours for the time of a block."""
    kazoo = KazooClient(f"{HOST}:{server.port}", **options)
    kazoo.start()
    try:
        yield kazoo
    finally:
        kazoo.stop()
        kazoo.close()


@asynccontextmanager
async def opened(
    url: str, bell: Bell | None = None, lease: float = LEASE, blocked: float | None = None
) -> AsyncGenerator[ZooKeeperStore, None]:
    """Start a store for the time of a block; a loop that was `blocked` so long ends its session."""
    store = ZooKeeperStore.from_url(url, lease, blocked)
    await store.start(bell or Bell(), soon())
    try:
        yield store
    finally:
        await store.stop()


def soon(seconds: float = LONG) -> float:
    """Return a deadline."""
    return now() + seconds


def new_owner() -> str:
    """Return an owner that no test had before."""
    return f"client:{next(_numbers)}"


def wish(
    name: str,
    owner: str,
    kind: Kind = "lock",
    *,
    waits: bool = True,
    lease: float | None = None,
    within: str | None = None,
) -> Wish:
    """Return a wish; with a `lease`, that of a hold that is not renewed."""
    until = LEASE if lease is None else lease
    return Wish(name, owner, until, lease is None, waits, kind=kind, within=within)


async def ask(
    store: ZooKeeperStore, name: str, owner: str, kind: Kind = "lock", **but: Any
) -> Granted | Busy:
    """Ask for a hold."""
    return await store.ask(wish(name, owner, kind, **but), soon())


async def granted(
    store: ZooKeeperStore, name: str, owner: str, kind: Kind = "lock", **but: Any
) -> Granted:
    """Ask, and be granted the hold."""
    answer = await ask(store, name, owner, kind, **but)
    assert isinstance(answer, Granted), answer
    return answer


async def renewed(
    store: ZooKeeperStore, name: str, owner: str, hold: Granted, lease: float = LEASE
) -> float | None:
    """Renew a hold; return until when."""
    (until,) = await store.renew([Renewal(name, owner, hold.token, lease)], soon())
    return until


async def give_back(
    store: ZooKeeperStore, name: str, owner: str, unsure: bool = False
) -> bool | None:
    """Give a hold back."""
    return await store.give_back(name, owner, unsure, soon())


def nodes(kazoo: KazooClient, name: str, kind: Kind = "lock") -> list[str]:
    """Return what clients have under a name: of a semaphore mutex, at the gate and of holders."""
    below = ("/locks", "/leases") if kind == "semaphore" else ("",)
    found = [f"{name}{each}" for each in below]
    return [node for path in found if kazoo.exists(path) for node in kazoo.get_children(path)]
