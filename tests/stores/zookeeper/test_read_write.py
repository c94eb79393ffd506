"""The read-write lock in ZooKeeper: its nodes, what waits for which, and reads under a write."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient

from redisson_py._stores.contract import Busy
from redisson_py._stores.zookeeper import ZooKeeperStore
from tests.stores.bell import Bell
from tests.stores.zookeeper.proxy import CREATE, Fate, ZooKeeperProxy
from tests.stores.zookeeper.support import ask, give_back, granted, new_owner, nodes, soon


def marks(kazoo: KazooClient, name: str) -> list[str]:
    """Return what is in the directory of a name: kind and number, in order."""
    found = [each[each.index("__") :] for each in nodes(kazoo, name)]
    return sorted(found, key=lambda mark: (mark[-10:], mark))


async def test_nodes_are_those_of_curator(
    store: ZooKeeperStore, kazoo: KazooClient, name: str
) -> None:
    write = new_owner()
    await granted(store, name, write, "write")
    assert await ask(store, name, new_owner(), "write") == Busy(None)
    await granted(store, name, new_owner(), "read", within=write)
    # As Curator does, a read under a write has the number of that.
    assert marks(kazoo, name) == [
        "__READ__0000000000",
        "__WRIT__0000000000",
        "__WRIT__0000000001",
    ]
    assert all(each.startswith("_c_") and each[39] == "-" for each in nodes(kazoo, name))


async def test_a_waiter_watches_the_one_that_it_waits_for(
    store: ZooKeeperStore, theirs: ZooKeeperStore, bell: Bell, name: str
) -> None:
    first, reader, second = new_owner(), new_owner(), new_owner()
    await granted(theirs, name, first, "write")
    assert await ask(theirs, name, second, "write") == Busy(None)
    assert await ask(store, name, reader, "read") == Busy(None)
    # It watches the last of two writes; when that gives up, the first one is still there.
    await give_back(theirs, name, second)
    await bell.heard(name)
    assert await ask(store, name, reader, "read") == Busy(None)
    await give_back(theirs, name, first)
    await bell.heard(name)
    await granted(store, name, reader, "read")


async def test_an_ask_that_does_not_wait_leaves_no_node(
    store: ZooKeeperStore, theirs: ZooKeeperStore, kazoo: KazooClient, name: str
) -> None:
    await granted(theirs, name, new_owner(), "write")
    assert await ask(store, name, new_owner(), "read", waits=False) == Busy(None)
    assert await ask(store, name, new_owner(), "write", waits=False) == Busy(None)
    assert marks(kazoo, name) == ["__WRIT__0000000000"]


@pytest.mark.parametrize("waits", [True, False])
async def test_no_read_under_a_write_that_was_freed_by_force(
    store: ZooKeeperStore, theirs: ZooKeeperStore, kazoo: KazooClient, name: str, waits: bool
) -> None:
    write, read, their = new_owner(), new_owner(), new_owner()
    await granted(store, name, write, "write")
    assert await ask(theirs, name, their, "write") == Busy(None)
    assert await theirs.force_release(name, soon(), "write") is True
    await granted(theirs, name, their, "write")
    # This client does not know yet that another writes.
    assert await ask(store, name, read, "read", within=write, waits=waits) == Busy(None)
    assert marks(kazoo, name) == ["__WRIT__0000000001", "__READ__0000000003"][: 1 + waits]
    await granted(theirs, name, their, "write")
    assert await give_back(store, name, write) is False
    await give_back(theirs, name, their)
    await granted(store, name, read, "read", within=write)


@pytest.mark.parametrize("fate", ["cut before", "cut after"])
async def test_a_read_under_a_write_is_found_again(
    store: ZooKeeperStore, proxy: ZooKeeperProxy, kazoo: KazooClient, name: str, fate: Fate
) -> None:
    write, read = new_owner(), new_owner()
    await granted(store, name, write, "write")
    proxy.next(CREATE, fate)
    answer = await granted(store, name, read, "read", within=write)
    assert proxy.hit.is_set()
    assert marks(kazoo, name) == ["__READ__0000000000", "__WRIT__0000000000"]
    assert await give_back(store, name, write) is True
    again = await granted(store, name, read, "read", within=write)
    assert again.token == answer.token
    assert await give_back(store, name, read) is True
    assert marks(kazoo, name) == []
