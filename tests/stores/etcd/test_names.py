"""Names inside other names on etcd: their keys are among those of the lock that is outside."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from redisson_py._stores.contract import Busy
from tests.stores.etcd.client import Client, lost_requests, recorded, soon
from tests.stores.etcd.server import EtcdServer

_numbers = itertools.count(1)


@pytest.fixture
def name() -> str:
    return f"name-{next(_numbers)}"


@pytest_asyncio.fixture
async def one(server: EtcdServer) -> AsyncIterator[Client]:
    async with Client(server.url, lease=60) as client:
        yield client


@pytest_asyncio.fixture
async def two(server: EtcdServer) -> AsyncIterator[Client]:
    async with Client(server.url, lease=60) as client:
        yield client


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
    two.store._holds._places.clear()
    assert await two.give_back(name, "b:2", unsure=True) is False
