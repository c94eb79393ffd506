"""The store on etcd when connections break, answers are lost, and servers stop."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from redisson_py._stores.contract import Busy, Granted, Renewal
from redisson_py._time import now
from redisson_py.errors import ConnectionLostError
from redisson_py.testing import FaultProxy
from redisson_py.testing._link import Link
from tests.stores.etcd.client import LEASE, Client, eventually, soon, wish
from tests.stores.etcd.server import EtcdServer

_numbers = itertools.count(1)


@pytest.fixture
def name() -> str:
    return f"name-{next(_numbers)}"


@pytest_asyncio.fixture
async def proxy(server: EtcdServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FaultProxy]:
    """A proxy that takes nothing for RESP: the preface of HTTP/2 looks like a command of it."""
    start = Link.start

    def start_raw(link: Link, host: str, port: int) -> asyncio.Task[None]:
        link._raw = True
        return start(link, host, port)

    monkeypatch.setattr(Link, "start", start_raw)
    async with FaultProxy("127.0.0.1", server.port) as started:
        yield started


async def test_a_lost_answer_to_a_question(
    server: EtcdServer, proxy: FaultProxy, two: Client, name: str
) -> None:
    async with Client(f"etcd://127.0.0.1:{proxy.port}") as one:
        await one.granted(f"{name}x", "a:0")
        proxy.black_hole("down")
        with pytest.raises(ConnectionLostError) as caught:
            await one.store.ask(wish(name, "a:1"), soon(2))
        assert caught.value.maybe_held
        assert len(server.keys(f"{name}/")) == 1
        proxy.pass_through()
        assert await one.give_back(name, "a:1", unsure=True) is True
        await two.granted(name, "b:1")
        assert one.bell.all == 1


async def test_a_lease_counts_from_before_its_request(proxy: FaultProxy, name: str) -> None:
    async with Client(f"etcd://127.0.0.1:{proxy.port}") as one:
        first = await one.granted(name, "a:1")
        proxy.delay(0.2, direction="down")
        (until,) = await one.renew(Renewal(name, "a:1", first.token, LEASE))
        # Two answers that took so long each; etcd counts from before the first of them.
        assert until is not None
        assert first.until < until <= now() - 0.4 + LEASE
        own = await one.granted(name, "a:1", renewed=False, lease=9)
        assert own.until <= now() - 0.4 + 9
        proxy.pass_through()


async def test_a_lost_answer_is_asked_for_elsewhere(
    server: EtcdServer, proxy: FaultProxy, name: str
) -> None:
    async with Client(f"etcd://127.0.0.1:{proxy.port},{server.address}") as one:
        await one.granted(f"{name}x", "a:0")
        proxy.black_hole("down")
        first = await one.store.ask(wish(name, "a:1"), soon(6))
        assert isinstance(first, Granted)
    async with Client(f"etcd://127.0.0.1:{proxy.port},{server.address}") as one:
        # In the black hole from the beginning: the other endpoint has its turn.
        second = await one.granted(name, "a:2")
        assert second.token > first.token


async def test_a_release_with_a_lost_answer_was_a_release(
    server: EtcdServer, proxy: FaultProxy, name: str
) -> None:
    async with Client(f"etcd://127.0.0.1:{proxy.port},{server.address}") as one:
        await one.granted(name, "a:1")
        proxy.black_hole("down")
        assert await one.store.give_back(name, "a:1", False, soon(6)) is True
        assert await one.give_back(name, "a:1") is False
    assert server.keys(f"{name}/") == []


async def test_a_release_without_an_answer_is_made_up_for(
    server: EtcdServer, proxy: FaultProxy, name: str
) -> None:
    async with Client(f"etcd://127.0.0.1:{proxy.port}") as one:
        await one.granted(name, "a:1")
        await one.granted(f"{name}b", "a:2")
        proxy.refuse()
        proxy.cut()
        for each, owner in ((name, "a:1"), (f"{name}b", "a:2")):
            with pytest.raises(ConnectionLostError):
                await one.store.give_back(each, owner, False, soon(0.3))
        assert len(server.keys(name)) == 2
        proxy.pass_through()
        # The session lives on, with a call that has nothing to do with it; its keys must not.
        await one.store.ping(soon())
        await eventually(lambda: server.keys(name) == [])
        await eventually(lambda: not one.store._holds._owed)
        assert await one.give_back(name, "a:1") is True
        assert await one.give_back(name, "a:1") is False


async def test_nothing_was_asked_where_nobody_listens(proxy: FaultProxy, name: str) -> None:
    async with Client(f"etcd://127.0.0.1:{proxy.port}") as one:
        await one.granted(name, "a:1")
        proxy.refuse()
        proxy.cut()
        with pytest.raises(ConnectionLostError):
            await one.store.ping(soon(0.3))
        with pytest.raises(ConnectionLostError) as caught:
            await one.store.ask(wish(f"{name}b", "a:2"), soon(0.3))
        assert not caught.value.maybe_held
        proxy.pass_through()
        await one.granted(f"{name}b", "a:2")
        assert one.bell.all == 1


async def test_a_watch_goes_on_after_a_break(
    server: EtcdServer, proxy: FaultProxy, two: Client, name: str
) -> None:
    async with Client(f"etcd://127.0.0.1:{proxy.port}") as one:
        await two.granted(name, "b:1")
        await two.granted(f"{name}x", "b:2")
        assert await one.ask(name, "a:1", waits=True) == Busy(None)
        await watching(one)
        proxy.refuse()
        proxy.cut()
        await two.give_back(name, "b:1")
        assert one.bell.names == []
        proxy.pass_through()
        await one.bell.heard(name)
        await one.granted(name, "a:1", waits=True)


async def test_a_watch_that_comes_late_has_its_waiter_ask(
    server: EtcdServer, one: Client, two: Client, name: str
) -> None:
    holder = await two.granted(name, "b:1")
    key = server.keys(f"{name}/")[0].encode()
    await two.granted(f"{name}x", "b:2")
    # etcd has gone on since then: what this watch has missed it looks for some time later.
    one.store._watches.watch((name, "a:1"), key, holder.token + 1)
    await one.bell.heard(name)
    # It goes on all the same, and is not begun again by a waiter that asks.
    watch = one.store._watches._by_waiter[name, "a:1"]
    one.store._watches.watch((name, "a:1"), key, holder.token + 3)
    assert one.store._watches._by_waiter[name, "a:1"] is watch
    before = len(one.bell.names)
    await two.give_back(name, "b:1")
    await eventually(lambda: len(one.bell.names) > before)
    assert not one.store._watches._by_waiter


async def test_a_watch_of_what_was_compacted_rings(
    server: EtcdServer, proxy: FaultProxy, two: Client, name: str
) -> None:
    async with Client(f"etcd://127.0.0.1:{proxy.port}") as one:
        await two.granted(name, "b:1")
        assert await one.ask(name, "a:1", waits=True) == Busy(None)
        await watching(one)
        proxy.refuse()
        proxy.cut()
        await two.granted(f"{name}x", "b:2")
        last = (await two.granted(f"{name}y", "b:3")).token
        server.ctl("compact", str(last))
        proxy.pass_through()
        await one.bell.heard(name)
        assert await one.ask(name, "a:1", waits=True) == Busy(None)
        await two.give_back(name, "b:1")
        await one.bell.heard(name)
        await one.granted(name, "a:1", waits=True)


async def test_a_watch_in_a_black_hole_is_noticed(
    server: EtcdServer, proxy: FaultProxy, two: Client, name: str
) -> None:
    async with Client(f"etcd://127.0.0.1:{proxy.port}", lease=3) as one:
        await two.granted(name, "b:1")
        assert await one.ask(name, "a:1", waits=True) == Busy(None)
        await watching(one)
        proxy.black_hole()
        accepted = proxy.accepted
        await two.give_back(name, "b:1")
        # The renewal of the waiter's session finds out, and connects again.
        await proxy.wait_until(lambda each: each.accepted > accepted)
        proxy.pass_through()
        await one.bell.heard(name)
        await one.granted(name, "a:1", waits=True)


async def test_a_server_that_stops_and_one_that_is_killed(name: str) -> None:
    with EtcdServer() as server:
        async with Client(server.url) as one:
            first = await one.granted(name, "a:1")
            server.pause()
            with pytest.raises(ConnectionLostError) as caught:
                await one.store.ask(wish(f"{name}b", "a:2"), soon(1))
            assert caught.value.maybe_held
            with pytest.raises(ConnectionLostError):
                await one.store.renew([Renewal(name, "a:1", first.token, LEASE)], soon(0.5))
            server.resume()
            assert await one.renew(Renewal(name, "a:1", first.token, LEASE)) == [one.session.until]
            rings = one.bell.all
            assert rings
            await one.give_back(f"{name}b", "a:2", unsure=True)
            server.kill()
            with pytest.raises(ConnectionLostError):
                await one.store.ping(soon(0.3))
            server.start()
            # Holds and the session are in etcd's log.
            (kept,) = await one.renew(Renewal(name, "a:1", first.token, LEASE))
            assert kept == one.session.until
            assert one.bell.all == rings + 1
            assert server.keys(f"{name}b/") == []


async def watching(client: Client) -> None:
    """Return when the stream of a client is open."""
    await eventually(lambda: client.store._watches._outgoing is not None)
