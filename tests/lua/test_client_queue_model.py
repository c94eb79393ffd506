"""Whatever clients do in whatever order, the queue of clients is the model's: a Python list.

They ask, are called, leave, are silent and die; Redisson's take the lock; leases end; keys vanish.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from hashlib import sha1
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from redis.asyncio import Redis

from redisson_py._redis.scripts.source import Arg, Script, Wording
from tests.support.scripts.calls import LEASE, TOMBSTONE, Scripts, ask
from tests.support.scripts.client_queue import (
    BOTH_WAYS,
    JAVA,
    LONG,
    QueueScripts,
    WriteQueueScripts,
    owner_of,
)

T = TypeVar("T")

CLIENTS = ("a", "b", "c", "d", "e")
SLOTS = st.sampled_from(CLIENTS)
TIMES = st.integers(1, 2)
WAYS = st.sampled_from(BOTH_WAYS)


#: Milliseconds after which a client that was called and says nothing is passed over. In the scripts
#: they are 50, which a slow machine lets pass between two commands.
SILENT = 600_000


class PatientScripts(Scripts):
    """The scripts, with `SILENT` in the place of 50 ms."""

    def wording(self, script: Script) -> Wording:
        """Return a script as this server is sent it."""
        wording = super().wording(script)
        text = wording.text.replace(" > 50000 ", f" > {1000 * SILENT} ")
        text = text.replace("50000 - present", f"{1000 * SILENT} - present")
        return replace(wording, text=text, sha=sha1(text.encode()).hexdigest())


@dataclass
class Model:
    """A lock, and a list of the clients that wait for it, all of them for long.

    Attributes:
        called: The first of them, if it was called and has not answered.
        silent: That is long ago.
        alive: Those that listen.
        messages: What those that live have heard.
    """

    holder: str | None = None
    order: list[str] = field(default_factory=list)
    called: str | None = None
    silent: bool = False
    alive: set[str] = field(default_factory=lambda: {*CLIENTS})
    messages: list[tuple[str, str]] = field(default_factory=list)

    def asks(self, client: str, owner: str) -> str:
        if self.holder == owner:
            return "granted"
        if self.holder is None and self._may_take(client):
            self._leave(client)
            self.holder = owner
            return "granted"
        if self.called == client:
            self.called = None
        if client not in self.order:
            self.order.append(client)
        return "busy"

    def _may_take(self, client: str) -> bool:
        if self.called is not None and self.called != client and self.silent:
            self._leave(self.called)
        if self.order and self.order[0] != client and self.called is None:
            self._call_next(client)
        return not self.order or self.order[0] == client

    def _call_next(self, client: str | None = None) -> None:
        dead = 0
        while self.order and self.order[0] not in self.alive and self.order[0] != client:
            self._drop(self.order[0])
            dead += 1
        if self.order and self.order[0] != client:
            self.called, self.silent = self.order[0], False
            self._tell(self.order[0], "0")
            if dead and len(self.order) > 1:
                self._tell(self.order[1], "2")

    def _leave(self, client: str) -> None:
        if client in self.order[:2] and len(self.order) > 2:
            self._tell(self.order[2], "2")
        self._drop(client)

    def _drop(self, client: str) -> None:
        if client in self.order:
            self.order.remove(client)
        if self.called == client:
            self.called = None

    def _tell(self, client: str, message: str) -> None:
        if client in self.alive:
            self.messages.append((client, message))

    def frees(self) -> None:
        self.holder = None
        self._call_next()

    def leaves(self, client: str) -> int:
        was_there = client in self.order
        self._leave(client)
        if self.called is None and self.holder is None:
            self._call_next()
        return int(was_there)


class ClientOrder(RuleBasedStateMachine):
    """The scripts on a server beside the model."""

    url = ""
    kind = ""
    machines = 0

    def __init__(self) -> None:
        super().__init__()
        ClientOrder.machines += 1
        self.runner = asyncio.Runner()
        self.model = Model()
        self.numbers = dict.fromkeys(CLIENTS, 1)
        self.forced = 0
        self.go(self._open())

    def go(self, doing: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(doing)

    async def _open(self) -> None:
        self.redis = Redis.from_url(self.url)
        scripts, key = await PatientScripts.on(self.redis), b"q%d" % self.machines
        if self.kind == "write":
            self.queue: QueueScripts = WriteQueueScripts(scripts, key=key)
        else:
            self.queue = QueueScripts(scripts, fenced=self.kind == "fenced", key=key)
        self.pubsub: Any = self.redis.pubsub()
        for client in (*CLIENTS, "end"):
            await self._listen(client)

    async def _listen(self, client: str) -> None:
        await self.pubsub.subscribe(self.queue.own_channel(client))
        await self._message("subscribe")

    async def _message(self, kind: str) -> Any:
        message = None
        while message is None or message["type"] != kind:
            message = await self.pubsub.get_message(timeout=10)
        return message

    async def _messages(self) -> list[tuple[str, str]]:
        """Return who was told what since the last call."""
        end = self.queue.own_channel("end")
        await self.redis.publish(end, "end")
        messages = []
        while (message := await self._message("message"))["channel"] != end:
            client = message["channel"].removeprefix(self.queue.channel + b":").decode()
            messages.append((client.removesuffix(self.queue.suffix), message["data"].decode()))
        return messages

    def owner(self, client: str) -> str:
        return owner_of(client, self.numbers[client])

    async def _time_passes(self) -> None:
        """Have all in the queue wait for long, in their order; who was called waits as modelled."""
        model, queue = self.model, self.queue
        for position, client in enumerate(model.order):
            await queue.joined_ago(client, LONG + len(model.order) - position)
        if model.called is not None:
            await queue.called_ago(model.called, 2 * SILENT if model.silent else 0)

    @initialize(order=st.lists(SLOTS, unique=True), freed=st.booleans())
    def begin(self, order: list[str], freed: bool) -> None:
        self.redisson_takes_it()
        for client in order:
            self.ask(client, 1, 0, LEASE)
        if freed:
            self.force_release(1)

    @rule(client=SLOTS, times=TIMES, yields=st.integers(0, 1), lease_ms=WAYS)
    def ask(self, client: str, times: int, yields: int, lease_ms: Arg) -> None:
        for _ in range(times):
            self.go(self._time_passes())
            before, silent = [*self.model.order], self.model.called if self.model.silent else None
            reply = self.go(
                self.queue.asks(client, lease_ms=lease_ms, owner=self.owner(client), yields=yields)
            )
            outcome = self.model.asks(client, self.owner(client))
            if outcome == "granted":
                assert reply is None
                ahead = before[: before.index(client)] if client in before else before
                # Only those are passed over that fail; a repetition passes over nobody.
                failed = {silent} | {*CLIENTS} - self.model.alive
                assert {*ahead} <= failed or self.model.order == before
            else:
                assert reply[1] == self.model.order.index(client)

    @rule(client=SLOTS)
    def try_once(self, client: str) -> None:
        """One that does not wait takes what is free, or leaves no trace of its own."""
        if client in self.model.order or self.model.holder == self.owner(client):
            return
        self.go(self._time_passes())
        reply = self.go(self.queue.acquire(self.owner(client)))
        outcome = self.model.asks(client, self.owner(client))
        assert (reply is None) == (outcome == "granted")
        if outcome == "busy":
            self.model.order.remove(client)

    @rule(client=SLOTS, times=TIMES, undo=st.booleans(), lease_ms=WAYS)
    def release(self, client: str, times: int, undo: bool, lease_ms: Arg) -> None:
        tombstone_ms = TOMBSTONE if undo else 0
        for _ in range(times):
            held = self.model.holder == self.owner(client)
            reply = self.go(self.queue.release(self.owner(client), 0, lease_ms, tombstone_ms))
            if held:
                self.model.frees()
            called = self.model.called is not None
            assert reply == ((-1 if called else 1) if held else None)
        self.late(client) if undo else None
        self.numbers[client] += 1

    def late(self, client: str) -> None:
        """A late duplicate of what was undone changes nothing."""
        assert self.go(self.queue.asks(client, owner=self.owner(client))) == -3

    @precondition(lambda self: self.model.holder not in (None, JAVA))
    @rule()
    def the_holder_releases(self) -> None:
        assert self.model.holder is not None
        self.release(self.model.holder.partition(":")[0], 1, undo=False, lease_ms=LEASE)

    @rule(client=SLOTS, times=TIMES)
    def leave(self, client: str, times: int) -> None:
        for _ in range(times):
            assert self.go(self.queue.leaves(client)) == self.model.leaves(client)

    @rule(times=TIMES)
    def force_release(self, times: int) -> None:
        held = self.model.holder is not None
        self.forced += 1
        for _ in range(times):
            assert self.go(self.queue.force_release(str(self.forced))) == held
        if held:
            self.model.frees()

    @precondition(lambda self: self.model.called)
    @rule(client=SLOTS)
    def the_called_one_is_silent(self, client: str) -> None:
        self.model.silent = True
        self.ask(client, 1, 0, LEASE)

    @rule(client=SLOTS)
    def die_or_come_back(self, client: str) -> None:
        if client in self.model.alive:
            self.model.alive.remove(client)
            self.go(self.pubsub.unsubscribe(self.queue.own_channel(client)))
            self.go(self._message("unsubscribe"))
        else:
            self.model.alive.add(client)
            self.go(self._listen(client))

    @precondition(lambda self: self.model.holder is None)
    @rule()
    def redisson_takes_it(self) -> None:
        self.go(self.queue.put(JAVA))
        self.model.holder = JAVA

    @rule()
    def the_lease_ends_or_redisson_releases(self) -> None:
        self.go(ask(self.redis, "DEL", self.queue.key))
        self.model.holder = None

    @rule()
    def the_queue_vanishes(self) -> None:
        self.go(ask(self.redis, "DEL", self.queue.clients))
        self.model.order.clear()
        self.model.called = None

    @invariant()
    def the_server_has_what_the_model_has(self) -> None:
        self.go(self._compare())

    async def _compare(self) -> None:
        queue, model = self.queue, self.model
        assert sorted(await self._messages()) == sorted(model.messages)
        model.messages.clear()
        assert [*await queue.holds()] == ([] if model.holder is None else [model.holder])
        assert await queue.waiting() == model.order
        assert await queue.called() == model.called
        for key in (queue.key, queue.clients):
            assert not await self.redis.exists(key) or await self.redis.pttl(key) > 0

    def teardown(self) -> None:
        try:
            self.empty()
        finally:
            self.go(self._close())
            self.runner.close()

    def empty(self) -> None:
        """All that live get it, in their order, if somebody looks; then nothing is left."""
        self.the_lease_ends_or_redisson_releases()
        self.model.silent = False
        expected = [client for client in self.model.order if client in self.model.alive]
        if self.model.called is not None and self.model.called not in self.model.alive:
            self.model.silent = True
        for client in expected:
            # One that was called answers; or else somebody looks, and then it is called.
            if self.model.called != client:
                assert self.go(self._looks()) != "granted"
            self.ask(client, 1, 0, LEASE)
            assert self.model.holder == self.owner(client)
            self.the_holder_releases()
        for client in CLIENTS:
            self.leave(client, 1)
        self.go(self._compare())
        assert self.go(ask(self.redis, "EXISTS", self.queue.key, self.queue.clients)) == 0

    async def _looks(self) -> str:
        await self._time_passes()
        reply = await self.queue.acquire(owner_of("newcomer"))
        assert self.model.asks("newcomer", owner_of("newcomer")) == "busy"
        self.model.order.remove("newcomer")
        return "granted" if reply is None else "busy"

    async def _close(self) -> None:
        await self.pubsub.aclose()
        await self.redis.aclose()


@pytest.fixture(params=["plain", "fenced", "write"])
def machine(server_url: str, request: pytest.FixtureRequest) -> type[ClientOrder]:
    """The machine, on the session's server."""
    return type("OnServer", (ClientOrder,), {"url": server_url, "kind": request.param})


def test_every_interleaving_is_answered_as_the_model_says(machine: type[ClientOrder]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=25,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
