"""Observers of an election in etcd: what they see, what they cost, and what they leave."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
from typing import Any
from unittest.mock import Mock

import pytest

from redisson_py import ClientClosedError, ConnectionLostError, LeaseLostError
from redisson_py._stores.etcd import messages
from redisson_py.etcd import Election, Leader
from redisson_py.testing import FaultProxy
from tests.stores.backends import Backend
from tests.stores.conftest import NewClient
from tests.stores.election_support import Observer, election_of, leading, queued
from tests.stores.etcd.server import EtcdServer
from tests.stores.traces import Loops, nothing_left
from tests.support.waiting import set_safety_poll, until

pytestmark = pytest.mark.usefixtures("no_polls")


def watches_of(client: Any) -> Any:
    return client._store._watches._by_waiter


async def test_each_change_is_seen(election: Election, others: Election) -> None:
    async with Observer(others) as observer, Observer(election) as beside:

        async def saw(*values: str | None) -> None:
            # Changes that follow at once on each other may be told as one.
            await observer.saw(*values)
            await beside.saw(*values)

        async with election.campaign("one") as leadership:
            await saw(None, "one")
            await leadership.proclaim("two")
            await saw(None, "one", "two")
            # No change.
            await leadership.proclaim("two")
            await leadership.extend(60)
            await leadership.proclaim("three")
            await saw(None, "one", "two", "three")
            async with leading(others, "next") as elected:
                # One that waits is no change either.
                assert not elected.done()
                await leadership.release()
                await saw(None, "one", "two", "three", "next")
                after = (await elected).token
        await saw(None, "one", "two", "three", "next", None)
        tokens = [each and each.token for each in observer.leaders]
        assert tokens == [None, *[leadership.token] * 3, after, None]


async def test_a_slow_observer_sees_the_newest(election: Election, others: Election) -> None:
    states = others.observe()
    assert await anext(states) is None
    async with election.campaign("one") as leadership:
        for value in ("two", "three", "four"):
            await leadership.proclaim(value)
        assert await anext(states) == Leader(b"four", leadership.token)
    assert await anext(states) is None
    async with election.campaign("short"):
        pass
    waiting = asyncio.create_task(anext(states))
    async with election.campaign("last") as leadership:
        assert await waiting == Leader(b"last", leadership.token)
    await states.aclose()


async def test_what_an_observer_costs(
    election: Election, others: Election, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No session, one watch on a shared stream, one read for each change, nothing while idle."""
    await other.ping()
    calls = Mock(side_effect=other._store._link.call)
    monkeypatch.setattr(other._store._link, "call", calls)
    async with Observer(others) as observer:
        async with election.campaign("0") as leadership:
            await observer.saw(None, "0")
            # A watch that begins after other writes may make it look once more.
            before = calls.call_count
            for number in range(1, 11):
                await leadership.proclaim(str(number))
                await observer.saw(None, *map(str, range(number + 1)))
            assert 10 <= calls.call_count - before <= 21
            await asyncio.sleep(0.3)
            assert calls.call_count - before <= 22
        await observer.saw_last(None)
        assert len(watches_of(other)) == 1
        assert other._store._sessions.current is None
    assert all(call.args[0] is messages.RANGE for call in calls.call_args_list)
    assert not watches_of(other)
    await until(lambda: not other._context.waits)


async def test_an_observer_that_left_leaves_nothing(election: Election, client: Any) -> None:
    async with election.campaign("one"):
        async for leader in election.observe():
            assert leader
            break
        gc.collect()
        await until(lambda: not watches_of(client))
        states = election.observe()
        await anext(states)
        assert watches_of(client)
        await states.aclose()
        assert not watches_of(client)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                async for _ in election.observe():
                    assert watches_of(client)
        assert not watches_of(client)
        assert not client._context.waits


async def test_cancelled_while_it_asks_it_watches_nothing_later(
    name: str, proxy: FaultProxy, new_client: NewClient
) -> None:
    client: Any = new_client(url=f"etcd://127.0.0.1:{proxy.port}")
    await client.ping()
    proxy.delay(0.3, direction="down")
    sent = client._executor.carrier.requests
    observer = Observer(election_of(client, name))
    entering = asyncio.create_task(observer.__aenter__())
    await until(lambda: client._executor.carrier.requests > sent)
    await observer.__aexit__()
    await entering
    assert observer.seen == []
    await until(lambda: not client._executor.carrier.tasks)
    assert not watches_of(client)


async def test_a_closing_client_ends_its_observers(new_client: NewClient, name: str) -> None:
    client: Any = new_client()
    async with (
        Observer(election_of(client, name)) as one,
        Observer(election_of(client, name)) as two,
    ):
        states = election_of(client, name).observe()
        await anext(states)
        await client.aclose()
        for observer in (one, two):
            with pytest.raises(ClientClosedError):
                await observer.task
        for use in (states, election_of(client, name).observe()):
            with pytest.raises(ClientClosedError):
                await anext(use)
        with pytest.raises(ClientClosedError):
            await election_of(client, name).leader()


async def test_a_lost_session_is_seen_by_its_own_client_too(
    server: EtcdServer, election: Election, client: Any, others: Election
) -> None:
    async with Observer(election) as one, Observer(others) as two:
        async with contextlib.AsyncExitStack() as stack:
            with pytest.raises(LeaseLostError):
                async with election.campaign("first"):
                    await stack.enter_async_context(leading(others, "second"))
                    server.ctl("lease", "revoke", f"{client._store._sessions.current.number:x}")
                    await asyncio.sleep(60)
                    pytest.fail("it leads on")
            await one.saw(None, "first", "second")
            await two.saw(None, "first", "second")
        # Its session took the watches of the client with it, and they were begun again.
        await one.saw(None, "first", "second", None)


async def test_a_candidate_whose_session_was_lost_stands_again(
    server: EtcdServer, election: Election, client: Any, others: Election, name: str
) -> None:
    async with contextlib.AsyncExitStack() as waits:
        async with leading(others, "first"):
            elected = await waits.enter_async_context(leading(election, "second"))
            before = server.keys(f"{name}/")
            server.ctl("lease", "revoke", f"{client._store._sessions.current.number:x}")
            assert len(server.keys(f"{name}/")) == 1
            await queued(others, 1)
            assert server.keys(f"{name}/") == before
            assert not elected.done()
        await elected
        leader = await others.leader()
        assert leader is not None
        assert leader.text == "second"


@pytest.mark.parametrize("compacted", [False, True])
async def test_through_broken_connections(
    server: EtcdServer,
    election: Election,
    name: str,
    proxy: FaultProxy,
    new_client: NewClient,
    compacted: bool,
) -> None:
    """What was compacted cannot be told any more: the present state is."""
    client = new_client(url=f"etcd://127.0.0.1:{proxy.port}")
    async with Observer(election_of(client, name)) as observer:
        async with election.campaign("one") as leadership:
            await observer.saw(None, "one")
            proxy.refuse()
            proxy.cut()
            await leadership.proclaim("two")
            await leadership.proclaim("three")
            if compacted:
                server.ctl("compact", str(leadership._written))
            proxy.pass_through()
            await observer.saw(None, "one", "three")
            proxy.cut()
            await leadership.proclaim("four")
            await observer.saw_last("four")
            proxy.refuse()
            proxy.cut()
        async with election.campaign("five") as leadership:
            if compacted:
                server.ctl("compact", str(leadership.token))
            proxy.pass_through()
            await observer.saw(None, "one", "three", "four", "five")


async def test_states_are_seen_in_their_order_while_connections_break(
    name: str, proxy: FaultProxy, new_client: NewClient
) -> None:
    """Every leadership proclaims growing numbers, through the same proxy as observers look."""
    url = f"etcd://127.0.0.1:{proxy.port}"
    clients = [new_client(url=url, lease_time=30) for _ in range(3)]
    numbers, rounds, proclaimed = itertools.count(), 5, 0

    async def lead(election: Election) -> None:
        nonlocal proclaimed
        for _ in range(rounds):
            async with election.campaign(str(next(numbers))) as leadership:
                for _ in range(5):
                    await leadership.proclaim(str(next(numbers)))
                    proclaimed += 1

    async def disturb() -> None:
        # Between two breaks something is proclaimed, however slow the machine is.
        while True:
            before = proclaimed
            while proclaimed == before:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.02)
            proxy.cut()

    async with contextlib.AsyncExitStack() as stack:
        elections = [election_of(client, name) for client in clients]
        observers = [await stack.enter_async_context(Observer(each)) for each in elections]
        disturbing = asyncio.create_task(disturb())
        async with asyncio.timeout(120):
            await asyncio.gather(*[lead(each) for each in elections])
        disturbing.cancel()
        async with elections[0].campaign("end") as last:
            for observer in observers:
                await observer.saw_last("end")
        for observer in observers:
            leaders = [each for each in observer.leaders if each is not None]
            assert leaders[-1] == Leader(b"end", last.token)
            tokens = [each.token for each in leaders]
            assert tokens == sorted(tokens)
            for _, led in itertools.groupby(leaders[:-1], lambda each: each.token):
                values = [int(each.value) for each in led]
                assert values == sorted(set(values))


async def test_an_outage_is_reported(
    name: str, proxy: FaultProxy, new_client: NewClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_safety_poll(monkeypatch, 0.2)
    client = new_client(url=f"etcd://127.0.0.1:{proxy.port}", command_timeout=3)
    election = election_of(client, name)
    async with Observer(election) as observer:
        await observer.saw(None)
        proxy.refuse()
        proxy.cut()
        with pytest.raises(ConnectionLostError):
            await observer.task
        assert not watches_of(client)
        with pytest.raises(ConnectionLostError):
            await election.leader()
        proxy.pass_through()
    async with Observer(election) as observer:
        await observer.saw(None)


def test_an_event_loop_that_ends_under_observers(backend: Backend, loops: Loops, name: str) -> None:
    kept: list[Any] = []

    async def program() -> None:
        client: Any = backend.client()
        election = election_of(client, name)
        kept.append(election.observe())
        await anext(kept[0])
        await Observer(election).__aenter__()

    # What gRPC makes once in a process is there.
    loops.run(program())
    kept.clear()
    with nothing_left():
        loops.run(program())
        kept.clear()
