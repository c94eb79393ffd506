"""Asking the nodes of a cluster for the map: decisions without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from redisson_py._addresses import AddressMap
from redisson_py._redis import servers_from_url
from redisson_py._stream.call import Call, ReplyError
from redisson_py._topology.discovery import Discovery
from redisson_py.errors import BackendError, ClientClosedError, ConnectionLostError

SLOTS = [[0, 16383, [b"h1", 6379, b"id", []]]]


class Nodes:
    """Connected nodes that do one thing with each call."""

    def __init__(self, answer: Callable[[Call], None]) -> None:
        self._answer = answer
        self.tasks: list[asyncio.Task[Any]] = []

    def connected(self, _: object) -> Nodes:
        return self

    def keep(self, task: asyncio.Task[Any]) -> asyncio.Task[Any]:
        self.tasks.append(task)
        return task

    def send(self, call: Call) -> Call:
        asyncio.get_running_loop().call_soon(self._answer, call)
        return call


async def ask(nodes: Nodes, address_map: AddressMap | None = None) -> BackendError | None:
    """Ask for the map in vain; return why."""
    servers = servers_from_url("redis+cluster://h1,h2", None)
    discovery = Discovery(servers.connector, address_map, cast("Any", nodes))
    assert await discovery.ask(servers.addresses) is None
    return discovery.error


async def test_closing_meanwhile_fails_no_task() -> None:
    """A task that fails ends the streams, and is told as a fault of the library."""
    nodes = Nodes(lambda call: call.fail(ClientClosedError("closed")))
    assert await ask(nodes) is None
    assert [task.exception() for task in nodes.tasks] == [None, None]


async def test_a_connection_that_breaks_meanwhile_is_no_refusal() -> None:
    broke = ConnectionLostError("the connection broke", maybe_held=False)
    error = await ask(Nodes(lambda call: call.fail(broke)))
    assert isinstance(error, ConnectionLostError)
    assert str(error) == "Redis at h1:6379: the connection broke"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda call: call.fail(ReplyError("NOPERM")), "refused CLUSTER SLOTS: NOPERM"),
        (lambda call: call.succeed([["?"]]), "is of no use: a node of the cluster told something"),
        (lambda call: call.succeed(SLOTS), "is of no use: address_map failed for h1:6379: KeyErro"),
    ],
)
async def test_what_is_final_says_whose_fault_it_is(
    answer: Callable[[Call], None], told: str
) -> None:
    def broken(host: str, port: int) -> object:
        raise KeyError(host)

    error = await ask(Nodes(answer), AddressMap(broken))
    assert type(error) is BackendError
    assert told in str(error)
    assert "h1:6379" in str(error)
