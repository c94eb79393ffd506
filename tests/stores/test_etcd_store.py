"""The store on etcd: the contract of stores, Go's keys, and the traps of etcd."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from redisson_py._stores.contract import Busy, Granted, Renewal, Wish
from redisson_py._stores.etcd import EtcdStore, messages
from redisson_py._stores.etcd.url import read_url
from redisson_py._time import now
from redisson_py.errors import BackendError, ConnectionLostError
from redisson_py.testing import FaultProxy
from tests.stores.etcd_server import EtcdServer, environment
from tests.support.certificates import make_certificates

_numbers = itertools.count(1)
LEASE = 5.0
PATIENCE = 10.0


class Ringing:
    """A bell that remembers."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.all = 0
        self._news = asyncio.Event()

    def ring(self, name: str) -> None:
        self.names.append(name)
        self._news.set()

    def ring_all(self) -> None:
        self.all += 1
        self._news.set()

    async def heard(self, name: str) -> None:
        """Return when the name rang; what rang before is forgotten then."""
        async with asyncio.timeout(PATIENCE):
            while name not in self.names:
                self._news.clear()
                await self._news.wait()
        self.names.remove(name)

    async def heard_all(self, before: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while self.all == before:
                self._news.clear()
                await self._news.wait()


class Client:
    """A started store, with its bell."""

    def __init__(self, url: str, lease: float = LEASE, **options: str) -> None:
        self.store = EtcdStore.from_url(url, lease=lease, **options)
        self.bell = Ringing()

    async def __aenter__(self) -> Client:
        await self.store.start(self.bell, soon())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.store.stop()

    async def ask(self, name: str, owner: str, **but: Any) -> Granted | Busy:
        return await self.store.ask(wish(name, owner, **but), soon())

    async def granted(self, name: str, owner: str, **but: Any) -> Granted:
        answer = await self.ask(name, owner, **but)
        assert isinstance(answer, Granted), answer
        return answer

    async def give_back(self, name: str, owner: str, unsure: bool = False) -> bool:
        return await self.store.give_back(name, owner, unsure, soon())

    async def renew(self, *batch: Renewal) -> list[float | None]:
        return list(await self.store.renew(batch, soon()))

    @property
    def session(self) -> Any:
        found = self.store._sessions.current
        assert found is not None
        return found


def soon(seconds: float = PATIENCE) -> float:
    return now() + seconds


def wish(name: str, owner: str, **but: Any) -> Wish:
    settings: dict[str, Any] = {"lease": LEASE, "renewed": True, "waits": False}
    return Wish(name, owner, **(settings | but))


@pytest.fixture(scope="module")
def server() -> Iterator[EtcdServer]:
    with EtcdServer() as started:
        yield started


@pytest.fixture
def own_server() -> Iterator[EtcdServer]:
    """A server that a test may pause, kill and restart."""
    with EtcdServer() as started:
        yield started


@pytest.fixture
def name() -> str:
    return f"name-{next(_numbers)}"


@pytest_asyncio.fixture
async def one(server: EtcdServer) -> AsyncIterator[Client]:
    async with Client(server.url) as client:
        yield client


@pytest_asyncio.fixture
async def two(server: EtcdServer) -> AsyncIterator[Client]:
    async with Client(server.url) as client:
        yield client


# The contract.


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


async def test_busy_leaves_nothing(
    server: EtcdServer, one: Client, two: Client, name: str
) -> None:
    await one.granted(name, "a:1")
    held = server.keys(f"{name}/")
    assert await two.ask(name, "b:1") == Busy(None)
    assert server.keys(f"{name}/") == held
    await one.give_back(name, "a:1")
    assert server.keys(f"{name}/") == []


async def test_waiters_ring_in_their_order(one: Client, two: Client, name: str) -> None:
    await one.granted(name, "a:1")
    assert await two.ask(name, "b:1", waits=True) == Busy(None)
    async with Client(one_url(one)) as three:
        assert await three.ask(name, "c:1", waits=True) == Busy(None)
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
    assert 5 <= state.holder.remaining <= 7
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
    assert [method for method, _ in calls] == [messages.LEASE_RENEW, messages.TXN, messages.TXN]


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
    assert 15 < state.holder.remaining <= 20
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
    assert name in one.bell.names
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


@pytest.mark.parametrize("kind", ["", "/", "//", "a//b", "/a", "a/", "é/ü\N{LOCK}", "a\x00b", "x" * 4096])
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


def one_url(client: Client) -> str:
    return f"etcd://{client.store.where}"


def recorded(client: Client, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """Return the list of the calls that a client makes from now on."""
    calls: list[tuple[Any, Any]] = []
    call = client.store._link.call

    async def record(method: Any, request: Any, deadline: float) -> Any:
        calls.append((method, request))
        return await call(method, request, deadline)

    monkeypatch.setattr(client.store._link, "call", record)
    return calls
