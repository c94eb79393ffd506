"""Pushes, refusals and replies of a cluster node, in every order: none answers the wrong call.

What a node does was observed on Valkey 9.1 and Redis 7.0, and the last test compares: it pushes
`sunsubscribe` by itself, ahead of what it has still to answer, when a slot moves away; it then
refuses SUNSUBSCRIBE like every other command for that slot; and it never refuses HELLO.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import hiredis
import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.crc import key_slot

from redisson_py._redis.dialect import Dialect
from redisson_py._redis.stream.call import Call, ReplyError
from redisson_py._redis.stream.wire import Traffic, Wire
from tests.fixtures.redis_server import ServerFactory
from tests.support.fake_peer import HOST, Command, bulk, error, hello, push
from tests.support.scripts.calls import ask
from tests.support.waiting import until, until_async

CHANNELS = [b"a", b"b", b"c"]
SCHEDULES = 10_000


MOVED = "MOVED 1 127.0.0.1:7001"
DOWN = "CLUSTERDOWN The cluster is down"
CONFIRMED = "confirmed"
#: Whose reply is told from all others.
TELL = "return ARGV[1]"


class Pipe(asyncio.Transport):
    """Keeps what is written until the other side reads it."""

    def __init__(self) -> None:
        super().__init__()
        self._reader = hiredis.Reader()
        self.aborted = False

    def write(self, data: Any) -> None:
        """Take bytes."""
        self._reader.feed(bytes(data))

    def read(self) -> Command | None:
        """Return the next command, if there is one."""
        words = self._reader.gets()
        return tuple(words) if words else None

    def abort(self) -> None:
        """Remember that the connection was given up."""
        self.aborted = True


class Party:
    """What a stream and its client do with a wire, and what they know.

    Attributes:
        calls: Every call, in the order in which they were put.
        outcomes: What came of those that were refused; the others have it in their future.
        heard: The channels that the node is taken to serve.
        messages: What came on channels.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.outcomes: dict[Call, str] = {}
        self.heard: set[bytes] = set()
        self.messages: list[tuple[bytes, bytes]] = []
        self.wire = Wire(
            Traffic(),
            on_message=lambda channel, payload: self.messages.append((channel, payload)),
            on_gone=self.heard.discard,
            on_refused=self._refused,
            on_room=lambda: None,
            on_down=lambda: None,
        )

    def ask(self, channel: bytes) -> None:
        """Send a command for the slot of a channel; its reply says which one it was."""
        self.say("EVAL", TELL, 1, channel, b"%d" % len(self.calls))

    def subscribe(self, channel: bytes) -> None:
        """Listen."""
        self._put(_Change(self.heard.add, "SSUBSCRIBE", channel))

    def unsubscribe(self, channel: bytes) -> None:
        """Stop listening, as `Stream.unsubscribe` does."""
        self._put(_Change(self.heard.discard, "SUNSUBSCRIBE", channel))
        self.say("HELLO")

    def say(self, *args: bytes | str | int) -> Call:
        """Send a command."""
        return self._put(Call(args, 0, must=True))

    def _put(self, call: Call) -> Call:
        self.calls.append(call)
        self.wire.put(call, call.pack(Dialect.SHARDED))
        return call

    def outcome(self, call: Call) -> object:
        """Return what came of a call."""
        if call in self.outcomes:
            return self.outcomes[call]
        assert call.future.done(), f"no answer to {call.args!r}"
        result = call.future.result()
        if call.channel is not None:
            assert result is None
            return CONFIRMED
        return "hello" if isinstance(result, dict) else result

    def _refused(self, call: Call, reply: ReplyError) -> None:
        assert call not in self.outcomes
        assert not call.future.done()
        self.outcomes[call] = str(reply)
        if call.args[0] == "SUNSUBSCRIBE":
            assert isinstance(call, _Change)
            call.made()


class _Change(Call):
    """A subscription, or the end of one; what that changes is known at once, as in a stream."""

    def __init__(self, learn: Callable[[bytes], None], word: str, channel: bytes) -> None:
        super().__init__((word, channel), 0, must=True, channel=channel)
        self.made: Callable[[], None] = lambda: learn(channel)

    def succeed(self, reply: object) -> None:
        """Take the confirmation."""
        super().succeed(reply)
        self.made()


class SimulatedNode:
    """A node of a cluster; each channel has a slot of its own.

    Attributes:
        served: The channels whose slot is here.
        subscribed: Those that the client listens to.
        down: The cluster has lost too many nodes.
        log: What came of each command, as the client should see it.
        said: Messages that were sent.
    """

    def __init__(self, channels: list[bytes]) -> None:
        self.served = {*channels}
        self.subscribed: set[bytes] = set()
        self.down = False
        self.log: list[object] = []
        self.said: list[tuple[bytes, bytes]] = []
        self.out = b""

    def execute(self, command: Command) -> None:
        """Answer a command."""
        word, channel = command[0], command[3 if command[0] == b"EVAL" else -1]
        if word == b"HELLO":
            self._answer("hello", hello())
        elif self.down:
            self._answer(DOWN, error(DOWN))
        elif channel not in self.served:
            self._answer(MOVED, error(MOVED))
        elif word == b"EVAL":
            self._answer(command[4], bulk(command[4]))
        else:
            change = self.subscribed.add if word == b"SSUBSCRIBE" else self.subscribed.discard
            change(channel)
            self._answer(CONFIRMED, push(word.lower(), channel, len(self.subscribed)))

    def lose(self, channel: bytes) -> None:
        """Give the slot of a channel away."""
        self.served.discard(channel)
        if channel in self.subscribed:
            self.subscribed.discard(channel)
            self.out += push(b"sunsubscribe", channel, len(self.subscribed))

    def publish(self, channel: bytes) -> None:
        """Say something to those who listen."""
        if channel in self.subscribed:
            payload = b"%d" % len(self.said)
            self.said.append((channel, payload))
            self.out += push(b"smessage", channel, payload)

    def _answer(self, outcome: object, data: bytes) -> None:
        self.log.append(outcome)
        self.out += data


class Play:
    """One schedule: a party and a simulated node, in an order that `chance` decides."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.party, self.node, self.pipe = Party(), SimulatedNode(CHANNELS), Pipe()
        self.party.wire.attach(self.pipe)
        #: Channels that the node goes on serving: it refused to stop, the cluster was down.
        self.stuck: set[bytes] = set()

    def run(self, steps: int) -> None:
        """Do anything, then finish, and check what came of it."""
        for _ in range(steps):
            self.chance.choices(
                [self.send, self.transmit, self.execute, self.happen, self.deliver],
                [6, 3, 5, 2, 4],
            )[0]()
        self.node.down = False
        self.party.wire.flush()
        while self.execute():
            pass
        while self.node.out:
            self.deliver()
        self.check()

    def send(self) -> None:
        party = self.party
        does = self.chance.choice([party.ask, party.ask, party.subscribe, party.unsubscribe])
        does(self.chance.choice(CHANNELS))

    def transmit(self) -> None:
        self.party.wire.flush()

    def execute(self) -> bool:
        command = self.pipe.read()
        if command is None:
            return False
        if command[0] == b"SUNSUBSCRIBE" and self.node.down:
            self.stuck.add(command[1])
        self.node.execute(command)
        return True

    def happen(self) -> None:
        node, channel = self.node, self.chance.choice(CHANNELS)
        what = [node.lose, node.served.add, node.publish, node.publish]
        self.chance.choice(what)(channel)
        node.down = self.chance.random() < 0.1

    def deliver(self) -> None:
        node = self.node
        cut = self.chance.choice([self.chance.randint(0, len(node.out)), len(node.out)])
        data, node.out = node.out[:cut], node.out[cut:]
        if data:
            self.party.wire.data_received(data)

    def check(self) -> None:
        party, node = self.party, self.node
        assert not self.pipe.aborted, party.wire.why
        assert not party.wire.in_flight
        assert [party.outcome(call) for call in party.calls] == node.log
        assert party.messages == node.said
        assert party.heard <= node.subscribed
        assert node.subscribed - party.heard <= self.stuck


@pytest.mark.parametrize("part", range(10))
async def test_in_every_order(part: int) -> None:
    moved = confirmed = 0
    for seed in range(part, SCHEDULES, 10):
        play = Play(random.Random(seed))
        try:
            play.run(steps=play.chance.randint(5, 60))
        except AssertionError as problem:
            raise AssertionError(f"schedule {seed}") from problem
        moved += play.node.log.count(MOVED)
        confirmed += play.node.log.count(CONFIRMED)
    assert moved > 1000
    assert confirmed > 1000


# Answers that no node gives.


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"+OK\r\n", id="a reply that is not HELLO's"),
        pytest.param(hello() + hello(), id="one HELLO too many"),
        pytest.param(error(MOVED) * 2 + b"+OK\r\n", id="HELLO refused and something behind it"),
    ],
)
async def test_a_connection_that_answers_otherwise_is_given_up(answer: bytes) -> None:
    party, pipe = Party(), Pipe()
    party.wire.attach(pipe)
    party.unsubscribe(b"a")
    party.wire.data_received(push(b"sunsubscribe", b"a", 0) + answer)
    assert pipe.aborted


# A real node.


class RealNode:
    """A cluster node with every slot, and another one to give them to."""

    def __init__(self, redis: Redis, other: str) -> None:
        self.redis = redis
        self.ids = {True: "", False: other}

    async def serve(self, channel: bytes, here: bool) -> None:
        """Keep the slot of a channel, or give it away."""
        await ask(self.redis, "CLUSTER SETSLOT", key_slot(channel), "NODE", self.ids[here])

    async def subscribed(self) -> set[bytes]:
        """Return the channels that anybody listens to."""
        return {*await ask(self.redis, "PUBSUB SHARDCHANNELS")}


@pytest_asyncio.fixture
async def node(server_factory: ServerFactory, server_choice: str) -> AsyncIterator[RealNode]:
    if server_choice == "redis62":
        pytest.skip("Redis 6.2 has no sharded pub/sub")
    config = {"cluster-enabled": "yes", "cluster-require-full-coverage": "no"}
    here, there = [
        await server_factory(config=config | {"cluster-port": str(free_port())}) for _ in range(2)
    ]
    async with Redis.from_url(here.url) as redis, Redis.from_url(there.url) as other:
        node = RealNode(redis, (await ask(other, "CLUSTER MYID")).decode())
        node.ids[True] = (await ask(redis, "CLUSTER MYID")).decode()
        bus = (await ask(other, "CONFIG GET", "cluster-port"))["cluster-port"]
        await ask(redis, "CLUSTER ADDSLOTSRANGE", 0, 16383)
        await ask(redis, "CLUSTER MEET", there.host, there.port, bus)

        async def is_ready() -> bool:
            known, facts = await ask(redis, "CLUSTER NODES"), await ask(redis, "CLUSTER INFO")
            return node.ids[False] in str(known) and facts["cluster_state"] == "ok"

        await until_async(is_ready, 30)
        yield node


def free_port() -> int:
    """Return a port that nobody listens to."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


async def connect(party: Party, redis: Redis) -> None:
    loop = asyncio.get_running_loop()
    pool: dict[str, Any] = redis.connection_pool.connection_kwargs
    transport, _ = await loop.create_connection(lambda: party.wire, pool["host"], pool["port"])
    party.wire.attach(transport)
    party.say("HELLO", 3)


def words(call: Call) -> tuple[bytes, ...]:
    """Return a call's words as a server reads them."""
    reader = hiredis.Reader()
    reader.feed(call.pack(Dialect.SHARDED))
    return tuple(reader.gets())


async def drained(party: Party) -> None:
    await until(lambda: not party.wire.in_flight or party.wire.down.done())
    assert not party.wire.down.done(), party.wire.why


async def test_a_real_node_follows_the_rules_of_the_simulated_one(node: RealNode) -> None:
    party, simulated = Party(), SimulatedNode(CHANNELS)
    await connect(party, node.redis)
    for channel in CHANNELS:
        party.subscribe(channel)
    await drained(party)
    await node.serve(b"a", here=False)
    for channel in (b"a", b"b"):
        party.ask(channel)
        party.unsubscribe(channel)
        party.subscribe(channel)
    await drained(party)
    for channel in CHANNELS:
        simulated.execute((b"SSUBSCRIBE", channel))
    simulated.lose(b"a")
    for call in party.calls[4:]:
        simulated.execute(words(call))
    got = [str(party.outcome(call)).partition(" ")[0] for call in party.calls[1:]]
    assert got == [str(outcome).partition(" ")[0] for outcome in simulated.log]
    assert party.heard == simulated.subscribed == await node.subscribed() == {b"b", b"c"}
    party.wire.abort()
