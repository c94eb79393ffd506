"""The ZooKeeper store when answers are lost, connections break, and sessions end."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Final

import pytest
from kazoo.client import KazooClient

from redisson_py._stores.contract import Busy, Granted, Kind
from redisson_py._stores.zookeeper import ZooKeeperStore
from redisson_py._time import now
from redisson_py.errors import ConnectionLostError
from tests.stores.bell import Bell
from tests.stores.zookeeper.proxy import (
    CREATE,
    DELETE,
    GET_CHILDREN,
    GET_DATA,
    SYNC,
    Fate,
    ZooKeeperProxy,
)
from tests.stores.zookeeper.server import HOST, ZooKeeperServer
from tests.stores.zookeeper.support import (
    SHORT,
    ask,
    give_back,
    granted,
    new_owner,
    nodes,
    opened,
    renewed,
    soon,
    wish,
)
from tests.support.waiting import until

SIDES: Final[tuple[Kind, ...]] = ("lock", "read", "write")


async def owners(store: ZooKeeperStore, name: str, kind: Kind = "lock") -> list[str]:
    """Return whose nodes a name has."""
    state = await store.look(name, soon(), kind)
    holders = [*([] if state.holder is None else [state.holder]), *state.readers]
    return [*(each.owner for each in holders), *(state.waiters or ())]


async def make_directory(store: ZooKeeperStore, name: str, kind: Kind = "lock") -> None:
    """Make the directory of a name, so that each step of what follows is one request."""
    await granted(store, name, "warm:1", kind)
    await give_back(store, name, "warm:1")


@pytest.mark.parametrize("fate", ["cut before", "cut after"])
@pytest.mark.parametrize("kind", SIDES)
async def test_a_creation_without_an_answer_is_found_again(
    store: ZooKeeperStore,
    theirs: ZooKeeperStore,
    proxy: ZooKeeperProxy,
    bell: Bell,
    name: str,
    kind: Kind,
    fate: Fate,
) -> None:
    owner = new_owner()
    await make_directory(store, name, kind)
    proxy.next(CREATE, fate)
    hold = await granted(store, name, owner, kind)
    assert proxy.hit.is_set()
    assert proxy.connections == 2
    assert await owners(theirs, name, kind) == [owner]
    assert await renewed(store, name, owner, hold) is not None
    await bell.heard_all(1)


@pytest.mark.parametrize("kind", SIDES)
async def test_an_unsure_creation_is_taken_back(
    store: ZooKeeperStore, theirs: ZooKeeperStore, proxy: ZooKeeperProxy, name: str, kind: Kind
) -> None:
    owner = new_owner()
    await make_directory(store, name, kind)
    proxy.next(CREATE, "swallow")
    with pytest.raises(ConnectionLostError) as caught:
        await store.ask(wish(name, owner, kind), soon(1.5))
    assert caught.value.maybe_held
    assert await owners(theirs, name, kind) == [owner]
    assert await give_back(store, name, owner, unsure=True) is True
    assert await owners(theirs, name, kind) == []
    assert await give_back(store, name, owner, unsure=True) is False


async def test_a_late_creation_is_refused(
    store: ZooKeeperStore, theirs: ZooKeeperStore, proxy: ZooKeeperProxy, name: str
) -> None:
    owner = new_owner()
    await make_directory(store, name)
    proxy.next(CREATE, "hold")
    with pytest.raises(ConnectionLostError) as caught:
        await store.ask(wish(name, owner), soon(1.5))
    assert caught.value.maybe_held
    proxy.cut()
    assert await give_back(store, name, owner, unsure=True) is False
    # The server ends the connection of before, and with it what may still arrive on it.
    await until(lambda: proxy.links == 1)
    proxy.release()
    await store.ping(soon())
    assert await owners(theirs, name) == []
    assert proxy.errors == []


@pytest.mark.parametrize("fate", ["cut before", "cut after"])
async def test_a_deletion_without_an_answer_is_made_again(
    store: ZooKeeperStore, theirs: ZooKeeperStore, proxy: ZooKeeperProxy, name: str, fate: Fate
) -> None:
    owner = new_owner()
    await granted(store, name, owner)
    proxy.next(DELETE, fate)
    # Whether it was our deletion cannot be known.
    assert await give_back(store, name, owner) is (True if fate == "cut before" else None)
    assert proxy.hit.is_set()
    assert await owners(theirs, name) == []


async def test_a_deletion_that_stays_unanswered_may_have_been_made(
    store: ZooKeeperStore, theirs: ZooKeeperStore, proxy: ZooKeeperProxy, name: str
) -> None:
    owner = new_owner()
    await granted(store, name, owner)
    proxy.next(DELETE, "swallow")
    with pytest.raises(ConnectionLostError) as caught:
        await store.give_back(name, owner, False, soon(1.5))
    assert caught.value.maybe_held
    assert await owners(theirs, name) == []
    # The store has deleted by itself what nobody heard of: both at once may race.
    await until(lambda: not store._owed)
    assert await give_back(store, name, owner, unsure=True) is None


async def test_a_renewal_without_an_answer_is_made_again(
    store: ZooKeeperStore, proxy: ZooKeeperProxy, name: str
) -> None:
    owner = new_owner()
    hold = await granted(store, name, owner)
    proxy.next(SYNC, "cut after")
    assert await renewed(store, name, owner, hold) is not None
    assert proxy.hit.is_set()


async def test_a_slow_grant_counts_from_before_it_was_sent(
    store: ZooKeeperStore, proxy: ZooKeeperProxy, name: str
) -> None:
    """So does a slow renewal."""
    await make_directory(store, name)
    hold: Granted | None = None
    for operation, waits in ((CREATE, True), (SYNC, True), (SYNC, False)):
        proxy.next(operation, "hold")
        asking = asyncio.create_task(ask(store, name, "slow:1", waits=waits))
        await proxy.hit.wait()
        sent = now()
        proxy.release()
        answer = await asking
        assert isinstance(answer, Granted)
        assert answer.until <= sent + store.session_timeout
        hold = answer
    assert hold is not None
    proxy.next(SYNC, "hold")
    renewing = asyncio.create_task(renewed(store, name, "slow:1", hold))
    await proxy.hit.wait()
    sent = now()
    proxy.release()
    end = await renewing
    assert end is not None
    assert end <= sent + store.session_timeout


async def test_a_release_during_a_disconnection_is_not_missed(
    store: ZooKeeperStore, theirs: ZooKeeperStore, proxy: ZooKeeperProxy, bell: Bell, name: str
) -> None:
    await granted(theirs, name, "other:1")
    assert await ask(store, name, "waiter:1") == Busy(None)
    proxy.refuse(True)
    proxy.cut()
    await give_back(theirs, name, "other:1")
    proxy.refuse(False)
    await bell.heard_all(1)
    await granted(store, name, "waiter:1")


@pytest.mark.parametrize(
    ("kind", "operation", "looks"),
    # Of a semaphore mutex: the directory of the gate, that of leases, and that with a watch.
    [("lock", GET_DATA, 1), ("semaphore", GET_CHILDREN, 3)],
)
async def test_a_release_before_the_watch_is_not_missed(
    store: ZooKeeperStore,
    theirs: ZooKeeperStore,
    proxy: ZooKeeperProxy,
    name: str,
    kind: Kind,
    operation: int,
    looks: int,
) -> None:
    await granted(theirs, name, "other:1", kind)
    for _ in range(looks - 1):
        proxy.next(operation, "pass")
    proxy.next(operation, "hold")
    asking = asyncio.create_task(granted(store, name, "waiter:1", kind))
    await until(lambda: proxy.seen.get(operation, 0) == looks)
    await give_back(theirs, name, "other:1")
    proxy.release()
    await asking


@pytest.mark.parametrize("kind", ["lock", "semaphore"])
async def test_a_watch_is_set_again_on_a_new_connection(
    store: ZooKeeperStore,
    theirs: ZooKeeperStore,
    proxy: ZooKeeperProxy,
    bell: Bell,
    name: str,
    kind: Kind,
) -> None:
    await granted(theirs, name, "other:1", kind)
    assert await ask(store, name, "waiter:2", kind) == Busy(None)
    proxy.cut()
    await bell.heard_all(1)
    assert await ask(store, name, "waiter:2", kind) == Busy(None)
    await give_back(theirs, name, "other:1")
    await bell.heard(name)
    await granted(store, name, "waiter:2", kind)


@pytest.mark.parametrize("kind", ["lock", "semaphore"])
async def test_the_end_of_a_session_ends_its_holds_and_waits(
    theirs: ZooKeeperStore, proxy: ZooKeeperProxy, bell: Bell, name: str, kind: Kind
) -> None:
    async with opened(proxy.url, bell, SHORT) as store:
        hold = await granted(store, name, "short:1", kind)
        assert await ask(theirs, name, "other:1", kind) == Busy(None)
        assert await ask(store, name, "short:2", kind) == Busy(None)
        proxy.refuse(True)
        proxy.cut()
        while not isinstance(await ask(theirs, name, "other:1", kind), Granted):
            await asyncio.sleep(0.02)
        # Nobody else has it before the end that was promised.
        assert now() > hold.until
        proxy.refuse(False)
        await bell.heard_all(1)
        assert await renewed(store, name, "short:1", hold) is None
        assert await give_back(store, name, "short:1") is False
        assert await ask(store, name, "short:2", kind) == Busy(None)
        assert await owners(theirs, name, kind) == ["other:1", "short:2"]
        bell.rung.clear()
        await give_back(theirs, name, "other:1")
        await bell.heard(name)
        assert (await granted(store, name, "short:2", kind)).token > hold.token


async def test_a_server_that_never_answers_is_a_lost_connection() -> None:
    threads = threading.active_count()
    with socket.create_server((HOST, 0)) as silent:
        port = silent.getsockname()[1]
        store = ZooKeeperStore.from_url(f"zookeeper://ann:secret@{HOST}:{port}", 1.0)
        with pytest.raises(ConnectionLostError, match=str(port)) as caught:
            await store.start(Bell(), soon(0.3))
        assert not caught.value.maybe_held
        assert "secret" not in f"{caught.value!r} {caught.value.__cause__!r}"
        with pytest.raises(ConnectionLostError):
            await store.ping(soon(0.01))
    await until(lambda: threading.active_count() <= threads)


async def test_a_store_that_stops_in_the_dark_lets_its_session_end(
    server: ZooKeeperServer, kazoo: KazooClient, name: str
) -> None:
    async with ZooKeeperProxy(server.port) as proxy:
        async with opened(proxy.url, lease=SHORT) as store:
            await granted(store, name, "stop:1")
            proxy.black_hole(True)
        proxy.refuse(True)
    await until(lambda: not nodes(kazoo, name))
