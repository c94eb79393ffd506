"""The store on etcd when connections break, answers are lost, and servers stop."""

from __future__ import annotations

import pytest

from redisson_py._stores.contract import Busy, Granted, Renewal
from redisson_py._time import now
from redisson_py.errors import ConnectionLostError
from redisson_py.testing import FaultProxy
from tests.stores.etcd.client import LEASE, Client, soon, wish
from tests.stores.etcd.server import EtcdServer
from tests.support.waiting import until


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
    url = f"etcd://127.0.0.1:{proxy.port},{server.address}"
    async with Client(url) as one:
        await one.granted(f"{name}x", "a:0")
        proxy.black_hole("down")
        first = await one.store.ask(wish(name, "a:1"), soon(6))
        assert isinstance(first, Granted)
    proxy.pass_through()
    async with Client(url) as one:
        await one.granted(name, "a:1")
        proxy.black_hole("down")
        assert await one.store.give_back(name, "a:1", False, soon(6)) is True
        assert await one.give_back(name, "a:1") is False
    assert server.keys(f"{name}/") == []
    async with Client(url) as one:
        # In the black hole from the beginning: the other endpoint has its turn.
        assert (await one.granted(name, "a:2")).token > first.token


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
        await server.until_keys(name)
        await until(lambda: not one.store._holds._owed)
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
    before = len(one.bell.rung)
    await two.give_back(name, "b:1")
    await until(lambda: len(one.bell.rung) > before)
    assert not one.store._watches._by_waiter


async def test_a_watch_goes_on_after_a_break(proxy: FaultProxy, two: Client, name: str) -> None:
    async with Client(f"etcd://127.0.0.1:{proxy.port}") as one:
        await two.granted(name, "b:1")
        assert await one.ask(name, "a:1", waits=True) == Busy(None)
        await watching(one)
        proxy.refuse()
        proxy.cut()
        await two.give_back(name, "b:1")
        assert one.bell.rung == []
        proxy.pass_through()
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


async def watching(client: Client) -> None:
    """Return when the stream of a client is open."""
    await until(lambda: client.store._watches._outgoing is not None)
