"""Asking the nodes of a cluster for the map: decisions without a server."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from redisson_py._redis import servers_from_url
from redisson_py._stream.call import Call
from redisson_py._topology.discovery import Discovery
from redisson_py.errors import ClientClosedError


class ClosingNodes:
    """Nodes whose client is closed while they are asked."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[Any]] = []

    def connected(self, _: object) -> ClosingNodes:
        return self

    def keep(self, task: asyncio.Task[Any]) -> asyncio.Task[Any]:
        self.tasks.append(task)
        return task

    def send(self, call: Call) -> Call:
        asyncio.get_running_loop().call_soon(call.fail, ClientClosedError("closed"))
        return call


async def test_closing_meanwhile_fails_no_task() -> None:
    """A task that fails ends the streams, and is told as a fault of the library."""
    nodes = ClosingNodes()
    servers = servers_from_url("redis+cluster://h1,h2", None)
    discovery = Discovery(servers.connector, None, cast("Any", nodes))
    assert await discovery.ask(servers.addresses) is None
    assert [task.exception() for task in nodes.tasks] == [None, None]
