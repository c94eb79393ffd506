"""Those that wait watch the node before theirs: a watch for each node, and none is missed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.serialization import GetData

from redisson_py._stores.contract import Busy, Kind, Wish
from redisson_py._stores.zookeeper import ZooKeeperStore
from redisson_py._stores.zookeeper.session import Session
from tests.stores.zookeeper.proxy import GET_DATA, ZooKeeperProxy
from tests.stores.zookeeper.server import HOST, ZooKeeperServer
from tests.stores.zookeeper.support import LEASE, LONG, Bell, new_owner, opened, soon

KINDS: Final[tuple[Kind, ...]] = ("lock", "read", "write", "semaphore")
TRIES: Final = 20


@pytest.fixture(scope="module")
def other(server: ZooKeeperServer) -> Iterator[KazooClient]:
    kazoo = KazooClient(f"{HOST}:{server.port}")
    kazoo.start()
    yield kazoo
    kazoo.stop()
    kazoo.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return "/" + str(request.node.name).replace("[", "-").strip("]")


def session_of(store: ZooKeeperStore) -> Session:
    session = store._ensemble._session
    assert session is not None
    return session


def watchers(store: ZooKeeperStore) -> int:
    """Return how many watches kazoo keeps for the store."""
    kazoo = session_of(store)._client
    return sum(map(len, [*kazoo._data_watchers.values(), *kazoo._child_watchers.values()]))


def wish(name: str, owner: str, kind: Kind) -> Wish:
    return Wish(name, owner, LEASE, renewed=True, waits=True, kind=kind)


@pytest.mark.parametrize("kind", KINDS)
async def test_waiters_that_give_up_leave_one_watch(
    server: ZooKeeperServer, store: ZooKeeperStore, bell: Bell, name: str, kind: Kind
) -> None:
    async with opened(server.url) as theirs:
        holder: Kind = "write" if kind == "read" else kind
        assert await theirs.ask(wish(name, "theirs:1", holder), soon()) != Busy(None)
        if kind == "semaphore":
            # The one that waits for the holder; the others wait at the gate.
            assert await theirs.ask(wish(name, "theirs:2", kind), soon()) == Busy(None)
        for _ in range(TRIES):
            owner = new_owner()
            assert await store.ask(wish(name, owner, kind), soon()) == Busy(None)
            assert await store.give_back(name, owner, False, soon()) is False
        assert watchers(store) == 1
        owner = new_owner()
        assert await store.ask(wish(name, owner, kind), soon()) == Busy(None)
        await theirs.give_back(name, "theirs:2", False, soon())
        await theirs.give_back(name, "theirs:1", False, soon())
        await bell.until_rung(name)
        while await store.ask(wish(name, owner, kind), soon()) == Busy(None):
            await asyncio.sleep(0)
        assert bell.rung == [name]


async def test_waiters_that_had_no_time_leave_one_watch(
    server: ZooKeeperServer, proxy: ZooKeeperProxy, store: ZooKeeperStore, name: str
) -> None:
    async with opened(server.url) as theirs:
        await theirs.ask(wish(name, "theirs:1", "lock"), soon())
        for _ in range(3):
            owner = new_owner()
            proxy.next(GET_DATA, "hold")
            asking = asyncio.create_task(store.ask(wish(name, owner, "lock"), soon()))
            await proxy.hit.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            proxy.release()
            assert await store.give_back(name, owner, True, soon()) is False
        assert watchers(store) == 1


async def test_a_watch_that_ends_before_its_answer_was_read_is_set_again(
    store: ZooKeeperStore,
    bell: Bell,
    other: KazooClient,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    holder, second = new_owner(), new_owner()
    await store.ask(wish(name, holder, "lock"), soon())
    node = (await store.look(name, soon())).keys[1]
    session = session_of(store)
    send = session.send

    async def read_late(answer: asyncio.Future[object]) -> object:
        reply = await answer
        await asyncio.to_thread(other.set, node, b"changed, as Curator's Revoker does")
        await bell.until_rung(name)
        return reply

    def send_late(request: object) -> asyncio.Future[object]:
        answer = send(request)
        if not isinstance(request, GetData):
            return answer
        monkeypatch.setattr(session, "send", send)
        return asyncio.ensure_future(read_late(answer))

    monkeypatch.setattr(session, "send", send_late)
    assert await store.ask(wish(name, second, "lock"), soon()) == Busy(None)
    bell.rung.clear()
    assert await store.ask(wish(name, second, "lock"), soon()) == Busy(None)
    await store.give_back(name, holder, False, soon())
    async with asyncio.timeout(LONG):
        await bell.until_rung(name)
    assert await store.ask(wish(name, second, "lock"), soon()) != Busy(None)
