"""The ZooKeeper store when answers are lost, connections break, and sessions end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import pytest_asyncio
from kazoo.client import KazooClient

from redisson_py._stores.contract import Busy, Granted
from redisson_py._stores.zookeeper import ZooKeeperStore
from redisson_py._time import now
from redisson_py.errors import ConnectionLostError
from redisson_py.testing._configuration import free_port
from tests.stores.zookeeper.proxy import CREATE, DELETE, GET_DATA, SYNC, Fate, ZooKeeperProxy
from tests.stores.zookeeper.server import HOST, TICK, ZooKeeperServer
from tests.stores.zookeeper.support import (
    Bell,
    dead_port,
    granted,
    new_owner,
    opened,
    renewal,
    soon,
    wish,
)
from tests.support.waiting import until

#: Seconds that a session lives without a sign of life, where a test waits for its end.
SHORT = 15 * TICK


@pytest_asyncio.fixture
async def other(server: ZooKeeperServer) -> AsyncIterator[ZooKeeperStore]:
    """Another client, which has no faults."""
    async with opened(server.url) as started:
        yield started


async def contenders(other: ZooKeeperStore, name: str) -> tuple[str, ...]:
    """Return the owners of all nodes of a name."""
    state = await other.look(name, soon())
    return (*([state.holder.owner] if state.holder else []), *(state.waiters or ()))


async def nothing_owed(store: ZooKeeperStore) -> None:
    """Return when the store has deleted by itself what nobody heard of: both at once may race."""
    await until(lambda: not store._owed)


@pytest.mark.parametrize("fate", ["cut before", "cut after"])
async def test_a_creation_without_an_answer_is_found_again(
    store: ZooKeeperStore,
    other: ZooKeeperStore,
    proxy: ZooKeeperProxy,
    bell: Bell,
    name: str,
    fate: Fate,
) -> None:
    owner = new_owner()
    await granted(store, name, "warm:1")
    await store.give_back(name, "warm:1", False, soon())
    proxy.next(CREATE, fate)
    answer = await granted(store, name, owner)
    assert proxy.hit.is_set()
    assert proxy.connections == 2
    assert await contenders(other, name) == (owner,)
    assert (await other.look(name, soon())).holder is not None
    assert await store.renew([renewal(name, owner, answer)], soon()) != [None]
    await bell.until_all(1)


async def test_a_waiting_creation_without_an_answer_is_found_again(
    store: ZooKeeperStore, other: ZooKeeperStore, proxy: ZooKeeperProxy, bell: Bell, name: str
) -> None:
    owner = new_owner()
    await granted(other, name, "other:1")
    proxy.next(CREATE, "cut after")
    assert await store.ask(wish(name, owner), soon()) == Busy(None)
    assert await contenders(other, name) == ("other:1", owner)
    await other.give_back(name, "other:1", False, soon())
    await bell.until_rung(name)
    await granted(store, name, owner)


async def test_an_unsure_creation_is_taken_back(
    store: ZooKeeperStore, other: ZooKeeperStore, proxy: ZooKeeperProxy, name: str
) -> None:
    owner = new_owner()
    await granted(store, name, "warm:1")
    await store.give_back(name, "warm:1", False, soon())
    proxy.next(CREATE, "swallow")
    with pytest.raises(ConnectionLostError) as caught:
        await store.ask(wish(name, owner), soon(1.5))
    assert caught.value.maybe_held
    assert await contenders(other, name) == (owner,)
    assert await store.give_back(name, owner, True, soon()) is True
    assert await contenders(other, name) == ()
    assert await store.give_back(name, owner, True, soon()) is False


async def test_a_late_creation_is_refused(
    store: ZooKeeperStore, other: ZooKeeperStore, proxy: ZooKeeperProxy, name: str
) -> None:
    owner = new_owner()
    await granted(store, name, "warm:1")
    await store.give_back(name, "warm:1", False, soon())
    proxy.next(CREATE, "hold")
    with pytest.raises(ConnectionLostError) as caught:
        await store.ask(wish(name, owner), soon(1.5))
    assert caught.value.maybe_held
    proxy.cut()
    assert await store.give_back(name, owner, True, soon()) is False
    # The server ends the connection of before, and with it what may still arrive on it.
    while proxy.links > 1:
        await asyncio.sleep(0.01)
    proxy.release()
    await store.ping(soon())
    assert await contenders(other, name) == ()
    assert proxy.errors == []


@pytest.mark.parametrize("fate", ["cut before", "cut after"])
async def test_a_deletion_without_an_answer_is_made_again(
    store: ZooKeeperStore, other: ZooKeeperStore, proxy: ZooKeeperProxy, name: str, fate: Fate
) -> None:
    owner = new_owner()
    await granted(store, name, owner)
    proxy.next(DELETE, fate)
    # Whether it was our deletion cannot be known.
    expected = True if fate == "cut before" else None
    assert await store.give_back(name, owner, False, soon()) is expected
    assert proxy.hit.is_set()
    assert await contenders(other, name) == ()


async def test_a_deletion_that_stays_unanswered_may_have_been_made(
    store: ZooKeeperStore, other: ZooKeeperStore, proxy: ZooKeeperProxy, name: str
) -> None:
    owner = new_owner()
    await granted(store, name, owner)
    proxy.next(DELETE, "swallow")
    with pytest.raises(ConnectionLostError) as caught:
        await store.give_back(name, owner, False, soon(1.5))
    assert caught.value.maybe_held
    assert await contenders(other, name) == ()
    await nothing_owed(store)
    assert await store.give_back(name, owner, True, soon()) is None


async def test_a_renewal_without_an_answer_is_made_again(
    store: ZooKeeperStore, proxy: ZooKeeperProxy, name: str
) -> None:
    owner = new_owner()
    hold = await granted(store, name, owner)
    proxy.next(SYNC, "cut after")
    assert await store.renew([renewal(name, owner, hold)], soon()) != [None]
    assert proxy.hit.is_set()


async def test_a_slow_grant_counts_from_before_it_was_sent(
    store: ZooKeeperStore, proxy: ZooKeeperProxy, name: str
) -> None:
    # The directory is there after this one.
    await granted(store, name, "slow:0")
    await store.give_back(name, "slow:0", False, soon())
    for operation, waits in ((CREATE, True), (SYNC, True), (SYNC, False)):
        proxy.next(operation, "hold")
        asking = asyncio.create_task(store.ask(wish(name, "slow:1", waits=waits), soon()))
        await proxy.hit.wait()
        sent = now()
        proxy.release()
        answer = await asking
        assert isinstance(answer, Granted)
        assert answer.until <= sent + store.session_timeout


async def test_a_slow_renewal_counts_from_before_it_was_sent(
    store: ZooKeeperStore, proxy: ZooKeeperProxy, name: str
) -> None:
    hold = await granted(store, name, "slow:2")
    proxy.next(SYNC, "hold")
    renewing = asyncio.create_task(store.renew([renewal(name, "slow:2", hold)], soon()))
    await proxy.hit.wait()
    sent = now()
    proxy.release()
    (until,) = await renewing
    assert until is not None
    assert until <= sent + store.session_timeout


async def test_a_black_hole_ends_each_call_at_its_deadline(
    store: ZooKeeperStore, other: ZooKeeperStore, proxy: ZooKeeperProxy, bell: Bell, name: str
) -> None:
    owner, second = new_owner(), new_owner()
    hold = await granted(store, name, owner)
    proxy.black_hole(True)
    deadline = soon(0.3)
    calls = (
        store.ask(wish(name, second), deadline),
        store.renew([renewal(name, owner, hold)], deadline),
        store.look(name, deadline),
        store.give_back(name, owner, False, deadline),
        store.ping(deadline),
    )
    ends = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(end) for end in ends] == [ConnectionLostError] * len(calls)
    assert await contenders(other, name) == (owner,)
    proxy.black_hole(False)
    proxy.cut()
    await bell.until_all(1)
    assert await store.give_back(name, second, True, soon()) is False
    await nothing_owed(store)
    assert await store.give_back(name, owner, True, soon()) is True
    assert await contenders(other, name) == ()


async def test_a_release_during_a_disconnection_is_not_missed(
    store: ZooKeeperStore, other: ZooKeeperStore, proxy: ZooKeeperProxy, bell: Bell, name: str
) -> None:
    await granted(other, name, "other:1")
    assert await store.ask(wish(name, "waiter:1"), soon()) == Busy(None)
    proxy.refuse(True)
    proxy.cut()
    await other.give_back(name, "other:1", False, soon())
    proxy.refuse(False)
    await bell.until_all(1)
    await granted(store, name, "waiter:1")


async def test_a_release_before_the_watch_is_not_missed(
    store: ZooKeeperStore, other: ZooKeeperStore, proxy: ZooKeeperProxy, name: str
) -> None:
    await granted(other, name, "other:1")
    proxy.next(GET_DATA, "hold")
    asking = asyncio.create_task(store.ask(wish(name, "waiter:1"), soon()))
    await proxy.hit.wait()
    await other.give_back(name, "other:1", False, soon())
    proxy.release()
    assert isinstance(await asking, Granted)


async def test_a_watch_is_set_again_on_a_new_connection(
    store: ZooKeeperStore, other: ZooKeeperStore, proxy: ZooKeeperProxy, bell: Bell, name: str
) -> None:
    await granted(other, name, "other:1")
    assert await store.ask(wish(name, "waiter:2"), soon()) == Busy(None)
    proxy.cut()
    await bell.until_all(1)
    assert await store.ask(wish(name, "waiter:2"), soon()) == Busy(None)
    await other.give_back(name, "other:1", False, soon())
    await bell.until_rung(name)
    await granted(store, name, "waiter:2")


async def test_the_end_of_a_session_ends_its_holds(
    server: ZooKeeperServer, other: ZooKeeperStore, proxy: ZooKeeperProxy, bell: Bell, name: str
) -> None:
    async with opened(proxy.url, bell, SHORT) as store:
        hold = await granted(store, name, "short:1")
        assert await other.ask(wish(name, "other:1"), soon()) == Busy(None)
        assert await store.ask(wish(name, "short:2"), soon()) == Busy(None)
        proxy.refuse(True)
        proxy.cut()
        while not isinstance(await other.ask(wish(name, "other:1"), soon()), Granted):
            await asyncio.sleep(0.02)
        # Nobody else has it before the end that was promised.
        assert now() > hold.until
        proxy.refuse(False)
        await bell.until_all(1)
        assert await store.renew([renewal(name, "short:1", hold)], soon()) == [None]
        assert await store.give_back(name, "short:1", False, soon()) is False
        assert await store.ask(wish(name, "short:2"), soon()) == Busy(None)
        assert await contenders(other, name) == ("other:1", "short:2")
        bell.rung.clear()
        await other.give_back(name, "other:1", False, soon())
        await bell.until_rung(name)
        assert (await granted(store, name, "short:2")).token > hold.token


async def test_holds_survive_a_restart_of_the_server(
    server: ZooKeeperServer, bell: Bell, name: str
) -> None:
    async with opened(server.url, bell, 30.0) as store:
        hold = await granted(store, name, "restart:1")
        assert await store.ask(wish(name, "restart:2"), soon()) == Busy(None)
        server.kill()
        with pytest.raises(ConnectionLostError):
            await store.ask(wish(f"{name}2", "restart:3"), soon(0.3))
        server.start()
        assert await store.renew([renewal(name, "restart:1", hold)], soon()) != [None]
        assert bell.all >= 1
        assert await store.give_back(name, "restart:1", False, soon()) is True
        await granted(store, name, "restart:2")


async def test_a_paused_server_is_waited_for_until_the_deadline(
    server: ZooKeeperServer, name: str
) -> None:
    async with opened(server.url) as store:
        await granted(store, name, "pause:1")
        server.pause()
        try:
            with pytest.raises(ConnectionLostError) as caught:
                await store.ask(wish(f"{name}2", "pause:2"), soon(1.5))
            assert caught.value.maybe_held
        finally:
            server.resume()
        assert await store.give_back(f"{name}2", "pause:2", True, soon()) in {True, False}
        assert (await store.look(f"{name}2", soon())).holder is None


async def test_a_cancelled_question_leaves_nothing_half_done(
    store: ZooKeeperStore, other: ZooKeeperStore, proxy: ZooKeeperProxy, name: str
) -> None:
    await granted(store, name, "warm:1")
    await store.give_back(name, "warm:1", False, soon())
    proxy.next(CREATE, "hold")
    asking = asyncio.create_task(store.ask(wish(name, "cancelled:1"), soon()))
    await proxy.hit.wait()
    asking.cancel()
    with suppress(asyncio.CancelledError):
        await asking
    proxy.release()
    assert await store.give_back(name, "cancelled:1", True, soon()) is True
    assert await contenders(other, name) == ()
    await granted(store, name, new_owner())


async def test_a_server_that_is_not_there_is_a_lost_connection() -> None:
    threads = threading.active_count()
    silent = dead_port()
    try:
        for port in (free_port(), silent.getsockname()[1]):
            store = ZooKeeperStore.from_url(f"zookeeper://ann:secret@{HOST}:{port}", 1.0)
            with pytest.raises(ConnectionLostError, match=str(port)) as caught:
                await store.start(Bell(), soon(0.3))
            assert not caught.value.maybe_held
            assert "secret" not in f"{caught.value!r} {caught.value.__cause__!r}"
            with pytest.raises(ConnectionLostError):
                await store.ping(soon(0.01))
    finally:
        silent.close()
    while threading.active_count() > threads:
        await asyncio.sleep(0.02)


async def test_stops_while_the_server_is_not_there(server: ZooKeeperServer, name: str) -> None:
    async with ZooKeeperProxy(server.port) as proxy:
        store, watcher = ZooKeeperStore.from_url(proxy.url, SHORT), KazooClient(server.url[12:])
        await store.start(Bell(), soon())
        await granted(store, name, "stop:1")
        proxy.black_hole(True)
        await store.stop()
        proxy.refuse(True)
    watcher.start()
    while watcher.get_children(f"/redisson_py/{name}"):
        await asyncio.sleep(0.02)
    watcher.stop()
    watcher.close()
