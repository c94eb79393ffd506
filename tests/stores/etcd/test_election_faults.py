"""Elections in etcd when answers are lost, sessions end, and requests come late."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from redisson_py import ConnectionLostError, LeaseLostError
from redisson_py._stores.contract import Busy, Renewal
from redisson_py.etcd import Election, Leader
from redisson_py.testing import FaultProxy
from tests.stores.backends import Backend, EtcdBackend
from tests.stores.conftest import NewClient
from tests.stores.election_support import Observer, election_of, leading
from tests.stores.etcd.client import LEASE, Client, soon
from tests.stores.etcd.server import EtcdServer
from tests.stores.raw_proxy import RawProxy
from tests.support.waiting import until_async


async def nobody_leads(election: Election) -> None:
    async def seen() -> bool:
        return await election.leader() is None

    await until_async(seen)


async def test_lost_answers_to_a_leader(
    backend: Backend, server: EtcdServer, new_client: NewClient, name: str, others: Election
) -> None:
    """Each request is sent again: there is one key, and it has the last value."""
    async with RawProxy(backend.server.port) as proxy:
        client: Any = new_client(url=backend.url_at(proxy.port))
        # It has its session.
        async with client.get_lock(f"{name}x"):
            pass
        proxy.lose_next()
        async with election_of(client, name).campaign("one") as leadership:
            assert not proxy._loses
            assert await others.leader() == Leader(b"one", leadership.token)
            for value in ("two", "three"):
                proxy.lose_next()
                await leadership.proclaim(value)
                assert not proxy._loses
                assert await others.leader() == Leader(value.encode(), leadership.token)
            assert len(server.keys(f"{name}/")) == 1
            proxy.lose_next()
        await nobody_leads(others)
        await client.aclose()


async def test_a_campaign_without_an_answer_leaves_nothing(
    server: EtcdServer, proxy: FaultProxy, new_client: NewClient, name: str, others: Election
) -> None:
    options = {"command_timeout": 2, "lease_time": 30}
    client: Any = new_client(url=f"etcd://127.0.0.1:{proxy.port}", **options)
    async with client.get_lock(f"{name}x"):
        pass
    proxy.black_hole("down")
    with pytest.raises(ConnectionLostError):
        async with election_of(client, name).campaign("one"):
            pytest.fail("it leads")
    assert await others.leader() is not None
    proxy.pass_through()
    await nobody_leads(others)
    assert server.keys(f"{name}/") == []


async def test_a_value_without_an_answer_can_be_proclaimed_again(
    proxy: FaultProxy, new_client: NewClient, name: str, others: Election
) -> None:
    options = {"command_timeout": 2, "lease_time": 30}
    client: Any = new_client(url=f"etcd://127.0.0.1:{proxy.port}", **options)
    async with election_of(client, name).campaign("one") as leadership:
        proxy.black_hole("down")
        with pytest.raises(ConnectionLostError):
            await leadership.proclaim("two")
        proxy.pass_through()
        await leadership.proclaim("three")
        assert await others.leader() == Leader(b"three", leadership.token)
        await leadership.proclaim("four")
        assert await others.leader() == Leader(b"four", leadership.token)


async def test_the_body_ends_before_the_next_is_elected(
    proxy: FaultProxy, new_client: NewClient, name: str, others: Election
) -> None:
    client: Any = new_client(url=f"etcd://127.0.0.1:{proxy.port}")
    election, lost = election_of(client, name), list[bool]()
    async with contextlib.AsyncExitStack() as stack:
        with pytest.raises(LeaseLostError) as caught:
            async with election.campaign("one") as leadership:
                elected = await stack.enter_async_context(leading(others, "two"))
                elected.add_done_callback(lambda _: lost.append(leadership.lost))
                proxy.black_hole()
                await asyncio.sleep(60)
                pytest.fail("it leads on")
        assert caught.value.reason == "expired"
        async with asyncio.timeout(30):
            next_one = await elected
        assert lost == [True]
        assert next_one.token > leadership.token
        with pytest.raises(LeaseLostError):
            await leadership.proclaim("late")
        proxy.pass_through()
        await client.ping(timeout=30)
        assert await election.leader() == Leader(b"two", next_one.token)


async def test_a_restart_of_the_server_elects_nobody_else(name: str) -> None:
    backend = EtcdBackend()
    try:
        # The server may be away for longer than a short lease.
        lease: dict[str, Any] = {"lease_time": 60}
        async with backend.client(**lease) as client, backend.client(**lease) as other:
            election, others = election_of(client, name), election_of(other, name)
            async with Observer(others) as observer, election.campaign("one") as leadership:
                await observer.saw(None, "one")
                async with leading(others, "two") as elected:
                    await backend.kill()
                    await backend.restart()
                    await leadership.proclaim("still one")
                    await observer.saw(None, "one", "still one")
                    assert not elected.done()
                    await leadership.release()
                    assert (await elected).token > leadership.token
                await observer.saw_last(None)
    finally:
        backend.close()


# The seam: what the engine asks of the store for an election.


async def test_asking_twice_is_one_candidate(server: EtcdServer, one: Client, name: str) -> None:
    first = await one.granted(name, "a:1", kind="election")
    assert await one.granted(name, "a:1", kind="election") == first
    assert server.keys(f"{name}/") == [f"{name}/a:1"]
    # Another of this client stands beside it.
    assert await one.ask(name, "a:2", kind="election", waits=True) == Busy(None)
    assert await one.ask(name, "a:3", kind="election") == Busy(None)
    assert server.keys(f"{name}/") == [f"{name}/a:1", f"{name}/a:2"]
    state = await one.store.look(name, soon(), "election")
    assert state.holder is not None
    assert (state.holder.owner, state.waiters) == ("a:1", ("a:2",))
    assert await one.give_back(name, "a:1") is True
    await one.bell.heard(name)
    second = await one.granted(name, "a:2", kind="election", waits=True)
    assert second.token > first.token
    assert await one.renew(
        Renewal(name, "a:1", first.token, LEASE), Renewal(name, "a:2", second.token, LEASE)
    ) == [None, one.session.until]
    assert await one.store.force_release(name, soon(), "election")
    assert server.keys(f"{name}/") == []
    assert await one.give_back(name, "a:2") is False


async def test_a_leadership_under_a_lease_of_its_own(
    server: EtcdServer, one: Client, two: Client, name: str
) -> None:
    first = await one.granted(name, "a:1", kind="election", renewed=False, lease=60)
    await one.store._sessions.end(one.session, soon())
    # It is not under the session, and its value can be changed all the same.
    written = await one.store.proclaim(name, "a:1", first.token, first.token, b"y", soon())
    assert written > first.token
    seen = await two.store.leader(name, soon())
    assert (seen.value, seen.token) == (b"y", first.token)
    assert await two.ask(name, "b:1", kind="election") == Busy(None)
    assert await one.give_back(name, "a:1") is True
    assert (await two.store.leader(name, soon())).value is None
    assert await one.store.proclaim(name, "a:1", first.token, written, b"z", soon()) == 0
    assert server.keys(f"{name}/") == []
