"""An event loop that is blocked keeps nothing in ZooKeeper, and what comes after that is fresh.

A test blocks the loop by asking kazoo, which answers in threads of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from redisson_py._stores.contract import Busy, Granted, Kind
from redisson_py._stores.zookeeper import ZooKeeperStore
from redisson_py._time import now
from tests.stores.zookeeper.server import HOST, ZooKeeperServer
from tests.stores.zookeeper.support import LONG, Bell, new_owner, opened, renewal, soon, wish

KINDS: Final[tuple[Kind, ...]] = ("lock", "read", "write", "semaphore")
#: Seconds.
SESSION: Final = 2.0


@pytest.fixture
def kazoo(server: ZooKeeperServer) -> Iterator[KazooClient]:
    client = KazooClient(f"{HOST}:{server.port}")
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return "/" + str(request.node.name).replace("[", "-").strip("]")


def block_until_gone(kazoo: KazooClient, paths: tuple[str, ...], but: str | None = None) -> None:
    """Block the event loop until nothing else is below these paths; fail if something stays."""
    end = now() + LONG
    while [each for path in paths for each in children(kazoo, path) if each != but]:
        assert now() < end, "it is kept for as long as the event loop is blocked"
        time.sleep(0.02)


def children(kazoo: KazooClient, path: str) -> list[str]:
    try:
        found: list[str] = kazoo.retry(kazoo.get_children, path)
    except NoNodeError:
        return []
    return found


@pytest.mark.parametrize("waits", [False, True], ids=["holds", "waits"])
async def test_a_session_does_not_outlive_a_blocked_loop_by_more_than_a_lease(
    server: ZooKeeperServer, kazoo: KazooClient, name: str, waits: bool
) -> None:
    """The servers would keep it for an hour."""
    bell = Bell()
    store = ZooKeeperStore.from_url(server.url, LONG, 1.0)
    await store.start(bell, soon())
    theirs = None
    if waits:
        path = kazoo.create(
            f"{name}/_c_theirs-lock-", b"", ephemeral=True, sequence=True, makepath=True
        )
        theirs = path.rpartition("/")[2]
    try:
        answer = await store.ask(wish(name, new_owner()), soon())
        assert isinstance(answer, Busy if waits else Granted)
        block_until_gone(kazoo, (name,), but=theirs)
        await bell.until_all(1)
        owner = new_owner()
        assert isinstance(await store.ask(wish(f"{name} again", owner), soon()), Granted)
    finally:
        await store.stop()


async def test_a_blocked_loop_keeps_nothing_through_a_restart_of_the_server(
    server: ZooKeeperServer, kazoo: KazooClient, name: str
) -> None:
    """A new connection would be a sign of life."""
    bell = Bell()
    async with opened(server.url, bell, SESSION) as store:
        assert isinstance(await store.ask(wish(name, new_owner()), soon()), Granted)
        server.kill()
        server.start()
        block_until_gone(kazoo, (name,))
        await bell.until_all(1)
        assert isinstance(await store.ask(wish(name, new_owner()), soon()), Granted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", [0.3, 0.6, 0.9, 1.5])
async def test_what_is_granted_after_a_block_is_fresh(
    server: ZooKeeperServer, name: str, kind: Kind, block: float
) -> None:
    async with opened(server.url, lease=SESSION) as store:
        # Its signs of life are as old as they get while it is idle.
        await store.ping(soon())
        time.sleep(block * SESSION)  # noqa: ASYNC251  # the fault: it blocks the event loop
        asked = now()
        asking = replace(wish(name, new_owner()), kind=kind)
        answer = await store.ask(asking, soon())
        assert isinstance(answer, Granted)
        assert answer.until >= asked + SESSION / 2


@pytest.mark.parametrize("block", [0.3, 0.6, 0.9])
async def test_what_is_renewed_after_a_block_is_fresh(
    server: ZooKeeperServer, name: str, block: float
) -> None:
    async with opened(server.url, lease=SESSION) as store:
        owner = new_owner()
        hold = await store.ask(wish(name, owner), soon())
        assert isinstance(hold, Granted)
        time.sleep(block * SESSION)  # noqa: ASYNC251  # the fault: it blocks the event loop
        asked = now()
        (until,) = await store.renew([renewal(name, owner, hold, SESSION)], soon())
        # On a slow machine the session may have ended meanwhile.
        assert until is None or until >= asked + SESSION / 2
