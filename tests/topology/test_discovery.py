"""Asking the nodes of a cluster for the map: decisions without a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from redisson_py import (
    BackendError,
    ConnectionLostError,
    ConnectionLostEvent,
    ConnectionRestoredEvent,
    Redisson,
)
from redisson_py._redis.connector import Connector, ask_once
from redisson_py._redis.redis_py import servers_from_url
from redisson_py._redis.stream.call import Call, ReplyError
from redisson_py._redis.topology.discovery import Discovery
from redisson_py.errors import ClientClosedError
from tests.support.fake_peer import HOST, Command, FakePeer, bulk, echo, error
from tests.support.recorder import Recorder
from tests.support.waiting import until
from tests.topology.fakes import address_of, array, fields

#: An announced address for which the user's map has no other.
UNMAPPED = "10.0.0.9"


class Nodes:
    """Connected nodes that do one thing with each call."""

    def __init__(self, answer: Callable[[Call], None]) -> None:
        self._answer = answer
        self.tasks: list[asyncio.Task[Any]] = []

    def connected(self, _: object) -> Nodes:
        return self

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[Any]:
        task = asyncio.create_task(work, name=name)
        self.tasks.append(task)
        return task

    def send(self, call: Call) -> Call:
        asyncio.get_running_loop().call_soon(self._answer, call)
        return call


async def ask(nodes: Nodes) -> BackendError | None:
    """Ask for the map in vain; return why."""
    servers = servers_from_url("redis+cluster://h1,h2", None)
    discovery = Discovery(servers.connector, servers.addresses, None, cast("Any", nodes))
    assert await discovery.ask(None) is None
    return discovery.error


async def test_closing_meanwhile_fails_no_task() -> None:
    """A task that fails ends the streams, and is told as a fault of the library."""
    nodes = Nodes(lambda call: call.fail(ClientClosedError("closed")))
    assert await ask(nodes) is None
    assert [task.exception() for task in nodes.tasks] == [None, None]


async def test_a_connection_that_breaks_meanwhile_is_no_refusal() -> None:
    broke = ConnectionLostError("the connection broke", maybe_held=False)
    problem = await ask(Nodes(lambda call: call.fail(broke)))
    assert isinstance(problem, ConnectionLostError)
    assert str(problem) == "Redis at h1:6379: the connection broke"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda call: call.fail(ReplyError("NOPERM")), "refused CLUSTER SLOTS: NOPERM"),
        (
            lambda call: call.succeed([["?"]]),
            "returned an invalid slot map: a node of the cluster sent an invalid answer",
        ),
    ],
)
async def test_what_is_final_says_whose_fault_it_is(
    answer: Callable[[Call], None], expected: str
) -> None:
    problem = await ask(Nodes(answer))
    assert type(problem) is BackendError
    assert expected in str(problem)
    assert "h1:6379" in str(problem)


class FakeNode(FakePeer):
    """A node that serves all slots, or says that another one does.

    Attributes:
        announced: The host that it names for itself.
        node_id: What it calls itself.
    """

    def __init__(self) -> None:
        super().__init__()
        self.announced = HOST
        self.node_id = b"id"
        self.greeting = lambda _: fields(server="redis", version="7.2.4", proto=3, role="master")
        self.otherwise = self._answer

    def _answer(self, command: Command) -> bytes:
        if command == (b"CLUSTER", b"SLOTS"):
            port = b":%d\r\n" % address_of(self)[1]
            node = array(bulk(self.announced.encode()), port, bulk(self.node_id))
            return array(array(b":0\r\n", b":16383\r\n", node))
        if command[0] == b"EVALSHA":
            return error(f"MOVED 1 {UNMAPPED}:6379")
        return echo(command)


def mapped(host: str, port: int) -> tuple[str, int]:
    """Map what is known."""
    return {HOST: (HOST, port)}[host]


async def test_an_address_map_that_fails_is_reported_at_once_and_again() -> None:
    async with FakeNode() as node:
        node.announced = UNMAPPED
        url = f"redis+cluster://{HOST}:{address_of(node)[1]}"
        async with Redisson.from_url(url, address_map=mapped) as client:
            for asked in (1, 2):
                with pytest.raises(BackendError) as expected:
                    await client.ping()
                assert type(expected.value.__cause__) is KeyError
                assert str(expected.value).startswith(f"address_map failed for {UNMAPPED}:")
                assert node.count(b"CLUSTER") == asked


async def test_an_address_map_that_fails_for_a_redirection_is_reported() -> None:
    async with FakeNode() as node:
        url = f"redis+cluster://{HOST}:{address_of(node)[1]}"
        async with Redisson.from_url(url, address_map=mapped) as client:
            await client.ping()
            with pytest.raises(BackendError) as expected:
                await client.get_lock("k").acquire(timeout=5)
            assert type(expected.value.__cause__) is KeyError
            assert str(expected.value).startswith(f"address_map failed for {UNMAPPED}:6379")


async def test_a_cluster_that_is_away_at_first_is_reported_to_be_back() -> None:
    expected = Recorder()
    async with FakeNode() as node:
        await node.refuse()
        where = f"{HOST}:{address_of(node)[1]}"
        async with Redisson.from_url(f"redis+cluster://{where}", listener=expected) as client:
            for _ in range(2):
                with pytest.raises(ConnectionLostError):
                    await client.ping(timeout=0)
            await node.listen()
            await client.ping()
            await until(lambda: expected.of(ConnectionRestoredEvent))
            assert [event.where for event in expected.of(ConnectionLostEvent)] == [where]
            assert [event.where for event in expected.of(ConnectionRestoredEvent)] == [where]
            assert client.statistics().reconnects == 1


async def test_a_seed_that_serves_another_cluster_by_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not believed as long as the cluster may be back; in the end it is all there is."""
    async with FakeNode() as member, FakeNode() as seed:
        # It has left the cluster, and knows nothing yet.
        seed.otherwise = array()
        seed.node_id = b"stranger"
        where = [f"{HOST}:{address_of(node)[1]}" for node in (seed, member)]
        async with Redisson.from_url(f"redis+cluster://{','.join(where)}") as client:
            await client.ping()
            seed.otherwise = seed._answer
            await member.refuse()
            member.cut()
            with pytest.raises(ConnectionLostError):
                await client.ping(timeout=2)
            assert seed.count(b"CLUSTER")
            assert not seed.count(b"PING")
            await member.listen()
            await client.ping()
            assert not seed.count(b"PING")
            await member.refuse()
            member.cut()
            monkeypatch.setattr("redisson_py._redis.topology.discovery._STRANGER_SECONDS", 0.2)
            await client.ping()
            assert seed.count(b"PING")


async def test_any_error_of_a_transport_is_a_lost_connection() -> None:
    """uvloop raises RuntimeError for bytes that it is given when the connection has broken."""

    class Broken:
        async def send_command(self, *words: str) -> None:
            transport = asyncio.Transport()
            transport.write(b"")

        async def disconnect(self, nowait: bool) -> None:
            assert nowait

    class BrokenConnector:
        where, settings = "h:1", {"password": "secret"}

        async def open(self, limit: float) -> Broken:
            return Broken()

    connector = cast("Connector", BrokenConnector())
    with pytest.raises(ConnectionLostError, match="no connection to Redis at h:1") as expected:
        await ask_once(connector, 10, ("CLUSTER", "SLOTS"))
    assert isinstance(expected.value.__cause__, NotImplementedError)
