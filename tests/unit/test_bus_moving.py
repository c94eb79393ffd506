"""Seats follow their slot's master, whatever the schedule: the bus against a model of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redisson_py._commands.wakes import lock_wakes
from redisson_py._engine import bus as bus_module
from redisson_py._engine.bus import LINGER, Bus
from redisson_py._engine.server import Subscription
from redisson_py._engine.wakeups import Channel, Table
from tests.unit.fakes import FakeClock
from tests.unit.moving_model import CHANNELS, World
from tests.unit.moving_model import Subscription as ModelSubscription
from tests.unit.wakeup_model import random_schedule

SCHEDULES = st.lists(st.integers(0, 2**16), min_size=10, max_size=80)

CHANNEL, OTHER = CHANNELS


class Failed(Exception):
    """Somebody sleeps although the lock is free, or a channel is where it does not belong."""


def play(sharded: bool, schedule: Iterable[int], new_bus: Callable[[Table], Bus] = Bus) -> None:
    """Let happen what the schedule says, then all that must; raise `Failed` if a rule is broken."""
    with pytest.MonkeyPatch.context() as patch:
        clock = FakeClock()
        patch.setattr(bus_module, "loop_time", clock.time)
        patch.setattr(bus_module, "call_later", clock.call_later)
        world = World(sharded, new_bus, clock)
        try:
            for number in schedule:
                moves = world.possible()
                moves[number % len(moves)]()
                world.check_places()
            world.settle()
            assert world.in_state("asking", "asleep") == [], "somebody is forgotten"
            world.check_settled()
            clock.sleep(3 * LINGER)
            world.settle()
            assert not world.bus.table.channels
            world.check_settled()
        except AssertionError as error:
            raise Failed(error) from error


@pytest.mark.parametrize("sharded", [False, True])
@given(schedule=SCHEDULES)
@settings(max_examples=300, deadline=None)
def test_a_release_is_heard_wherever_the_slot_is(sharded: bool, schedule: list[int]) -> None:
    play(sharded, schedule)


@pytest.mark.parametrize("sharded", [False, True])
def test_a_thousand_random_schedules_break_no_rule(sharded: bool) -> None:
    for seed in range(1000):
        play(sharded, random_schedule(seed))


class LeavesSeatsBehind(Bus):
    """Sabotaged: what moves is not subscribed where it is now."""

    def resubscribe(self, concerns: Callable[[bytes], bool]) -> None:
        self.wake(concerns)


class SleepsThroughMoves(Bus):
    """Sabotaged: who sits on what has moved is not woken."""

    def resubscribe(self, concerns: Callable[[bytes], bool]) -> None:
        for channel in self._concerned(concerns):
            self._subscribe(channel)


class StaysSubscribed(Bus):
    """Sabotaged: what moves stays subscribed at the old place too."""

    def _subscribe(self, channel: Channel) -> None:
        channel.stream = None
        super()._subscribe(channel)


class IgnoresTheServersEnd(Bus):
    """Sabotaged: what the server has ended counts as subscribed."""

    def gone(self, name: bytes, stream: Any, refused: Subscription | None = None) -> bool:
        return False


class LetsLateNewsCount(Bus):
    """Sabotaged: what the old place says late counts for the new one."""

    def gone(self, name: bytes, stream: Any, refused: Subscription | None = None) -> bool:
        channel = self.table.channel(name)
        now = stream if channel is None else cast("Any", channel.stream)
        return super().gone(name, now, refused)


class TakesAnyRefusalForTheLast(Bus):
    """Sabotaged: the refusal of an earlier subscription counts for the last one there."""

    def gone(self, name: bytes, stream: Any, refused: Subscription | None = None) -> bool:
        channel = self.table.channel(name)
        if channel is not None and refused is not None:
            refused = channel.subscription
        return super().gone(name, stream, refused)


class TakesAnyEndForTheLast(Bus):
    """Sabotaged: that the server ended an earlier subscription counts for the last one there."""

    def gone(self, name: bytes, stream: Any, refused: Subscription | None = None) -> bool:
        channel = self.table.channel(name)
        if channel is not None and refused is None:
            channel.subscription = None
        return super().gone(name, stream, refused)


#: A slot moves from a node and back, while the first subscription there is refused, or ends.
LATE_REFUSAL = [1, 10, 4, 11, 8, 9, 0, 0, 19, 0, 1, 0, 0, 0, 1, 7, 13, 6, 15, 1, 2, 20, 0, 16]
LATE_END = [1, 12, 0, 1, 0, 0, 12, 5, 0, 0, 0, 14, 8]


@pytest.mark.parametrize(
    ("schedule", "sabotaged"),
    [(LATE_REFUSAL, TakesAnyRefusalForTheLast), (LATE_END, TakesAnyEndForTheLast)],
)
def test_late_news_of_an_earlier_subscription_on_the_same_node(
    schedule: list[int], sabotaged: type[Bus]
) -> None:
    play(True, schedule)
    with pytest.raises(Failed):
        play(True, schedule, sabotaged)


@pytest.mark.parametrize(
    ("sharded", "sabotaged"),
    [
        (True, LeavesSeatsBehind),
        (True, SleepsThroughMoves),
        (False, SleepsThroughMoves),
        (False, StaysSubscribed),
        (True, IgnoresTheServersEnd),
        (True, LetsLateNewsCount),
    ],
)
def test_the_random_schedules_catch_a_sabotaged_bus(sharded: bool, sabotaged: type[Bus]) -> None:
    with pytest.raises(Failed):
        for seed in range(1000):
            play(sharded, random_schedule(seed), sabotaged)


# Step by step.


class Node:
    """A stream that takes down what it is told."""

    def __init__(self) -> None:
        self.log: list[tuple[str, bytes]] = []
        self.subscriptions: list[ModelSubscription] = []

    def subscribe(self, channel: bytes) -> ModelSubscription:
        self.log.append(("subscribe", channel))
        self.subscriptions.append(ModelSubscription(channel))
        return self.subscriptions[-1]

    def answer(self) -> None:
        for each in self.subscriptions:
            each.is_over = True

    def unsubscribe(self, channel: bytes) -> None:
        self.log.append(("unsubscribe", channel))


class Places:
    """A bus, two nodes, and which channel is where."""

    def __init__(self) -> None:
        self.here, self.there = Node(), Node()
        self.places = {CHANNEL: self.here, OTHER: self.here}
        self.bus = Bus(Table())
        self.bus.attach(cast("Any", self))

    def stream_for(self, channel: bytes) -> Node:
        return self.places[channel]

    def move(self, channel: bytes, node: Node) -> None:
        self.places[channel] = node
        self.bus.resubscribe(lambda each: each == channel)

    def gone(self, node: Node, refused: Subscription | None = None) -> bool:
        return self.bus.gone(CHANNEL, cast("Any", node), refused)


@pytest.fixture
def places() -> Places:
    return Places()


async def test_only_what_moves_is_subscribed_again_and_woken(places: Places) -> None:
    with (
        places.bus.listen(CHANNEL, lock_wakes) as one,
        places.bus.listen(OTHER, lock_wakes) as other,
    ):
        assert one.seat is not None
        assert other.seat is not None
        places.here.log.clear()
        places.move(CHANNEL, places.there)
        assert places.here.log == [("unsubscribe", CHANNEL)]
        assert places.there.log == [("subscribe", CHANNEL)]
        assert (one.seat.woken, other.seat.woken) == (True, False)
        places.bus.wake(lambda channel: channel == OTHER)
        assert other.seat.woken
        assert places.there.log == [("subscribe", CHANNEL)]
    places.bus.close()


async def test_a_lingering_channel_moves_too_and_is_left_where_it_is(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    monkeypatch.setattr(bus_module, "loop_time", clock.time)
    monkeypatch.setattr(bus_module, "call_later", clock.call_later)
    with places.bus.listen(CHANNEL, lock_wakes):
        pass
    places.move(CHANNEL, places.there)
    places.move(CHANNEL, places.here)
    places.move(CHANNEL, places.there)
    clock.sleep(3 * LINGER)
    both = [("subscribe", CHANNEL), ("unsubscribe", CHANNEL)]
    assert (places.here.log, places.there.log) == (both * 2, both * 2)
    assert not places.bus.table.channels


async def test_a_late_refusal_leaves_the_later_subscription_alone(places: Places) -> None:
    with places.bus.listen(CHANNEL, lock_wakes):
        pass
    places.move(CHANNEL, places.there)
    places.move(CHANNEL, places.here)
    first, second = places.here.subscriptions
    assert not places.gone(places.here, first)
    assert not places.bus.put_off(cast("Any", places.here), first)
    assert CHANNEL in places.bus.table.channels
    # The server ended the first one; the second is not answered yet.
    assert not places.gone(places.here)
    assert CHANNEL in places.bus.table.channels
    assert places.bus.put_off(cast("Any", places.here), second)
    assert not places.gone(places.here, second), "nobody sits there"
    assert CHANNEL not in places.bus.table.channels
    places.bus.close()


async def test_a_subscription_ended_by_the_server_is_renewed_while_it_has_a_seat(
    places: Places,
) -> None:
    with places.bus.listen(CHANNEL, lock_wakes) as sleeper:
        assert sleeper.seat is not None
        assert not places.gone(places.there), "that was left before"
        places.bus.recover()
        assert not sleeper.seat.woken
        places.here.answer()
        assert places.gone(places.here)
        places.places[CHANNEL] = places.there
        places.bus.recover()
        assert sleeper.seat.woken
    assert places.here.log == [("subscribe", CHANNEL)], "nothing is there to unsubscribe"
    assert places.there.log == [("subscribe", CHANNEL)]
    places.there.answer()
    assert not places.gone(places.there), "nobody needs it"
    assert not places.bus.table.channels
    places.bus.close()
