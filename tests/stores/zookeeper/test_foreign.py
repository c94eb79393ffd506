"""Nodes that other clients make, or delete if they may."""

from __future__ import annotations

from typing import Final

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.protocol.serialization import Create
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

from redisson_py._stores.contract import Busy, Granted, Kind
from redisson_py._stores.zookeeper import ZooKeeperStore
from redisson_py.errors import BackendError
from tests.stores.zookeeper.server import ZooKeeperServer
from tests.stores.zookeeper.support import (
    ask,
    give_back,
    granted,
    new_owner,
    opened,
    soon,
    stranger,
    wish,
)

EPHEMERAL_SEQUENTIAL: Final = 3
#: What each kind's nodes are called, below the name.
NODES: Final[dict[Kind, str]] = {
    "lock": "lock-",
    "read": "__READ__",
    "write": "__WRIT__",
    "semaphore": "leases/lease-",
}


@pytest.mark.parametrize("kind", NODES)
async def test_a_holder_whose_data_are_null_is_shown(
    store: ZooKeeperStore, kazoo: KazooClient, name: str, kind: Kind
) -> None:
    """As `create(path, null, ...)` in Java makes them."""
    path = f"{name}/{NODES[kind]}"
    kazoo.ensure_path(path.rpartition("/")[0])
    made = kazoo.handler.async_result()
    kazoo._call(Create(path, None, OPEN_ACL_UNSAFE, EPHEMERAL_SEQUENTIAL), made)
    node = str(made.get())
    waiting = wish(name, new_owner(), "write" if kind == "read" else kind)
    assert await store.ask(waiting, soon()) == Busy(None)
    state = await store.look(name, soon(), kind)
    holders = state.readers if kind == "read" else (state.holder,)
    assert [None if each is None else each.owner for each in holders] == [""]
    assert state.keys[1:] == (node,)
    assert waiting.owner in (state.waiters or ())
    assert await store.force_release(name, soon(), kind) is True
    assert await store.ask(waiting, soon()) != Busy(None)


async def test_an_acl_protects_one_directory_and_nothing_below(
    server: ZooKeeperServer, theirs: ZooKeeperStore, kazoo: KazooClient
) -> None:
    allowed = [make_digest_acl("ann", "secret", create=True, read=True, delete=True)]
    with stranger(server, auth_data=[("digest", "ann:secret")]) as users:
        users.create("/users", acl=allowed)
        users.create("/users/made", acl=allowed)
    async with opened(server.url.replace("//", "//ann:secret@")) as store:
        assert "secret" not in f"{store!r} {store.where}"
        await granted(store, "/users/open", new_owner())
        kazoo.delete((await store.look("/users/open", soon())).keys[1])
        await granted(theirs, "/users/open", new_owner())
        owner, other = new_owner(), new_owner()
        await granted(store, "/users/made", owner)
        with pytest.raises(NoAuthError):
            kazoo.delete((await store.look("/users/made", soon())).keys[1])
        for call in (
            ask(theirs, "/users/made", other),
            theirs.look("/users/made", soon()),
            ask(theirs, "/users/new", other),
        ):
            with pytest.raises(BackendError, match=r"no permission there|'/users/.*ACL") as caught:
                await call
            assert type(caught.value) is BackendError
        assert await give_back(theirs, "/users/new", other, unsure=True) is False
        assert await give_back(store, "/users/made", owner) is True


@pytest.mark.parametrize("recipe", ["Lock", "WriteLock", "ReadLock"])
@pytest.mark.parametrize("kind", NODES)
async def test_kazoos_own_locks_exclude_none_of_ours(
    theirs: ZooKeeperStore, kazoo: KazooClient, name: str, recipe: str, kind: Kind
) -> None:
    """Their nodes have other names, and so for Curator too: docs/stores.md warns of it."""
    lock = getattr(kazoo, recipe)(name)
    assert lock.acquire(blocking=False)
    assert isinstance(await ask(theirs, name, new_owner(), kind, waits=False), Granted)
    lock.release()
    assert lock.acquire(blocking=False)
    lock.release()
