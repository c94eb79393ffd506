"""Seats follow their slot's master, whatever the schedule: Redis' bell against a model cluster.

The bell and the bus are the real ones. Nothing happens alone, and no timer helps: who
waits must be woken as soon as the lock is free, or waits for ever. What the client does here is
what a router has to do: it learns of a move by MOVED, by the server's `sunsubscribe`, or when it
asks for the map, and calls the bell before it sends anything to the new place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal, cast
from unittest.mock import Mock, call

import pytest

from redisson_py._answers import CALLED
from redisson_py._engine import bus as bus_module
from redisson_py._engine.bus import LINGER_SECONDS, Bus, Sleeper
from redisson_py._engine.wakeups import Table
from redisson_py._redis.commands.wakes import lock_wakes
from redisson_py._redis.subscriptions import Subscriptions
from tests.unit.fakes import FakeClock, random_schedule

NODES = 3
#: Each has a slot of its own, and its number is the slot's.
CHANNELS = (b"c0", b"c1")

Move = Callable[[], object]


class Waiter:
    """A task in the loop of `waiting`: asks, sleeps, is woken, leaves."""

    def __init__(self, world: World, slot: int) -> None:
        self.world = world
        self.slot = slot
        self.state: Literal["asking", "asleep", "holding", "gone"] = "asking"
        self._seat: AbstractContextManager[Sleeper] = world.bus.listen(CHANNELS[slot], lock_wakes)
        self._sleeper = self._seat.__enter__()
        self.ask()

    @property
    def woken(self) -> bool:
        assert self._sleeper.seat is not None
        return self.state == "asleep" and self._sleeper.seat.woken

    def ask(self) -> None:
        self.state = "asking"
        self._sleeper.arm()
        self.world.stream_for(CHANNELS[self.slot]).ask(self)

    def answered(self, granted: bool) -> None:
        self.state = "holding" if granted else "asleep"
        if granted:
            self.leave()

    def give_up(self) -> None:
        self.state = "gone"
        self.leave()

    def leave(self) -> None:
        self._seat.__exit__(None, None, None)


class Subscription:
    """A SUBSCRIBE on its way."""

    subscribes = True

    def __init__(self, channel: bytes) -> None:
        self.channel = channel
        self.is_settled = False
        self.why_not = ""


class Stream:
    """One connection at a time to one node: what is on its way in each direction."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.main = self.grants = self
        self.ready = False
        #: What the server has subscribed on this connection.
        self.subscribed: set[bytes] = set()
        self.requests: deque[tuple[str, Any]] = deque()
        self.replies: deque[tuple[str, Any, Any]] = deque()
        self.unanswered: list[Waiter] = []

    def subscribe(self, channel: bytes) -> Subscription | None:
        if not self.ready:
            return None
        subscription = Subscription(channel)
        self.requests.append(("subscribe", subscription))
        return subscription

    def unsubscribe(self, channel: bytes) -> None:
        if self.ready:
            self.requests.append(("unsubscribe", channel))

    def ask(self, waiter: Waiter) -> None:
        self.unanswered.append(waiter)
        if self.ready:
            self.requests.append(("ask", waiter))

    def connect(self) -> None:
        self.ready = True
        self.world.bell.connected(cast("Any", self))
        self.requests += [("ask", waiter) for waiter in self.unanswered]

    def break_down(self) -> None:
        self.ready = False
        for _, each, *_ in (*self.requests, *self.replies):
            if isinstance(each, Subscription):
                each.is_settled = True
        for what in (self.requests, self.replies, self.subscribed):
            what.clear()
        self.world.bell.cut_off(cast("Any", self))

    def hand_over(self, slot: int) -> None:
        """Calls that wait for a connection go where their slot is now."""
        if not self.ready:
            for waiter in [each for each in self.unanswered if each.slot == slot]:
                self.unanswered.remove(waiter)
                self.world.stream_for(CHANNELS[slot]).ask(waiter)

    def execute(self) -> None:
        """Let the server execute the next command."""
        word, what = self.requests.popleft()
        world = self.world
        if word == "unsubscribe":
            self.subscribed.discard(what)
            return
        slot = CHANNELS.index(what.channel) if word == "subscribe" else what.slot
        here = world.owners[slot] == self.number
        if word == "subscribe" and (here or not world.sharded):
            self.subscribed.add(what.channel)
            self.replies.append(("subscribed", what, None))
        elif word == "subscribe":
            self.replies.append(("not subscribed", what, world.owners[slot]))
        elif not here:
            self.replies.append(("moved", what, world.owners[slot]))
        else:
            world.holders[slot] = world.holders[slot] or what
            self.replies.append(("answer", what, world.holders[slot] is what))

    def receive(self) -> None:
        """Let the next reply or push arrive."""
        word, what, more = self.replies.popleft()
        world = self.world
        if word == "message":
            world.bell.message(what, b"0")
        elif word == "subscribed":
            what.is_settled = True
        elif word == "gone":
            world.asks_for_map |= world.bell.gone(cast("Any", self), what)
        elif word == "not subscribed":
            what.is_settled = True
            world.asks_for_map |= world.bell.gone(cast("Any", self), what.channel, what)
        else:
            self.unanswered.remove(what)
            if word == "moved":
                world.learn(what.slot, more)
            if what.state == "gone":
                world.release(what.slot, what)
            elif word == "moved":
                world.stream_for(CHANNELS[what.slot]).ask(what)
            else:
                what.answered(more)


class World:
    """A cluster, a client of it, and everything that can happen next."""

    def __init__(self, sharded: bool, clock: FakeClock) -> None:
        self.sharded = sharded
        self.clock = clock
        self.table = Table()
        self.bell = Subscriptions(self.table)
        self.bell.attach(cast("Any", self), Mock())
        self.bus = Bus(self.table, self.bell)
        self.streams = [Stream(self, number) for number in range(NODES)]
        #: Where the slots are, and where the client believes them to be.
        self.owners = [0 for _ in CHANNELS]
        self.map = [0 for _ in CHANNELS]
        self.holders: list[Any] = ["another" for _ in CHANNELS]
        self.waiters: list[Waiter] = []
        self.asks_for_map = False

    def stream_for(self, channel: bytes) -> Stream:
        return self.streams[self.map[CHANNELS.index(channel)]]

    def in_state(self, *states: str) -> list[Waiter]:
        return [waiter for waiter in self.waiters if waiter.state in states]

    # What the servers do.

    def migrate(self, slot: int, node: int) -> None:
        before, self.owners[slot] = self.streams[self.owners[slot]], node
        channel = CHANNELS[slot]
        if self.sharded and before.number != node and channel in before.subscribed:
            before.subscribed.discard(channel)
            before.replies.append(("gone", channel, None))

    def release(self, slot: int, holder: object) -> None:
        if self.holders[slot] is holder:
            self.holders[slot] = None
            for stream in self.streams:
                if CHANNELS[slot] in stream.subscribed:
                    stream.replies.append(("message", CHANNELS[slot], None))

    def take(self, slot: int) -> None:
        """Another process takes the lock."""
        self.holders[slot] = "another"

    # What the client does.

    def learn(self, slot: int, node: int) -> None:
        if (before := self.map[slot]) != node:
            self.map[slot] = node
            self.bell.moved(lambda channel: channel == CHANNELS[slot])
            self.streams[before].hand_over(slot)

    def ask_for_map(self) -> None:
        self.asks_for_map = False
        for slot, node in enumerate(self.owners):
            self.learn(slot, node)
        self.bell.recover()

    def join(self, slot: int) -> None:
        self.waiters.append(Waiter(self, slot))

    def finish(self, waiter: Waiter) -> None:
        waiter.state = "gone"
        self.release(waiter.slot, waiter)

    def possible(self) -> list[Move]:
        """Return what can happen now; what brings things forward more than once."""
        moves: list[Move] = self.progress() * 3
        moves += [stream.break_down for stream in self.streams if stream.ready]
        moves += [partial(self.clock.sleep, 3 * LINGER_SECONDS), self.ask_for_map]
        for slot in range(len(CHANNELS)):
            moves += [partial(self.migrate, slot, node) for node in range(NODES)]
            if len([each for each in self.in_state("asking", "asleep") if each.slot == slot]) < 3:
                moves.append(partial(self.join, slot))
            if self.holders[slot] is None:
                moves.append(partial(self.take, slot))
        # Nobody leaves while an answer is due: undoing that is not the bus' affair.
        moves += [waiter.give_up for waiter in self.in_state("asleep")]
        return moves

    def progress(self) -> list[Move]:
        """Return what has to happen sooner or later."""
        moves: list[Move] = [self.ask_for_map] if self.asks_for_map else []
        for stream in self.streams:
            if not stream.ready and stream.unanswered:
                moves.append(stream.connect)
            moves += [stream.execute] if stream.requests else []
            moves += [stream.receive] if stream.replies else []
        moves += [waiter.ask for waiter in self.waiters if waiter.woken]
        moves += [partial(self.finish, waiter) for waiter in self.in_state("holding")]
        moves += [
            partial(self.release, slot, "another")
            for slot, holder in enumerate(self.holders)
            if holder == "another"
        ]
        return moves

    def settle(self) -> None:
        """Let everything happen that has to."""
        for _ in range(10_000):
            if not (moves := self.progress()):
                return
            moves[0]()
        raise AssertionError("it does not end")

    def check_seats(self) -> None:
        """Fail unless every channel is subscribed where the map says, or known to be nowhere."""
        assert self.table.channels.keys() == self.bell._channels.keys()
        for name, subscription in self.bell._channels.items():
            there = cast("Any", self.stream_for(name))
            assert subscription.stream is None or subscription.stream is there

    def check_settled(self) -> None:
        """Fail unless the servers have subscribed what the bell believes, and nothing else."""
        subscriptions = self.bell._channels.items()
        for stream in self.streams:
            if stream.ready:
                here = {name for name, each in subscriptions if each.stream is cast("Any", stream)}
                assert stream.subscribed == here


@pytest.mark.parametrize("sharded", [False, True])
def test_a_thousand_random_schedules_break_no_rule(sharded: bool) -> None:
    for seed in range(1000):
        with pytest.MonkeyPatch.context() as patch:
            play(sharded, random_schedule(seed, 100), patch)


def play(sharded: bool, schedule: Iterable[int], patch: pytest.MonkeyPatch) -> None:
    """Let happen what the schedule says, then all that must."""
    clock = FakeClock()
    patch.setattr(bus_module, "loop_time", clock.time)
    patch.setattr(bus_module, "call_later", clock.call_later)
    world = World(sharded, clock)
    for number in schedule:
        moves = world.possible()
        moves[number % len(moves)]()
        world.check_seats()
    world.settle()
    assert world.in_state("asking", "asleep") == [], "somebody is forgotten"
    world.check_settled()
    clock.sleep(3 * LINGER_SECONDS)
    world.settle()
    assert not world.table.channels
    world.check_settled()


async def test_late_news_of_an_earlier_subscription_on_the_same_node() -> None:
    """The slot left and came back, while the first subscription there is refused, or ends."""
    channel = CHANNELS[0]
    here, there = Mock(subscribe=Mock(side_effect=Subscription)), Mock()
    here.grants, there.grants = here, there
    router = SimpleNamespace(stream_for=lambda _: here)
    table = Table()
    bell = Subscriptions(table)
    bell.attach(cast("Any", router), Mock())
    bus = Bus(table, bell)
    with bus.listen(channel, lock_wakes):
        pass
    first = bell._channels[channel].last
    for node in (there, here):
        router.stream_for = lambda _, node=node: node
        bell.moved(lambda _: True)
    second = bell._channels[channel].last
    assert not bell.gone(here, channel, first)
    assert first is not None
    assert not bell.put_off(here, first)
    # The server ended the first one; the second is not answered yet.
    assert not bell.gone(here, channel)
    assert channel in table.channels
    assert second is not None
    assert bell.put_off(here, second)
    assert not bell.gone(here, channel, second), "nobody sits there"
    assert channel not in table.channels
    bus.close()


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"0", 0),
        (b"-3", -3),
        (b"2", 2),
        (b"00", CALLED),
        (b"01", CALLED),
        (b"", None),
        (b"x", None),
    ],
)
def test_a_message_is_a_number_and_a_zero_before_it_says_that_some_were_called(
    payload: bytes, message: int | None
) -> None:
    table, wakes = Table(), Mock(return_value=0)
    table.join(CHANNELS[0], wakes)
    Subscriptions(table).message(CHANNELS[0], payload)
    assert wakes.mock_calls == ([] if message is None else [call(message)])
