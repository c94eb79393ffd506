"""An event loop that is blocked keeps nothing in ZooKeeper, and what comes after that is fresh.

A test blocks the loop by asking kazoo, which answers in threads of its own.
"""

from __future__ import annotations

import time
from typing import Final

import pytest
from kazoo.client import KazooClient

from redisson_py._stores.contract import Busy, Granted, Kind
from redisson_py._time import now
from tests.stores.bell import Bell
from tests.stores.zookeeper.server import ZooKeeperServer
from tests.stores.zookeeper.support import (
    KINDS,
    LEASE,
    LONG,
    ask,
    granted,
    new_owner,
    nodes,
    opened,
    renewed,
    soon,
)

#: Seconds.
SESSION: Final = 2.0


def block_until_gone(kazoo: KazooClient, name: str, but: str | None) -> None:
    """Block the event loop until nothing else is below a path; fail if something stays."""
    end = now() + LONG / 3
    while [each for each in kazoo.retry(nodes, kazoo, name) if each != but]:
        assert now() < end, "it is kept for as long as the event loop is blocked"
        time.sleep(0.02)


@pytest.mark.parametrize("waits", [False, True], ids=["holds", "waits"])
async def test_a_session_does_not_outlive_a_blocked_loop_by_more_than_a_lease(
    server: ZooKeeperServer, kazoo: KazooClient, bell: Bell, name: str, waits: bool
) -> None:
    """The servers would keep it for an hour."""
    theirs = None
    if waits:
        path = kazoo.create(
            f"{name}/_c_theirs-lock-", b"", ephemeral=True, sequence=True, makepath=True
        )
        theirs = path.rpartition("/")[2]
    async with opened(server.url, bell, LONG, blocked=1.0) as store:
        answer = await ask(store, name, new_owner())
        assert isinstance(answer, Busy if waits else Granted)
        block_until_gone(kazoo, name, theirs)
        await bell.heard_all(1)
        await granted(store, f"{name} again", new_owner())


async def test_a_session_is_not_connected_again_for_a_blocked_loop(
    server: ZooKeeperServer, bell: Bell, name: str
) -> None:
    """A new connection would be a sign of life."""
    async with opened(server.url, bell, LONG, blocked=LEASE) as store:
        await granted(store, name, new_owner())
        session = store._ensemble._session
        assert session is not None
        server.kill()
        server.start()
        # Its thread waits for the loop, until that was blocked for a lease.
        assert session._client._stopped.wait(LONG)
        await bell.heard_all(1)
        assert session.connections == 1
        await granted(store, f"{name} again", new_owner())


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
        answer = await granted(store, name, new_owner(), kind)
        assert answer.until >= asked + SESSION / 2


@pytest.mark.parametrize("block", [0.3, 0.6, 0.9])
async def test_what_is_renewed_after_a_block_is_fresh(
    server: ZooKeeperServer, name: str, block: float
) -> None:
    async with opened(server.url, lease=SESSION) as store:
        owner = new_owner()
        hold = await granted(store, name, owner)
        time.sleep(block * SESSION)  # noqa: ASYNC251  # the fault: it blocks the event loop
        asked = now()
        until = await renewed(store, name, owner, hold, SESSION)
        # On a slow machine the session may have ended meanwhile.
        assert until is None or until >= asked + SESSION / 2
