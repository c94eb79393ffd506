"""The read-write lock in ZooKeeper when answers are lost, connections break, and sessions end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
from kazoo.client import KazooClient

from redisson_py._stores.contract import Busy, Granted, Kind
from redisson_py._stores.zookeeper import ZooKeeperStore
from redisson_py.errors import ConnectionLostError
from tests.stores.zookeeper.proxy import CREATE, Fate, ZooKeeperProxy
from tests.stores.zookeeper.server import ZooKeeperServer
from tests.stores.zookeeper.support import (
    LONG,
    Bell,
    new_owner,
    opened,
    renewal,
    soon,
    wish,
)

#: Seconds: the shortest lease that the servers' limits allow, in a test that waits for its end.
LEASE = 3.0


@pytest_asyncio.fixture
async def other(server: ZooKeeperServer) -> AsyncIterator[ZooKeeperStore]:
    async with opened(server.url) as started:
        yield started


@pytest.fixture
def raw(server: ZooKeeperServer) -> Iterator[KazooClient]:
    """Another client of ZooKeeper."""
    client = KazooClient(f"127.0.0.1:{server.port}")
    client.start()
    yield client
    client.stop()
    client.close()


async def ask(
    store: ZooKeeperStore,
    name: str,
    owner: str,
    kind: Kind,
    *,
    within: str | None = None,
    waits: bool = True,
) -> Granted | Busy:
    asked = replace(wish(name, owner, waits=waits), kind=kind, within=within)
    return await store.ask(asked, soon())


async def nodes(raw: KazooClient, name: str) -> list[str]:
    """Return what is in the directory of a name: kind and number, in order."""
    children: Any = await asyncio.to_thread(raw.get_children, f"/redisson_py/{name}")
    marks = [each[each.index("__") :] for each in children if "__" in each]
    return sorted(marks, key=lambda mark: (mark[-10:], mark))


async def test_nodes_are_those_of_curator(
    store: ZooKeeperStore, raw: KazooClient, name: str
) -> None:
    write, read, later = new_owner(), new_owner(), new_owner()
    assert isinstance(await ask(store, name, write, "write"), Granted)
    assert await ask(store, name, later, "write") == Busy(None)
    assert isinstance(await ask(store, name, read, "read", within=write), Granted)
    # As Curator does, a read under a write has the number of that.
    assert await nodes(raw, name) == [
        "__READ__0000000000",
        "__WRIT__0000000000",
        "__WRIT__0000000001",
    ]
    children: Any = await asyncio.to_thread(raw.get_children, f"/redisson_py/{name}")
    assert all(child.startswith("_c_") and child[39] == "-" for child in children)


async def test_a_waiter_watches_the_one_that_it_waits_for(
    store: ZooKeeperStore, other: ZooKeeperStore, bell: Bell, name: str
) -> None:
    first, reader, second = new_owner(), new_owner(), new_owner()
    assert isinstance(await ask(other, name, first, "write"), Granted)
    assert await ask(other, name, second, "write") == Busy(None)
    assert await ask(store, name, reader, "read") == Busy(None)
    # It watches the last of two writes; when that gives up, the first one is still there.
    await other.give_back(name, second, False, soon())
    async with asyncio.timeout(LONG):
        await bell.until_rung(name)
    bell.rung.clear()
    assert await ask(store, name, reader, "read") == Busy(None)
    await other.give_back(name, first, False, soon())
    async with asyncio.timeout(LONG):
        await bell.until_rung(name)
    assert isinstance(await ask(store, name, reader, "read"), Granted)


async def test_an_ask_that_does_not_wait_leaves_no_node(
    store: ZooKeeperStore, other: ZooKeeperStore, raw: KazooClient, name: str
) -> None:
    assert isinstance(await ask(other, name, new_owner(), "write"), Granted)
    assert await ask(store, name, new_owner(), "read", waits=False) == Busy(None)
    assert await ask(store, name, new_owner(), "write", waits=False) == Busy(None)
    assert await nodes(raw, name) == ["__WRIT__0000000000"]


async def test_no_read_under_a_write_that_was_freed_by_force(
    store: ZooKeeperStore, other: ZooKeeperStore, raw: KazooClient, name: str
) -> None:
    write, read, theirs = new_owner(), new_owner(), new_owner()
    assert isinstance(await ask(store, name, write, "write"), Granted)
    assert await ask(other, name, theirs, "write") == Busy(None)
    assert await other.force_release(name, soon(), "write") is True
    assert isinstance(await ask(other, name, theirs, "write"), Granted)
    # This client does not know yet that another writes.
    assert await ask(store, name, read, "read", within=write) == Busy(None)
    assert await nodes(raw, name) == ["__WRIT__0000000001", "__READ__0000000003"]
    assert isinstance(await ask(other, name, theirs, "write"), Granted)
    assert await store.give_back(name, write, False, soon()) is False
    await other.give_back(name, theirs, False, soon())
    assert isinstance(await ask(store, name, read, "read", within=write), Granted)


async def test_no_read_under_a_freed_write_without_waiting(
    store: ZooKeeperStore, other: ZooKeeperStore, raw: KazooClient, name: str
) -> None:
    write, theirs = new_owner(), new_owner()
    assert isinstance(await ask(store, name, write, "write"), Granted)
    assert await other.force_release(name, soon(), "write") is True
    assert isinstance(await ask(other, name, theirs, "write"), Granted)
    asked = await ask(store, name, new_owner(), "read", within=write, waits=False)
    assert asked == Busy(None)
    assert await nodes(raw, name) == ["__WRIT__0000000001"]


@pytest.mark.parametrize("fate", ["cut before", "cut after"])
@pytest.mark.parametrize("kind", ["read", "write"])
async def test_a_creation_without_an_answer_is_found_again(
    store: ZooKeeperStore,
    other: ZooKeeperStore,
    proxy: ZooKeeperProxy,
    name: str,
    kind: Kind,
    fate: Fate,
) -> None:
    owner = new_owner()
    assert isinstance(await ask(other, name, "other:1", kind), Granted)
    await other.give_back(name, "other:1", False, soon())
    proxy.next(CREATE, fate)
    answer = await ask(store, name, owner, kind)
    assert proxy.hit.is_set()
    assert isinstance(answer, Granted)
    state = await other.look(name, soon(), kind)
    holders = [*([] if state.holder is None else [state.holder]), *state.readers]
    assert [(each.owner, each.token) for each in holders] == [(owner, answer.token)]
    assert await store.renew([renewal(name, owner, answer)], soon()) != [None]


@pytest.mark.parametrize("fate", ["cut before", "cut after"])
async def test_a_read_under_a_write_is_found_again(
    store: ZooKeeperStore, proxy: ZooKeeperProxy, raw: KazooClient, name: str, fate: Fate
) -> None:
    write, read = new_owner(), new_owner()
    assert isinstance(await ask(store, name, write, "write"), Granted)
    proxy.next(CREATE, fate)
    answer = await ask(store, name, read, "read", within=write)
    assert proxy.hit.is_set()
    assert isinstance(answer, Granted)
    assert await nodes(raw, name) == ["__READ__0000000000", "__WRIT__0000000000"]
    assert await store.give_back(name, write, False, soon()) is True
    again = await ask(store, name, read, "read", within=write)
    assert isinstance(again, Granted)
    assert again.token == answer.token
    assert await store.give_back(name, read, False, soon()) is True
    assert await nodes(raw, name) == []


@pytest.mark.parametrize("kind", ["read", "write"])
async def test_an_unsure_creation_is_taken_back(
    store: ZooKeeperStore, proxy: ZooKeeperProxy, raw: KazooClient, name: str, kind: Kind
) -> None:
    owner = new_owner()
    assert isinstance(await ask(store, name, "warm:1", kind), Granted)
    await store.give_back(name, "warm:1", False, soon())
    proxy.next(CREATE, "swallow")
    asked = replace(wish(name, owner), kind=kind)
    with pytest.raises(ConnectionLostError) as caught:
        await store.ask(asked, soon(1.5))
    assert caught.value.maybe_held
    assert len(await nodes(raw, name)) == 1
    assert await store.give_back(name, owner, True, soon()) is True
    assert await nodes(raw, name) == []
