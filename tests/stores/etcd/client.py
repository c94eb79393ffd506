"""A started store on etcd with a bell that remembers, for tests."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import Callable
from typing import Any, Self

import pytest

from redisson_py._stores.contract import Busy, Granted, Renewal, Wish
from redisson_py._stores.etcd import EtcdStore, messages
from redisson_py._stores.etcd.link import _FailedError
from redisson_py._time import now
from tests.stores.etcd.server import EtcdServer

LEASE = 5.0
#: Seconds: only to end a test that hangs.
PATIENCE = 30.0


class Ringing:
    """A bell that remembers."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.all = 0
        self._news = asyncio.Event()

    def ring(self, name: str, owner: str | None = None) -> None:
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

    async def __aenter__(self) -> Self:
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

    async def give_back(self, name: str, owner: str, unsure: bool = False) -> bool | None:
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


def lost_requests(
    client: Client, monkeypatch: pytest.MonkeyPatch, carried_out: bool = False
) -> list[tuple[Any, Any]]:
    """Lose the first request of a client, or its answer; return what was lost.

    The client sends it again.
    """
    lost: list[tuple[Any, Any]] = []
    ask = client.store._link._ask

    async def lose(connection: Any, method: Any, request: Any, end: float) -> Any:
        if lost or method is not messages.TXN:
            return await ask(connection, method, request, end)
        lost.append((method, request))
        if carried_out:
            await ask(connection, method, request, end)
        raise _FailedError

    monkeypatch.setattr(client.store._link, "_ask", lose)
    return lost


async def eventually(condition: Callable[[], bool]) -> None:
    """Return when a condition is true, of something that can only be looked at."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


def assert_no_sides(client: Client) -> None:
    """Fail if a store remembers a side of a read-write lock."""
    sides = client.store._holds._claims
    assert not sides._claims
    assert not sides._writes


def keys_in_order(server: EtcdServer, name: str) -> list[str]:
    """Return the keys of a name in the order of their creation, without the name."""
    return [key for key, _ in sorted(entries_of(server, name), key=lambda each: each[1])]


def entries_of(server: EtcdServer, name: str) -> list[tuple[str, tuple[int, int]]]:
    """Return the keys of a name, without it, with when they were created and changed."""
    found = json.loads(server.ctl("get", f"{name}/", "--prefix", "--write-out", "json"))
    return [
        (
            b64decode(each["key"]).decode().removeprefix(f"{name}/"),
            (each["create_revision"], each["mod_revision"]),
        )
        for each in found.get("kvs", ())
    ]


async def give_back(client: Client, name: str, *owners: str) -> None:
    for owner in owners:
        await client.give_back(name, owner)
