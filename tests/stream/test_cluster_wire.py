"""Pushes, refusals and replies of a cluster node, in every order: none answers the wrong call."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import hiredis
import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.crc import key_slot
from redis.exceptions import ResponseError

from redisson_py._dialect import Dialect
from redisson_py._stream.call import Call
from tests.fixtures.redis_server import ServerFactory
from tests.stream.cluster_party import CONFIRMED, MOVED, Party, Pipe, SimulatedNode
from tests.support.fake_peer import HOST, error, hello, message, push
from tests.support.scripts.calls import ask
from tests.support.waiting import until, until_async

CHANNELS = [b"a", b"b", b"c"]
SCHEDULES = 10_000
#: Publishes where the slot is; where it is not, nobody listens.
SPEAK = "return redis.call('SPUBLISH', ARGV[1], ARGV[2])"


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


async def test_pushes_of_other_channels_and_kinds_answer_nothing() -> None:
    party, pipe = Party(), Pipe()
    party.wire.attach(pipe)
    party.subscribe(b"a")
    kinds = (b"subscribe", b"unsubscribe", b"sunsubscribe", b"invalidate")
    noise = b"".join(push(kind, b"a", 0) for kind in kinds) + push(b"ssubscribe", b"b", 1)
    party.wire.data_received(noise + message(b"a", b"0"))
    assert len(party.wire.in_flight) == 1
    party.wire.data_received(push(b"ssubscribe", b"a", 1))
    assert party.heard == {b"a"}
    assert not party.wire.in_flight
    assert party.messages == [(b"a", b"0")]


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


async def test_a_real_node_that_loses_slots_and_gets_them_back(node: RealNode) -> None:
    chance, party = random.Random(15), Party()
    await connect(party, node.redis)
    said: list[bytes] = []

    async def disturb() -> None:
        for number in range(600):
            channel = chance.choice(CHANNELS)
            if chance.random() < 0.5:
                await node.serve(channel, here=chance.random() < 0.6)
            else:
                with suppress(ResponseError):
                    if await ask(node.redis, "EVAL", SPEAK, 1, channel, channel, number):
                        said.append(b"%d" % number)

    trouble = asyncio.create_task(disturb())
    while not trouble.done():
        for _ in range(chance.randint(1, 20)):
            does = chance.choice([party.ask, party.ask, party.subscribe, party.unsubscribe])
            does(chance.choice(CHANNELS))
        await asyncio.sleep(0)
        if chance.random() < 0.3:
            await drained(party)
    await trouble
    await drained(party)
    outcomes = [party.outcome(call) for call in party.calls]
    for number, (call, outcome) in enumerate(zip(party.calls, outcomes, strict=True)):
        own = {"EVAL": b"%d" % number, "HELLO": "hello"}.get(str(call.args[0]), CONFIRMED)
        refused = str(outcome).startswith("MOVED") and own != "hello"
        assert outcome == own or refused, (call.args, outcome)
    assert sum(str(outcome).startswith("MOVED") for outcome in outcomes) > 20
    assert party.heard == await node.subscribed()
    assert [payload for _, payload in party.messages] == said
    party.wire.abort()
