"""What ZooKeeper refuses to delete, or does not answer for, is deleted later in its session."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from redisson_py._stores.contract import Kind
from redisson_py._stores.zookeeper import ZooKeeperStore
from redisson_py.errors import BackendError, ConnectionLostError
from tests.stores.bell import Bell
from tests.stores.zookeeper.proxy import CREATE, DELETE, ZooKeeperProxy
from tests.stores.zookeeper.support import (
    KINDS,
    SHORT,
    ask,
    give_back,
    granted,
    new_owner,
    nodes,
    opened,
    soon,
)
from tests.support.waiting import until


def permit(kazoo: KazooClient, store: ZooKeeperStore, name: str, kind: Kind, *what: str) -> None:
    """Say what clients may do with the directory of a name, beside this."""
    allowed = dict.fromkeys(what, True)
    kazoo.set_acls(store.keys(name, kind)[0], [make_acl("world", "anyone", admin=True, **allowed)])


async def is_refused(store: ZooKeeperStore, name: str, owner: str) -> None:
    """Give back, which the server refuses."""
    with pytest.raises(BackendError, match="no permission there") as caught:
        await give_back(store, name, owner)
    assert not isinstance(caught.value, ConnectionLostError)


async def nothing_is_left(
    kazoo: KazooClient, store: ZooKeeperStore, name: str, kind: Kind = "lock"
) -> None:
    """Return when the nodes have gone, and the store has read the answer to that."""
    await until(lambda: not nodes(kazoo, name, kind) and not store._owed)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_refused_release_is_done_later(
    store: ZooKeeperStore, kazoo: KazooClient, name: str, kind: Kind
) -> None:
    owner = new_owner()
    await granted(store, name, owner, kind)
    permit(kazoo, store, name, kind, "read", "create")
    for _ in range(2):
        await is_refused(store, name, owner)
    session = store._ensemble._session
    permit(kazoo, store, name, kind, "all")
    await nothing_is_left(kazoo, store, name, kind)
    assert store._ensemble._session is session
    # The engine may not have heard that, and asks again: it did hold.
    assert await give_back(store, name, owner) is not False
    await granted(store, name, new_owner(), kind)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_release_in_the_dark_is_done_when_the_network_is_back(
    store: ZooKeeperStore, proxy: ZooKeeperProxy, kazoo: KazooClient, name: str, kind: Kind
) -> None:
    owner = new_owner()
    await granted(store, name, owner, kind)
    session = store._ensemble._session
    proxy.black_hole(True)
    with pytest.raises(ConnectionLostError):
        await store.give_back(name, owner, False, soon(0.2))
    assert len(nodes(kazoo, name, kind)) == 1
    proxy.cut()
    proxy.black_hole(False)
    await nothing_is_left(kazoo, store, name, kind)
    assert store._ensemble._session is session
    assert await give_back(store, name, owner) is True


async def test_a_question_refused_after_its_creation_leaves_nothing(
    store: ZooKeeperStore, proxy: ZooKeeperProxy, kazoo: KazooClient, name: str
) -> None:
    first, second = new_owner(), new_owner()
    await granted(store, name, first)
    permit(kazoo, store, name, "lock", "create")
    created = proxy.seen[CREATE]
    with pytest.raises(BackendError, match="no permission there") as caught:
        await ask(store, name, second)
    assert not isinstance(caught.value, ConnectionLostError)
    assert proxy.seen[CREATE] == created + 1
    permit(kazoo, store, name, "lock", "all")
    assert await give_back(store, name, first) is True
    await nothing_is_left(kazoo, store, name)
    with pytest.raises(BackendError, match="cannot ask again"):
        await ask(store, name, second)


async def test_one_refused_release_does_not_hold_up_others(
    store: ZooKeeperStore, proxy: ZooKeeperProxy, kazoo: KazooClient, name: str
) -> None:
    await granted(store, name, "refused:1")
    await granted(store, f"{name}2", "lost:1")
    permit(kazoo, store, name, "lock", "read")
    await is_refused(store, name, "refused:1")
    proxy.next(DELETE, "cut before")
    proxy.refuse(True)
    with pytest.raises(ConnectionLostError):
        await store.give_back(f"{name}2", "lost:1", False, soon(0.2))
    proxy.refuse(False)
    await until(lambda: not nodes(kazoo, f"{name}2"))
    assert len(nodes(kazoo, name)) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_who_asks_again_while_it_is_paid_has_the_same_answer(
    store: ZooKeeperStore, name: str, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = new_owner()
    await granted(store, name, owner, kind)
    call, paid = store._ensemble.call, asyncio.Event()
    failed = 0

    async def no_answer(*_: Any, **__: Any) -> Any:
        nonlocal failed
        failed += 1
        raise ConnectionLostError("no connection", maybe_held=True)

    async def late(*arguments: Any, **options: Any) -> Any:
        await paid.wait()
        return await call(*arguments, **options)

    monkeypatch.setattr(store._ensemble, "call", no_answer)
    with pytest.raises(ConnectionLostError):
        await give_back(store, name, owner)
    # The store itself has tried once, in vain, and tries again later.
    await until(lambda: failed == 2)
    monkeypatch.setattr(store._ensemble, "call", late)
    again = asyncio.create_task(give_back(store, name, owner, unsure=True))
    await asyncio.sleep(0)
    monkeypatch.setattr(store._ensemble, "call", call)
    await until(lambda: not store._owed)
    paid.set()
    assert await again is True


async def test_what_is_owed_ends_with_its_session(
    proxy: ZooKeeperProxy, kazoo: KazooClient, name: str
) -> None:
    owner = new_owner()
    async with opened(proxy.url, Bell(), SHORT) as store:
        await granted(store, name, owner)
        proxy.black_hole(True)
        with pytest.raises(ConnectionLostError):
            await store.give_back(name, owner, False, soon(0.2))
        await until(lambda: not nodes(kazoo, name))
        proxy.cut()
        proxy.black_hole(False)
        await until(lambda: not store._owed)
        assert await give_back(store, name, owner) is False
        await granted(store, name, new_owner())


async def test_a_store_that_stops_leaves_nothing_that_it_owes(
    store: ZooKeeperStore, kazoo: KazooClient, name: str
) -> None:
    owner, tasks = new_owner(), asyncio.all_tasks()
    await granted(store, name, owner)
    permit(kazoo, store, name, "lock", "read")
    await is_refused(store, name, owner)
    assert asyncio.all_tasks() > tasks
    await store.stop()
    assert asyncio.all_tasks() <= tasks
    await until(lambda: not nodes(kazoo, name))


async def test_a_driver_that_fails_does_not_leave_what_is_owed(
    store: ZooKeeperStore,
    kazoo: KazooClient,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    owner, failed = new_owner(), False
    await granted(store, name, owner)
    permit(kazoo, store, name, "lock", "read")
    await is_refused(store, name, owner)
    delete = store._contenders.delete

    async def fail_once(*arguments: Any) -> Any:
        nonlocal failed
        if failed:
            return await delete(*arguments)
        failed = True
        raise RuntimeError("a defect")

    monkeypatch.setattr(store._contenders, "delete", fail_once)
    await until(lambda: failed)
    permit(kazoo, store, name, "lock", "all")
    await nothing_is_left(kazoo, store, name)
    (record,) = (each for each in caplog.records if each.levelno >= logging.ERROR)
    assert "ZooKeeper" in record.message
