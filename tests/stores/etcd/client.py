"""A started store on etcd with a bell that remembers, for tests."""

from __future__ import annotations

import json
from base64 import b64decode
from collections import Counter
from typing import Any, Self

import pytest

from redisson_py._stores.contract import Busy, Granted, Renewal, Wish
from redisson_py._stores.etcd import EtcdStore, messages
from redisson_py._stores.etcd.link import _FailedError
from redisson_py._time import now
from redisson_py.errors import ConnectionLostError
from tests.stores.bell import PATIENCE, Bell
from tests.stores.etcd.server import EtcdServer

LEASE = 30.0


class Client:
    """A started store, with its bell."""

    def __init__(self, url: str, lease: float = LEASE, **options: str) -> None:
        self.store = EtcdStore.from_url(url, lease=lease, **options)
        self.bell = Bell()

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

    async def arrives(self, call: tuple[Any, Any]) -> bool:
        """Have a call that was made reach etcd once more; return whether it changed anything."""
        method, request = call
        answer = await self.store._link.call(method, request, soon())
        return bool(answer.reply.succeeded)

    @property
    def session(self) -> Any:
        found = self.store._sessions.current
        assert found is not None
        return found


def soon(seconds: float = PATIENCE) -> float:
    return now() + seconds


def wish(name: str, owner: str, **but: Any) -> Wish:
    """Return a wish; a candidate has a value."""
    settings: dict[str, Any] = {"lease": LEASE, "renewed": True, "waits": False}
    if but.get("kind") == "election":
        settings["proposal"] = b"value"
    return Wish(name, owner, **(settings | but))


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


def counted(client: Client, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Return how often a client asks what, from now on; each attempt counts."""
    counts: Counter[str] = Counter()
    ask = client.store._link._ask

    async def count(connection: Any, method: Any, request: Any, end: float) -> Any:
        counts[method.path] += 1
        return await ask(connection, method, request, end)

    monkeypatch.setattr(client.store._link, "_ask", count)
    return counts


async def fails_to_give_back(client: Client, *waiters: tuple[str, str]) -> None:
    """Try to give back while there is no connection."""

    async def fail(*_: Any) -> None:
        raise ConnectionLostError("no connection", maybe_held=False)

    with pytest.MonkeyPatch.context() as failing:
        failing.setattr(client.store._link, "call", fail)
        for name, owner in waiters:
            with pytest.raises(ConnectionLostError):
                await client.give_back(name, owner)


def assert_nothing_remembered(client: Client) -> None:
    """Fail if a store remembers a side of a read-write lock."""
    sides = client.store._holds._claims
    assert not sides._claims
    assert not sides._writes


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


def keys_in_order(server: EtcdServer, name: str) -> list[str]:
    """Return the keys of a name in the order of their creation, without the name."""
    return [key for key, _ in sorted(entries_of(server, name), key=lambda each: each[1])]


async def give_back(client: Client, name: str, *owners: str) -> None:
    for owner in owners:
        await client.give_back(name, owner)
