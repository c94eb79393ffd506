"""The store on etcd: the contract of stores, and Go's keys."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from redisson_py._stores.contract import Busy, Renewal, Wish
from redisson_py._stores.etcd import messages
from redisson_py._stores.etcd.session import Session
from redisson_py._time import now
from tests.stores.etcd.client import LEASE, Client, eventually, one_url, recorded, soon
from tests.stores.etcd.server import EtcdServer

_numbers = itertools.count(1)


@pytest.fixture
def name() -> str:
    return f"name-{next(_numbers)}"


async def test_one_has_it_until_it_gives_back(one: Client, two: Client, name: str) -> None:
    first = await one.granted(name, "a:1")
    assert await two.ask(name, "b:1") == Busy(None)
    assert await one.give_back(name, "a:1") is True
    second = await two.granted(name, "b:1")
    assert second.token > first.token
    assert await one.give_back(name, "a:1") is False
    assert await two.give_back(name, "b:1") is True


async def test_asking_twice_answers_as_the_first(one: Client, two: Client, name: str) -> None:
    first = await one.granted(name, "a:1")
    again = await one.granted(name, "a:1")
    assert again.token == first.token
    assert await two.ask(name, "b:1", waits=True) == Busy(None)
    assert await two.ask(name, "b:1", waits=True) == Busy(None)
    assert (await one.store.look(name, soon())).waiters == ("b:1",)


async def test_busy_leaves_nothing(server: EtcdServer, one: Client, two: Client, name: str) -> None:
    await one.granted(name, "a:1")
    held = server.keys(f"{name}/")
    assert await two.ask(name, "b:1") == Busy(None)
    assert server.keys(f"{name}/") == held
    await one.give_back(name, "a:1")
    assert server.keys(f"{name}/") == []


def beginnings(client: Client, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that gets each message about a watch of a client."""
    watches, told = client.store._watches, list[object]()
    take = watches._take

    def record(reply: Any) -> None:
        told.append(reply)
        take(reply)

    monkeypatch.setattr(watches, "_take", record)
    return told


async def test_waiters_ring_in_their_order(
    one: Client, two: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.granted(name, "a:1")
    assert await two.ask(name, "b:1", waits=True) == Busy(None)
    async with Client(one_url(one)) as three:
        begun = beginnings(three, monkeypatch)
        assert await three.ask(name, "c:1", waits=True) == Busy(None)
        # A watch that begins later than the next write rings once more.
        await eventually(lambda: bool(begun))
        await one.give_back(name, "a:1")
        await two.bell.heard(name)
        second = await two.granted(name, "b:1", waits=True)
        assert await three.ask(name, "c:1", waits=True) == Busy(None)
        assert three.bell.names == []
        await two.give_back(name, "b:1")
        await three.bell.heard(name)
        third = await three.granted(name, "c:1", waits=True)
        assert third.token > second.token


async def test_the_end_of_a_wait_lets_the_next_one_pass(
    one: Client, two: Client, name: str
) -> None:
    await one.granted(name, "a:1")
    assert await two.ask(name, "b:1", waits=True) == Busy(None)
    async with Client(one_url(one)) as three:
        assert await three.ask(name, "c:1", waits=True) == Busy(None)
        assert await two.give_back(name, "b:1") is False
        await three.bell.heard(name)
        assert await three.ask(name, "c:1", waits=True) == Busy(None)
        await one.give_back(name, "a:1")
        await three.bell.heard(name)
        await three.granted(name, "c:1", waits=True)


async def test_a_lease_of_its_own_ends_by_itself(one: Client, two: Client, name: str) -> None:
    before = now()
    first = await one.granted(name, "a:1", lease=1.2, renewed=False)
    # What etcd granted, which has a least lease, and whole seconds.
    assert before + 1.2 <= first.until <= now() + 4
    assert await two.ask(name, "b:1", waits=True) == Busy(None)
    # The session goes on, and has nothing to do with it.
    assert await one.store._sessions.renew(one.session, soon())
    await two.bell.heard(name)
    assert now() >= first.until
    await two.granted(name, "b:1", waits=True)
    assert await one.renew(Renewal(name, "a:1", first.token, 0)) == [None]
    assert await one.give_back(name, "a:1") is False


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
    # A shorter one, then one that changes nothing, and a look.
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


async def test_a_look_at_a_hold_changes_nothing(one: Client, name: str) -> None:
    first = await one.granted(name, "a:1")
    until = one.session.until
    assert await one.renew(Renewal(name, "a:1", first.token, 0)) == [until]
    assert one.session.until == until


async def test_a_forced_release_frees_one_hold(one: Client, two: Client, name: str) -> None:
    assert await one.store.force_release(name, soon()) is False
    first = await one.granted(name, "a:1")
    assert await two.ask(name, "b:1", waits=True) == Busy(None)
    assert await one.store.force_release(name, soon()) is True
    await two.bell.heard(name)
    await two.granted(name, "b:1", waits=True)
    assert await one.renew(Renewal(name, "a:1", first.token, LEASE)) == [None]
    assert await one.give_back(name, "a:1") is False
    assert (await one.store.look(name, soon())).holder is not None


async def test_stop_ends_all_of_the_session(server: EtcdServer, two: Client, name: str) -> None:
    async with Client(server.url) as one:
        await one.granted(name, "a:1")
        await one.store.ping(soon())
    assert server.keys(f"{name}/") == []
    await two.granted(name, "b:1")


async def test_a_stopped_store_starts_again(server: EtcdServer, name: str) -> None:
    client = Client(server.url)
    for owner in ("a:1", "a:2"):
        async with client:
            await client.granted(name, owner)


@pytest.mark.parametrize(
    "kind", ["", "/", "//", "a//b", "/a", "a/", "é/ü\N{LOCK}", "a\x00b", "x" * 4096]
)
async def test_names_are_taken_as_they_are(one: Client, two: Client, name: str, kind: str) -> None:
    first = await one.granted(name + kind, "a:1")
    assert await two.ask(name + kind, "b:1", waits=True) == Busy(None)
    state = await two.store.look(name + kind, soon())
    assert state.holder is not None
    assert (state.holder.owner, state.holder.token) == ("a:1", first.token)
    assert state.waiters == ("b:1",)
    await one.give_back(name + kind, "a:1")
    await two.bell.heard(name + kind)
    await two.granted(name + kind, "b:1")


async def test_a_caller_that_is_overtaken_leaves_nothing(
    server: EtcdServer, one: Client, two: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a name inside it had keys when it first asked, and then it entered the queue."""
    await one.granted(f"{name}/inner", "a:1")
    holds = two.store._holds
    place = holds.place

    async def overtaken(wish: Wish, session: Session, if_free: bool, deadline: float) -> Any:
        if not if_free:
            await one.granted(name, "a:2")
        return await place(wish, session, if_free, deadline)

    monkeypatch.setattr(holds, "place", overtaken)
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
