"""Nodes that other clients make, or delete if they may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Final

import pytest
import pytest_asyncio
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.protocol.serialization import Create
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

from redisson_py._stores.contract import Busy, Granted, Kind, Wish
from redisson_py._stores.zookeeper import ZooKeeperStore
from redisson_py.errors import BackendError
from tests.stores.zookeeper.server import HOST, ZooKeeperServer
from tests.stores.zookeeper.support import (
    LEASE,
    granted,
    new_owner,
    opened,
    soon,
)

EPHEMERAL_SEQUENTIAL: Final = 3
#: What each kind's nodes are called, below the name.
NODES: Final[dict[Kind, str]] = {
    "lock": "lock-",
    "read": "__READ__",
    "write": "__WRIT__",
    "semaphore": "leases/lease-",
}


@pytest.fixture
def other(server: ZooKeeperServer) -> Iterator[KazooClient]:
    kazoo = KazooClient(f"{HOST}:{server.port}")
    kazoo.start()
    yield kazoo
    kazoo.stop()
    kazoo.close()


@pytest_asyncio.fixture
async def store(server: ZooKeeperServer) -> AsyncIterator[ZooKeeperStore]:
    async with opened(server.url) as started:
        yield started


def create_without_data(kazoo: KazooClient, path: str) -> str:
    """Make a node whose data are null, as `create(path, null, ...)` in Java does."""
    kazoo.ensure_path(path.rpartition("/")[0])
    made = kazoo.handler.async_result()
    kazoo._call(Create(path, None, OPEN_ACL_UNSAFE, EPHEMERAL_SEQUENTIAL), made)
    return str(made.get())


@pytest.mark.parametrize("kind", NODES)
async def test_a_holder_whose_data_are_null_is_shown(
    store: ZooKeeperStore, other: KazooClient, kind: Kind
) -> None:
    name = f"/null-{kind}"
    node = create_without_data(other, f"{name}/{NODES[kind]}")
    asked = "write" if kind == "read" else kind
    waiting = Wish(name, new_owner(), LEASE, renewed=True, waits=True, kind=asked)
    assert await store.ask(waiting, soon()) == Busy(None)
    state = await store.look(name, soon(), kind)
    holders = state.readers if kind == "read" else (state.holder,)
    assert [None if each is None else each.owner for each in holders] == [""]
    assert state.keys[1:] == (node,)
    assert waiting.owner in (state.waiters or ())
    assert await store.force_release(name, soon(), kind) is True
    assert await store.ask(waiting, soon()) != Busy(None)


async def test_an_acl_protects_one_directory_and_nothing_below(
    server: ZooKeeperServer, other: KazooClient
) -> None:
    users = KazooClient(f"{HOST}:{server.port}", auth_data=[("digest", "ann:secret")])
    users.start()
    allowed = [make_digest_acl("ann", "secret", create=True, read=True, delete=True)]
    users.create("/users", acl=allowed)
    users.create("/users/made", acl=allowed)
    async with (
        opened(server.url) as stranger,
        opened(server.url.replace("//", "//ann:secret@")) as store,
    ):
        for name in ("/users/made", "/users/open"):
            owner, ask = new_owner(), Wish(name, new_owner(), LEASE, renewed=True, waits=False)
            await granted(store, name, owner)
            (_, node) = (await store.look(name, soon())).keys
            if name == "/users/open":
                other.delete(node)
                assert isinstance(await stranger.ask(ask, soon()), Granted)
            else:
                with pytest.raises(NoAuthError):
                    other.delete(node)
                with pytest.raises(BackendError, match="no permission there"):
                    await stranger.ask(ask, soon())
                assert await store.give_back(name, owner, False, soon()) is True
    users.stop()
    users.close()


@pytest.mark.parametrize("recipe", ["Lock", "WriteLock", "ReadLock"])
@pytest.mark.parametrize("kind", NODES)
@pytest.mark.parametrize("ours_first", [True, False])
async def test_kazoos_own_locks_exclude_none_of_ours(
    store: ZooKeeperStore, other: KazooClient, recipe: str, kind: Kind, ours_first: bool
) -> None:
    """Their nodes have other names, and so for Curator too: docs/stores.md warns of it."""
    name = f"/recipe/{recipe}-{kind}-{ours_first}"
    theirs = getattr(other, recipe)(name)
    wish = Wish(name, new_owner(), LEASE, renewed=True, waits=False, kind=kind)

    def take() -> bool:
        return bool(theirs.acquire(blocking=False))

    if ours_first:
        assert isinstance(await store.ask(wish, soon()), Granted)
        assert await asyncio.to_thread(take)
    else:
        assert await asyncio.to_thread(take)
        assert isinstance(await store.ask(wish, soon()), Granted)
    await asyncio.to_thread(theirs.release)
