"""Those that wait watch the node before theirs: a watch for each node, and none is missed."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.serialization import GetData

from redisson_py._stores.contract import Busy, Kind
from redisson_py._stores.zookeeper import ZooKeeperStore
from redisson_py._stores.zookeeper.session import Session
from tests.stores.bell import Bell
from tests.stores.zookeeper.proxy import GET_DATA, ZooKeeperProxy
from tests.stores.zookeeper.support import KINDS, ask, give_back, granted, new_owner, soon

TRIES: Final = 20


def session_of(store: ZooKeeperStore) -> Session:
    session = store._ensemble._session
    assert session is not None
    return session


def watchers(store: ZooKeeperStore) -> int:
    """Return how many watches kazoo keeps for the store."""
    kazoo = session_of(store)._client
    return sum(map(len, [*kazoo._data_watchers.values(), *kazoo._child_watchers.values()]))


@pytest.mark.parametrize("kind", KINDS)
async def test_waiters_that_give_up_leave_one_watch(
    store: ZooKeeperStore, theirs: ZooKeeperStore, bell: Bell, name: str, kind: Kind
) -> None:
    await granted(theirs, name, "theirs:1", "write" if kind == "read" else kind)
    if kind == "semaphore":
        # The one that waits for the holder; the others wait at the gate.
        assert await ask(theirs, name, "theirs:2", kind) == Busy(None)
    for _ in range(TRIES):
        owner = new_owner()
        assert await ask(store, name, owner, kind) == Busy(None)
        assert await give_back(store, name, owner) is False
    assert watchers(store) == 1
    owner = new_owner()
    assert await ask(store, name, owner, kind) == Busy(None)
    await give_back(theirs, name, "theirs:2")
    await give_back(theirs, name, "theirs:1")
    await bell.heard(name)
    while await ask(store, name, owner, kind) == Busy(None):
        await asyncio.sleep(0)
    assert bell.rung == []


async def test_waiters_that_had_no_time_leave_one_watch(
    store: ZooKeeperStore, theirs: ZooKeeperStore, proxy: ZooKeeperProxy, name: str
) -> None:
    await granted(theirs, name, "theirs:1")
    for _ in range(3):
        owner = new_owner()
        proxy.next(GET_DATA, "hold")
        asking = asyncio.create_task(ask(store, name, owner))
        await proxy.hit.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        proxy.release()
        assert await give_back(store, name, owner, unsure=True) is False
    assert watchers(store) == 1


async def test_a_watch_that_ends_before_its_answer_was_read_is_set_again(
    store: ZooKeeperStore,
    bell: Bell,
    kazoo: KazooClient,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    holder, second = new_owner(), new_owner()
    await ask(store, name, holder)
    node = (await store.look(name, soon())).keys[1]
    session = session_of(store)
    send = session.send

    async def read_late(answer: asyncio.Future[object]) -> object:
        reply = await answer
        await asyncio.to_thread(kazoo.set, node, b"changed, as Curator's Revoker does")
        await bell.heard(name)
        return reply

    def send_late(request: object) -> asyncio.Future[object]:
        answer = send(request)
        if not isinstance(request, GetData):
            return answer
        monkeypatch.setattr(session, "send", send)
        return asyncio.ensure_future(read_late(answer))

    monkeypatch.setattr(session, "send", send_late)
    assert await ask(store, name, second) == Busy(None)
    bell.rung.clear()
    assert await ask(store, name, second) == Busy(None)
    await give_back(store, name, holder)
    await bell.heard(name)
    assert await ask(store, name, second) != Busy(None)
