"""No wake-up is lost, whatever the schedule: the wait loop itself against a model of the server.

The real `waiting.acquire` runs in tasks, over the real bus and the real table. The schedule also
says how many turns the event loop gets between two things, so a message can arrive in one read
with the answer before it, and a task can be cancelled when it is woken but has not run yet. Time
passes only by the schedule, and the safety poll never comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial

import pytest
from hypothesis import given, settings

from redisson_py._answers import GRANTED, UNKNOWN_WAIT, Busy, Granted, Wakes
from redisson_py._commands.wakes import lock_wakes
from redisson_py._engine import bus as bus_module
from redisson_py._engine import waiting
from redisson_py._engine.bus import LINGER, Bus, Sleeper
from redisson_py._engine.local_queue import YIELD_WAIT
from redisson_py._engine.waiting import Request, Turn
from redisson_py._engine.wakeups import Channel, Seat, Table
from tests.unit.wakeup_model import CHANNEL, SCHEDULES, Link, Server, random_schedule

Move = Callable[[], object]


class Clock:
    """The event loop's time and timers, which go when the schedule says so."""

    def __init__(self) -> None:
        self.present = 0.0
        self._timers: dict[Alarm, None] = {}

    def time(self) -> float:
        return self.present

    def call_later(self, delay: float, callback: Callable[[], object]) -> Alarm:
        alarm = Alarm(self._timers, self.present + delay, callback)
        self._timers[alarm] = None
        return alarm

    def go_on(self, seconds: float) -> None:
        self.present += seconds
        for alarm in [alarm for alarm in self._timers if alarm.moment <= self.present]:
            alarm.cancel()
            alarm.callback()


class Alarm:
    """A timer."""

    def __init__(
        self, timers: dict[Alarm, None], moment: float, callback: Callable[[], object]
    ) -> None:
        self._timers = timers
        self.moment = moment
        self.callback = callback

    def cancel(self) -> None:
        self._timers.pop(self, None)


class NotingBus(Bus):
    """Also knows who sits where."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self.sitting: dict[asyncio.Task[object] | None, Sleeper] = {}

    @contextmanager
    def listen(
        self, channel: bytes, wakes: Wakes, sleeper: Sleeper | None = None
    ) -> Generator[Sleeper]:
        with super().listen(channel, wakes, sleeper) as seated:
            self.sitting[asyncio.current_task()] = seated
            yield seated


class Client(Link):
    """One process: the real bus on the model's stream."""

    def __init__(self, server: Server, table: Table) -> None:
        super().__init__(server, table)
        self.bus = NotingBus(table)
        self.bus.attach(self)  # sources and stream in one
        self.askers: list[Task] = []

    def resubscribe(self) -> None:
        self.bus.resubscribe(lambda channel: True)

    def stream_for(self, channel: bytes) -> Client:
        return self

    def subscribe(self, channel: bytes) -> None:
        self.send("subscribe", None)

    def unsubscribe(self, channel: bytes) -> None:
        self.send("unsubscribe", None)

    def join(self, clock: Clock | None) -> None:
        """A task comes; with a clock, it lets another process have its turn before it asks."""
        turn = (
            None
            if clock is None
            else Turn(self.bus.own_message(CHANNEL), clock.time() + YIELD_WAIT, YIELD_WAIT)
        )
        self.askers.append(Task(self, turn))

    def has_woken(self, asker: Task) -> bool:
        sleeper = self.bus.sitting.get(asker.task)
        return sleeper is not None and sleeper.seat is not None and sleeper.seat.woken

    def waiting(self) -> list[Task]:
        return [asker for asker in self.askers if not asker.task.done()]

    def holding(self) -> list[Task]:
        return [each for each in self.askers if each.state == "holding" and each.task.done()]


class Task:
    """A task that waits for the lock, and what it asks."""

    channel = CHANNEL
    wakes: Wakes = staticmethod(lock_wakes)

    def __init__(self, client: Client, turn: Turn | None) -> None:
        self.state = "new"
        self.heard_busy_at = 0.0
        self.turn = turn
        self.listens_first = turn is not None
        self._client = client
        self._answer: asyncio.Future[Granted | Busy] | None = None
        request: Request[Granted] = self
        self.task: asyncio.Task[object] = asyncio.create_task(
            waiting.acquire(request, client.bus, None)
        )

    @property
    def yields(self) -> bool:
        """Whether it yields to another process now."""
        return self.turn is not None and self.state == "new" and not self.task.done()

    async def run(self, deadline: float | None) -> Granted | Busy:
        self.state = "asking"
        self._answer = asyncio.get_running_loop().create_future()
        self._client.send("ask", self)
        outcome = await self._answer
        self.state = "holding" if isinstance(outcome, Granted) else "asleep"
        return outcome

    def answered(self, granted: bool) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(GRANTED if granted else UNKNOWN_WAIT)

    def undo(self) -> None:
        self.release()

    def release(self) -> None:
        self.state = "gone"
        self._client.send("release", self)


class World:
    """Processes of one server, and everything that can happen next."""

    def __init__(self, processes: int, new_table: Callable[[], Table], clock: Clock) -> None:
        self.clock = clock
        self.server = Server()
        self.clients = [Client(self.server, new_table()) for _ in range(processes)]

    def moves(self) -> list[Move]:
        """Return what can happen now, the likelier things more than once."""
        yielding = any(asker.yields for client in self.clients for asker in client.askers)
        moves: list[Move] = [partial(self.clock.go_on, YIELD_WAIT)] if yielding else []
        for client in self.clients:
            askers = client.waiting()
            if len(askers) < 3:
                moves += [partial(client.join, None), partial(client.join, self.clock)]
            moves += [partial(self.server.execute, client)] * (3 if client.requests else 0)
            moves += [client.receive] * (3 if client.replies else 0)
            delicate = [asker for asker in askers if asker.yields or client.has_woken(asker)]
            moves += [asker.task.cancel for asker in askers + delicate * 3]
            moves += [asker.release for asker in client.holding()]
            moves += [client.reconnect] if client.table.channels else []
            moves += [partial(self.clock.go_on, LINGER)] if client.table.lingering else []
        return moves

    async def settle(self) -> None:
        """Let all that is under way arrive, and the tasks run."""
        await turns(4)
        while any(client.requests or client.replies for client in self.clients):
            for client in self.clients:
                while client.requests:
                    self.server.execute(client)
                while client.replies:
                    client.receive()
            await turns(4)

    async def is_well(self) -> bool:
        """Return whether nobody waits for a free lock, when all has settled."""
        await self.settle()
        # Another process's turn ends by itself.
        self.clock.go_on(YIELD_WAIT)
        await self.settle()
        left = [asker for client in self.clients for asker in client.waiting()]
        return self.server.holder is not None or not left

    async def end(self) -> None:
        """Send everybody away."""
        left = [asker.task for client in self.clients for asker in client.waiting()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


async def turns(count: int) -> None:
    """Let the event loop have some turns."""
    for _ in range(count):
        await asyncio.sleep(0)


async def run(schedule: list[int], new_table: Callable[[], Table], clock: Clock) -> bool:
    """Return whether somebody is left waiting for a free lock."""
    # One alone as often as two: nobody else's release then makes good for a lost wake-up.
    world = World(1 + len(schedule) % 2, new_table, clock)
    try:
        for number in schedule:
            what, then = number % 1024, number // 1024 % 8
            moves = world.moves()
            moves[what % len(moves)]()
            if then < 3:
                await turns(then)
            elif then < 6:
                await world.settle()
            elif not await world.is_well():
                return True
        return not await world.is_well()
    finally:
        await world.end()


def forgets(schedule: list[int], new_table: Callable[[], Table] = Table) -> bool:
    """Return whether somebody is left waiting, in this schedule, although the lock is free."""
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting, "SAFETY_POLL", 1e9)
        patch.setattr(waiting, "loop_time", clock.time)
        patch.setattr(bus_module, "loop_time", clock.time)
        patch.setattr(bus_module, "call_later", clock.call_later)
        return asyncio.run(run(schedule, new_table, clock))


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


async def arm_after_asking(
    request: Request[Granted], sleeper: waiting.Sleeper, deadline: float | None, _: object
) -> Granted:
    """Sabotaged `_keep_asking`: what came between the request and its answer is forgotten."""
    while True:
        outcome = await request.run(deadline)
        if isinstance(outcome, Granted):
            return outcome
        sleeper.arm()
        await sleeper.wait(None)


async def keep_the_wake_up(sleeper: Sleeper, beyond: int, seconds: float) -> None:
    """Sabotaged `wait_for_messages`: a sleeper that leaves keeps its wake-up."""
    seat = sleeper.seat
    assert seat is not None
    try:
        await wait_for_messages(sleeper, beyond, seconds)
    except BaseException:
        seat.woken = False
        raise


wait_for_messages = Sleeper.wait_for_messages


@given(schedule=SCHEDULES)
@settings(max_examples=200, deadline=None)
def test_every_waiter_is_served_without_the_safety_poll(schedule: list[int]) -> None:
    assert not forgets(schedule)


def test_hundreds_of_random_schedules_forget_nobody() -> None:
    assert [seed for seed in range(300) if forgets(random_schedule(seed))] == []


@pytest.mark.parametrize("sabotaged", SABOTAGED)
def test_the_schedules_catch_a_sabotaged_table(sabotaged: type[Table]) -> None:
    assert any(forgets(random_schedule(seed), sabotaged) for seed in range(300))


@pytest.mark.parametrize(
    ("owner", "name", "sabotaged"),
    [
        (waiting, "_keep_asking", arm_after_asking),
        (Sleeper, "wait_for_messages", keep_the_wake_up),
    ],
)
def test_the_schedules_catch_a_sabotaged_wait(
    owner: object, name: str, sabotaged: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, sabotaged)
    assert any(forgets(random_schedule(seed)) for seed in range(300))
