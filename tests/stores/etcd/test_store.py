"""The store on etcd: turns, leases, renewals, and names inside other names."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import Mock

import pytest

from redisson_py._stores.contract import Busy, Renewal, Wish
from redisson_py._stores.etcd import messages
from redisson_py._stores.etcd.session import Session
from redisson_py._time import now
from tests.stores.etcd.client import LEASE, Client, lost_requests, recorded, soon
from tests.stores.etcd.server import EtcdServer
from tests.support.waiting import until


async def test_waiters_ring_in_their_order(
    server: EtcdServer, one: Client, two: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.granted(name, "a:1")
    assert await two.ask(name, "b:1", waits=True) == Busy(None)
    async with Client(server.url) as three:
        taken = Mock(side_effect=three.store._watches._take)
        monkeypatch.setattr(three.store._watches, "_take", taken)
        assert await three.ask(name, "c:1", waits=True) == Busy(None)
        # A watch that begins later than the next write rings once more.
        await until(lambda: taken.called)
        await one.give_back(name, "a:1")
        await two.bell.heard(name)
        second = await two.granted(name, "b:1", waits=True)
        assert await three.ask(name, "c:1", waits=True) == Busy(None)
        assert three.bell.rung == []
        await two.give_back(name, "b:1")
        await three.bell.heard(name)
        third = await three.granted(name, "c:1", waits=True)
        assert third.token > second.token


async def test_a_lease_of_its_own_begins_with_the_grant(
    server: EtcdServer, one: Client, two: Client, name: str
) -> None:
    await one.granted(name, "a:1")
    assert await two.ask(name, "b:1", waits=True, renewed=False, lease=7) == Busy(None)
    await one.give_back(name, "a:1")
    await two.bell.heard(name)
    before = now()
    granted = await two.granted(name, "b:1", waits=True, renewed=False, lease=7)
    assert before + 7 <= granted.until <= now() + 7
    state = await one.store.look(name, soon())
    assert state.holder is not None
    assert state.holder.owner == "b:1"
    assert state.holder.token == granted.token
    assert 2 <= state.holder.remaining <= 7
    leases = server.ctl("lease", "list")
    assert await two.give_back(name, "b:1") is True
    assert len(server.ctl("lease", "list").splitlines()) == len(leases.splitlines()) - 1


async def test_renewals_of_a_batch_are_one_call_each(
    one: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = [(await one.granted(f"{name}{i}", f"a:{i}")).token for i in range(150)]
    await one.give_back(f"{name}7", "a:7")
    calls = recorded(one, monkeypatch)
    until = one.session.until
    batch = [Renewal(f"{name}{i}", f"a:{i}", token, LEASE) for i, token in enumerate(tokens)]
    batch.append(Renewal(f"{name}8", "a:8", tokens[8] - 1, LEASE))
    kept = await one.renew(*batch)
    assert [index for index, each in enumerate(kept) if each is None] == [7, 150]
    assert {each for each in kept if each is not None} == {one.session.until}
    assert one.session.until > until
    # The renewal, with a look at the term of the leader, and two parts of the batch.
    renewal = [messages.LEASE_RENEW, messages.RANGE]
    assert [method for method, _ in calls] == [*renewal, messages.TXN, messages.TXN]


async def test_an_extension_moves_a_hold_to_its_own_lease(
    one: Client, two: Client, name: str
) -> None:
    first = await one.granted(name, "a:1")
    before = now()
    (until,) = await one.renew(Renewal(name, "a:1", first.token, 60, exact=True))
    assert until is not None
    assert before + 60 <= until <= now() + 60
    # A shorter one, then one that changes nothing, and a question, which renews nothing.
    (until,) = await one.renew(Renewal(name, "a:1", first.token, 20, exact=True))
    assert until is not None
    assert until <= now() + 20
    assert await one.renew(Renewal(name, "a:1", first.token, 10)) == [until]
    assert await one.renew(Renewal(name, "a:1", first.token, 0)) == [until]
    state = await two.store.look(name, soon())
    assert state.holder is not None
    assert state.holder.token == first.token
    assert 7 < state.holder.remaining <= 20
    # It outlives the session.
    await one.store._sessions.end(one.session, soon())
    assert await two.ask(name, "b:1") == Busy(None)
    assert await one.renew(Renewal(name, "a:1", first.token, 0)) == [until]
    assert await one.give_back(name, "a:1") is True
    await two.granted(name, "b:1")


async def test_a_caller_that_is_overtaken_leaves_nothing(
    server: EtcdServer, one: Client, two: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a name inside it had keys when it first asked, and then it entered the queue."""
    await one.granted(f"{name}/inner", "a:1")
    holds = two.store._holds
    original = holds.position

    async def overtaken(wish: Wish, session: Session, if_free: bool, deadline: float) -> Any:
        if not if_free:
            await one.granted(name, "a:2")
        return await original(wish, session, if_free, deadline)

    monkeypatch.setattr(holds, "position", overtaken)
    assert await two.ask(name, "b:1") == Busy(None)
    state = await one.store.look(name, soon())
    assert state.holder is not None
    assert (state.holder.owner, state.waiters) == ("a:2", ())


async def test_names_inside_a_name_are_others(
    server: EtcdServer, one: Client, two: Client, name: str
) -> None:
    await one.granted(f"{name}/inner", "a:1")
    await one.granted(f"{name}/inner/most", "a:2")
    await two.granted(name, "b:1")
    held = server.keys(f"{name}/")
    assert await one.ask(name, "a:3") == Busy(None)
    assert server.keys(f"{name}/") == held
    assert await one.ask(name, "a:4", waits=True) == Busy(None)
    state = await one.store.look(name, soon())
    assert state.holder is not None
    assert (state.holder.owner, state.waiters) == ("b:1", ("a:4",))
    await two.give_back(name, "b:1")
    await one.bell.heard(name)
    await one.granted(name, "a:4", waits=True)
    assert await one.store.force_release(name, soon()) is True
    assert len(server.keys(f"{name}/inner")) == 2


async def hold(client: Client, names: list[str]) -> None:
    """Hold names, some at a time."""
    for start in range(0, len(names), 50):
        part = names[start : start + 50]
        await asyncio.gather(*(client.granted(each, f"a:{each[-9:]}") for each in part))


async def test_many_names_inside_a_name_cost_a_few_calls(
    one: Client, two: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await two.granted(name, "b:1")
    await hold(one, [f"{name}/{number}" for number in range(300)])
    assert await one.ask(name, "a:1", waits=True) == Busy(None)
    await two.give_back(name, "b:1")
    await one.bell.heard(name)
    calls = recorded(one, monkeypatch)
    await one.granted(name, "a:1", waits=True)
    await one.give_back(name, "a:1")
    await one.granted(name, "a:2")
    # 300 keys are looked through three times; each by itself would be a call.
    assert len(calls) < 20


async def test_keys_that_are_more_than_grpc_takes_by_default(
    one: Client, two: Client, name: str
) -> None:
    """It takes messages of 4 MiB."""
    await two.granted(name, "b:1")
    await hold(one, [f"{name}/{'x' * 3900}{number:04}" for number in range(1100)])
    state = await two.store.look(name, soon())
    assert state.holder is not None
    assert state.holder.owner == "b:1"
    assert await one.store.force_release(name, soon()) is True


async def test_a_hold_of_an_outer_name_is_given_back_as_a_hold(
    one: Client, two: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a request without an answer; what is told is no loss."""
    await one.granted(f"{name}/inner", "a:1")
    await two.granted(f"{name}x", "b:0")
    lost_requests(two, monkeypatch)
    await two.granted(name, "b:1")
    assert await two.give_back(name, "b:1") is True
    monkeypatch.undo()
    # One that waits does not hold it, whatever is inside.
    await one.granted(name, "a:2")
    assert await two.ask(name, "b:2", waits=True) == Busy(None)
    two.store._holds._revisions.clear()
    assert await two.give_back(name, "b:2", unsure=True) is False
