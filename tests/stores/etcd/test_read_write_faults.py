"""The read-write lock in etcd: late requests, lost answers, ended sessions, and random calls."""

from __future__ import annotations

import random
from typing import Any
from unittest.mock import AsyncMock

import pytest

from redisson_py._stores.contract import Busy, Granted, Kind
from redisson_py.errors import BackendError, ConnectionLostError
from tests.stores.etcd.client import (
    Client,
    assert_nothing_remembered,
    give_back,
    keys_in_order,
    lost_requests,
    recorded,
    soon,
    wish,
)
from tests.stores.etcd.server import EtcdServer


@pytest.mark.parametrize("within", [None, "a:1"])
@pytest.mark.parametrize("kind", ["read", "write"])
@pytest.mark.parametrize("unsure", [True, False])
async def test_the_first_of_two_copies_comes_last(
    server: EtcdServer,
    one: Client,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    kind: Kind,
    within: str | None,
    unsure: bool,
) -> None:
    await one.granted(f"{name}x" if within is None else name, "a:1", kind="write")
    lost = lost_requests(one, monkeypatch)
    asked: dict[str, Any] = {"kind": kind, "within": within, "waits": True}
    first = await one.ask(name, "a:2", **asked)
    assert isinstance(first, Busy) is (kind == "write" and within is not None)
    assert await one.ask(name, "a:2", **asked) == first
    assert await one.give_back(name, "a:2", unsure) is isinstance(first, Granted)
    (question,) = lost
    assert not await one.arrives(question)
    with pytest.raises(BackendError, match=r"gave .* back and cannot ask again"):
        await one.ask(name, "a:2", kind="read", waits=True)
    await one.give_back(f"{name}x" if within is None else name, "a:1")
    assert keys_in_order(server, name) == []


async def test_a_late_read_under_a_write_that_has_gone(
    server: EtcdServer, one: Client, two: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.granted(name, "a:1", kind="write")
    calls = recorded(one, monkeypatch)
    await one.granted(name, "a:2", kind="read", within="a:1")
    (question,) = calls
    await give_back(one, name, "a:2", "a:1")
    await two.granted(name, "b:1", kind="write")
    assert not await one.arrives(question)
    await two.give_back(name, "b:1")


async def test_a_late_release_of_a_write_leaves_the_reads_under_it(
    server: EtcdServer, one: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.granted(name, "a:1", kind="write")
    await one.granted(name, "a:2", kind="read", within="a:1")
    calls = recorded(one, monkeypatch)
    assert await one.give_back(name, "a:1") is True
    (release,) = calls
    assert not await one.arrives(release)
    assert keys_in_order(server, name) == ["read/a:1", "read/a:1/a:2"]
    await one.give_back(name, "a:2")
    assert keys_in_order(server, name) == []


@pytest.mark.parametrize("kind", ["read", "write"])
@pytest.mark.parametrize("busy", [None, "write", "read"])
async def test_a_question_without_an_answer_is_taken_back(
    server: EtcdServer,
    one: Client,
    two: Client,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    kind: Kind,
    busy: Kind | None,
) -> None:
    await one.granted(f"{name}x", "a:0")
    if busy is not None:
        await two.granted(name, "b:1", kind=busy)
    call = one.store._link.call

    async def lose(*asked: Any) -> Any:
        await call(*asked)
        raise ConnectionLostError("lost", maybe_held=True)

    monkeypatch.setattr(one.store._link, "call", lose)
    with pytest.raises(ConnectionLostError) as caught:
        await one.store.ask(wish(name, "a:1", kind=kind, waits=True), soon())
    assert caught.value.maybe_held
    monkeypatch.undo()
    assert f"{kind}/a:1" in keys_in_order(server, name)
    # It says whether that was a hold.
    held = busy is None or (kind, busy) == ("read", "read")
    assert await one.give_back(name, "a:1", unsure=True) is held
    assert not [key for key in keys_in_order(server, name) if "a:1" in key]
    assert await one.give_back(name, "a:1", unsure=True) is False
    if busy is not None:
        await two.give_back(name, "b:1")


async def test_what_is_not_asked_is_not_remembered(
    one: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.granted(f"{name}x", "a:0")

    for error in (ConnectionLostError("lost", maybe_held=False), BackendError("refused")):
        monkeypatch.setattr(one.store._link, "call", AsyncMock(side_effect=error))
        with pytest.raises(BackendError):
            await one.ask(name, "a:1", kind="write", waits=True)
        assert_nothing_remembered(one)
    monkeypatch.undo()


@pytest.mark.parametrize("seed", range(3))
async def test_keys_at_random(server: EtcdServer, one: Client, two: Client, seed: int) -> None:
    """What clients are granted excludes, and anchors are there as long as they are needed."""
    dice, name = random.Random(seed), f"random-{seed}"
    clients = {"a": one, "b": two}
    asked: dict[str, tuple[Kind, str | None]] = {}
    held: set[str] = set()
    granted = {"read": 0, "write": 0, "under": 0}
    for number in range(250):
        who = dice.choice("ab")
        mine = [each for each in asked if each[0] == who]
        writes = [each for each in mine if each in held and asked[each][0] == "write"]
        act = dice.random()
        if act < 0.35 and len(mine) < 4:
            kind: Kind = "read" if writes or dice.random() < 0.5 else "write"
            owner = f"{who}:{number}"
            asked[owner] = kind, writes[0] if writes else None
        elif act < 0.65 and mine:
            owner = dice.choice(mine)
        elif act < 0.97 and mine:
            owner = dice.choice(mine)
            assert await clients[who].give_back(name, owner, dice.random() < 0.3) is (owner in held)
            held.discard(owner)
            del asked[owner]
            owner = ""
        elif act >= 0.97:
            side: Kind = dice.choice(["read", "write"])
            await clients[who].store.force_release(name, soon(), side)
            state = await one.store.look(name, soon(), side)
            there = {each.owner for each in state.readers}
            there |= set() if state.holder is None else {state.holder.owner}
            for each in held - there:
                await clients[each[0]].give_back(name, each)
                del asked[each]
            held &= there
            owner = ""
        else:
            continue
        if owner:
            kind, within = asked[owner]
            but: dict[str, Any] = {"kind": kind, "within": within, "waits": True}
            if isinstance(await clients[who].ask(name, owner, **but), Granted):
                held.add(owner)
                granted["under" if within and within in held else kind] += 1
        writing = [each for each in held if asked[each][0] == "write"]
        assert len(writing) <= 1
        for each in held - {*writing}:
            assert not writing or asked[each][1] == writing[0]
        there = {*server.keys(f"{name}/")}
        for key in there:
            side_of, _, tail = key.removeprefix(f"{name}/").partition("/")
            top, under, _ = tail.partition("/")
            if under or side_of == "write":
                assert f"{name}/read/{top}" in there
            elif asked.get(top, ("",))[0] != "read":
                below = [each for each in there if each.startswith(f"{key}/")]
                assert f"{name}/write/{top}" in there or below
    assert min(granted.values()) > 3, granted
    for owner in [*asked]:
        await clients[owner[0]].give_back(name, owner)
    assert server.keys(f"{name}/") == []
