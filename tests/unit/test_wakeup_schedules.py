"""No wake-up is lost, whatever the schedule: the table against a model of the server.

No timer exists in the model: neither the safety poll nor the end of a lease helps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Literal

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis.errors import NoSuchExample

from redisson_py._commands.wakes import lock_wakes
from redisson_py._engine.wakeups import Channel, Seat, Table
from tests.unit.wakeup_model import CHANNEL, SCHEDULES, Link, Server, random_schedule


class Waiter:
    """A task in the loop of `waiting`: asks, sleeps, is woken, leaves."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.state: Literal["asking", "asleep", "holding", "gone"] = "asking"
        self.seat, subscribe = client.table.join(CHANNEL, lock_wakes)
        if subscribe:
            client.send("subscribe", None)
        self.ask()

    def ask(self) -> None:
        self.state = "asking"
        self.seat.arm()
        self.client.send("ask", self)

    def answered(self, granted: bool) -> None:
        if self.state != "asking":
            return
        if granted:
            self.state = "holding"
            self.client.leave(self.seat)
        else:
            self.state = "asleep"

    def give_up(self) -> None:
        """Be cancelled: undo a request under way, leave the seat."""
        if self.state == "asking":
            self.client.send("release", self)
        self.state = "gone"
        self.client.leave(self.seat)

    def release(self) -> None:
        self.state = "gone"
        self.client.send("release", self)


class Client(Link):
    """One process, with its waiters."""

    def __init__(self, server: Server, table: Table) -> None:
        super().__init__(server, table)
        self.waiters: list[Waiter] = []
        self.moments = 0

    def join(self) -> None:
        self.waiters.append(Waiter(self))

    def leave(self, seat: Seat) -> None:
        self.moments += 1
        self.table.leave(seat, float(self.moments))

    def in_state(self, *states: str) -> list[Waiter]:
        return [waiter for waiter in self.waiters if waiter.state in states]

    def unsubscribe_idle(self) -> None:
        for _ in self.table.expired(float(self.moments)):
            self.send("unsubscribe", None)


Move = Callable[[], object]


class World:
    """Two clients of one server, and everything that can happen next."""

    def __init__(self, new_table: Callable[[], Table]) -> None:
        self.server = Server()
        self.clients = [Client(self.server, new_table()) for _ in range(2)]
        self.forgot_somebody = False

    def possible(self) -> list[Move]:
        """Return what can happen now, the likelier things more than once."""
        moves: list[Move] = [self.deliver]
        for client in self.clients:
            waiting = client.in_state("asking", "asleep")
            woken = [waiter for waiter in waiting if waiter.seat.woken]
            if len(waiting) < 3:
                moves.append(client.join)
            if client.requests:
                moves += [partial(self.server.execute, client)] * 3
            if client.replies:
                moves += [client.receive] * 3
            moves += [waiter.ask for waiter in woken if waiter.state == "asleep"]
            moves += [waiter.give_up for waiter in (waiting[0:1] + woken)]
            moves += [waiter.release for waiter in client.in_state("holding")]
            moves += [client.unsubscribe_idle] if client.table.lingering else []
            moves += [client.reconnect] if client.unanswered else []
        return moves

    def deliver(self) -> None:
        """Let every request and reply arrive; now, if the lock is free, a sleeper is woken."""
        while any(client.requests or client.replies for client in self.clients):
            for client in self.clients:
                while client.requests:
                    self.server.execute(client)
                while client.replies:
                    client.receive()
        sleepers = [waiter for client in self.clients for waiter in client.in_state("asleep")]
        if self.server.holder is None and sleepers:
            self.forgot_somebody |= not any(waiter.seat.woken for waiter in sleepers)

    def serve(self) -> None:
        """Let all who wait get the lock, one after the other, without any timer."""
        self.deliver()
        while progress := [
            waiter.ask if waiter.state == "asleep" else waiter.release
            for client in self.clients
            for waiter in client.in_state("asleep", "holding")
            if waiter.state == "holding" or waiter.seat.woken
        ]:
            progress[0]()
            self.deliver()
        left = [waiter for client in self.clients for waiter in client.in_state("asleep", "asking")]
        self.forgot_somebody |= bool(left)


def forgets(schedule: Iterable[int], new_table: Callable[[], Table] = Table) -> bool:
    """Return whether a waiter is left asleep, in this schedule, while the lock is free."""
    world = World(new_table)
    for number in schedule:
        moves = world.possible()
        moves[number % len(moves)]()
    world.serve()
    return world.forgot_somebody


class KeepsWakeUps(Table):
    """Sabotaged: a woken seat that leaves takes its wake-up with it."""

    def leave(self, seat: Seat, now: float) -> None:
        seat.woken = False
        super().leave(seat, now)


class SleepsThroughReconnections(Table):
    """Sabotaged: a new connection wakes nobody."""

    def wake(self, channel: Channel) -> None:
        pass


class DropsBusyChannels(Table):
    """Sabotaged: a channel is dropped although somebody has taken a seat again."""

    def join(
        self,
        name: bytes,
        wakes: Callable[[int], int],
        on_wake: Callable[[], object] = lambda: None,
    ) -> tuple[Seat, bool]:
        known = self.channel(name)
        empty_since = None if known is None else known.empty_since
        seat, subscribe = super().join(name, wakes, on_wake)
        seat.channel.empty_since = empty_since
        return seat, subscribe


SABOTAGED = [KeepsWakeUps, SleepsThroughReconnections, DropsBusyChannels]


@given(schedule=SCHEDULES)
@settings(max_examples=300, deadline=None)
def test_whenever_the_lock_is_free_a_waiter_is_woken_or_asks(schedule: list[int]) -> None:
    assert not forgets(schedule)


def test_a_thousand_random_schedules_forget_nobody() -> None:
    assert [seed for seed in range(1000) if forgets(random_schedule(seed))] == []


@pytest.mark.parametrize("sabotaged", SABOTAGED)
def test_the_random_schedules_catch_a_sabotaged_table(sabotaged: type[Table]) -> None:
    assert any(forgets(random_schedule(seed), sabotaged) for seed in range(1000))


def test_hypothesis_finds_the_wake_up_that_is_not_passed_on() -> None:
    unshrunk = (Phase.generate,)
    try:
        find(
            SCHEDULES,
            lambda schedule: forgets(schedule, KeepsWakeUps),
            settings=settings(max_examples=5000, derandomize=True, database=None, phases=unshrunk),
        )
    except NoSuchExample:
        pytest.fail("a lost wake-up went unnoticed")
