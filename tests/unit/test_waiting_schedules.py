"""No wake-up is lost, whatever the schedule: the wait loop itself against a model of the server.

The real `waiting.acquire` runs in tasks, over the real bus and the real table. The schedule also
says how many turns the event loop gets between two things, so a message can arrive in one read
with the answer before it, and a task can be cancelled when it is woken but has not run yet. Time
passes only by the schedule, and the safety poll never comes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, cast
from unittest.mock import Mock

import pytest

from redisson_py._answers import GRANTED, UNKNOWN_WAIT, Busy, Granted, Wakes
from redisson_py._engine import bus as bus_module
from redisson_py._engine import waiting
from redisson_py._engine.bus import LINGER_SECONDS, Bus, Sleeper
from redisson_py._engine.local_queue import YIELD_SECONDS
from redisson_py._engine.waiting import HeadStart, Request
from redisson_py._engine.wakeups import Table
from redisson_py._redis.commands.wakes import lock_wakes
from redisson_py._redis.subscriptions import Subscriptions
from tests.unit.fakes import FakeClock, random_schedule

CHANNEL = b"redisson_lock__channel:{k}"

Move = Callable[[], object]


class Asker(Protocol):
    """A task that wants the lock."""

    @property
    def state(self) -> str:
        """Where it is in its life; `asking` while an answer is due."""
        ...

    def answered(self, granted: bool) -> None:
        """Get the answer to a request."""
        ...


class Link:
    """One process's table and its stream: what is on its way in each direction."""

    def __init__(self, server: Server, table: Table) -> None:
        self.server = server
        self.table = table
        self.requests: deque[tuple[str, Asker | None]] = deque()
        self.unanswered: deque[tuple[str, Asker | None]] = deque()
        self.replies: deque[tuple[str, Asker | None, bool]] = deque()

    def send(self, word: str, asker: Asker | None) -> None:
        """Put a command on its way."""
        self.requests.append((word, asker))
        self.unanswered.append((word, asker))

    def receive(self) -> None:
        """Let the next reply or message arrive."""
        word, asker, granted = self.replies.popleft()
        if word == "message":
            self.table.rang(CHANNEL, 0)
            return
        self.unanswered.popleft()
        if word == "ask" and asker is not None:
            asker.answered(granted)

    def reconnect(self) -> None:
        """Lose all that is under way, subscribe again, wake everybody, repeat what counts."""
        again = [(w, who) for w, who in self.unanswered if w in ("ask", "release")]
        for way in (self.requests, self.replies, self.unanswered):
            way.clear()
        self.server.subscribers.discard(self)
        self.resubscribe()
        for word, asker in again:
            if word == "release" or (asker is not None and asker.state == "asking"):
                self.send(word, asker)

    def resubscribe(self) -> None:
        """Do what the table's user does about a new connection."""
        for _ in self.table.channels:
            self.send("subscribe", None)
        self.table.wake_all()


class Server:
    """A lock and the processes told of its releases."""

    def __init__(self) -> None:
        self.subscribers: set[Link] = set()
        self.holder: Asker | None = None

    def execute(self, link: Link) -> None:
        """Execute the next command of a stream."""
        word, asker = link.requests.popleft()
        granted = False
        if word == "subscribe":
            self.subscribers.add(link)
        elif word == "unsubscribe":
            self.subscribers.discard(link)
        elif word == "ask":
            self.holder = self.holder or asker
            granted = self.holder is asker
        elif self.holder is asker:
            self.holder = None
            for other in self.subscribers:
                other.replies.append(("message", None, False))
        link.replies.append((word, asker, granted))


class NotingBus(Bus):
    """Also knows who sits where."""

    def __init__(self, table: Table, bell: Subscriptions) -> None:
        super().__init__(table, bell)
        self.sitting: dict[asyncio.Task[object] | None, Sleeper] = {}

    @contextmanager
    def listen(
        self,
        channel: bytes,
        wakes: Wakes,
        sleeper: Sleeper | None = None,
        *,
        beside: bytes | None = None,
    ) -> Generator[Sleeper]:
        with super().listen(channel, wakes, sleeper, beside=beside) as seated:
            self.sitting[asyncio.current_task()] = seated
            yield seated


class Client(Link):
    """One process: the real bus on the model's stream."""

    def __init__(self, server: Server, table: Table) -> None:
        super().__init__(server, table)
        self.bell = Subscriptions(table)
        self.grants = self
        self.bell.attach(cast("Any", self), Mock())  # router and stream in one
        self.bus = NotingBus(table, self.bell)
        self.askers: list[Task] = []

    def resubscribe(self) -> None:
        self.bell.moved(lambda channel: True)

    def stream_for(self, channel: bytes) -> Client:
        return self

    def subscribe(self, channel: bytes) -> None:
        self.send("subscribe", None)

    def unsubscribe(self, channel: bytes) -> None:
        self.send("unsubscribe", None)

    def join(self, clock: FakeClock | None) -> None:
        """A task comes; with a clock, it lets another process have its turn before it asks."""
        head_start = (
            None
            if clock is None
            else HeadStart(
                self.bus.own_message(CHANNEL), clock.time() + YIELD_SECONDS, YIELD_SECONDS
            )
        )
        self.askers.append(Task(self, head_start))

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

    def __init__(self, client: Client, head_start: HeadStart | None) -> None:
        self.state = "new"
        self.heard_busy_at = 0.0
        self.head_start = head_start
        self.listens_first = head_start is not None
        self._client = client
        self._answer: asyncio.Future[Granted | Busy] | None = None
        request: Request[Granted] = self
        self.task: asyncio.Task[object] = asyncio.create_task(
            waiting.acquire(request, client.bus, None)
        )

    @property
    def yields(self) -> bool:
        """Whether it yields to another process now."""
        return self.head_start is not None and self.state == "new" and not self.task.done()

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

    def __init__(self, processes: int, clock: FakeClock) -> None:
        self.clock = clock
        self.server = Server()
        self.clients = [Client(self.server, Table()) for _ in range(processes)]

    def moves(self) -> list[Move]:
        """Return what can happen now, the likelier things more than once."""
        yielding = any(asker.yields for client in self.clients for asker in client.askers)
        moves: list[Move] = [partial(self.clock.sleep, YIELD_SECONDS)] if yielding else []
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
            moves += [partial(self.clock.sleep, LINGER_SECONDS)] if client.table.lingering else []
        return moves

    async def settle(self) -> None:
        """Let all that is under way arrive, and the tasks run."""
        await iterations(4)
        while any(client.requests or client.replies for client in self.clients):
            for client in self.clients:
                while client.requests:
                    self.server.execute(client)
                while client.replies:
                    client.receive()
            await iterations(4)

    async def is_well(self) -> bool:
        """Return whether nobody waits for a free lock, when all has settled."""
        await self.settle()
        # Another process's turn ends by itself.
        self.clock.sleep(YIELD_SECONDS)
        await self.settle()
        left = [asker for client in self.clients for asker in client.waiting()]
        return self.server.holder is not None or not left

    async def end(self) -> None:
        """Send everybody away."""
        left = [asker.task for client in self.clients for asker in client.waiting()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


async def iterations(count: int) -> None:
    """Let the event loop have some turns."""
    for _ in range(count):
        await asyncio.sleep(0)


async def run(schedule: list[int], clock: FakeClock) -> bool:
    """Return whether somebody is left waiting for a free lock."""
    # One alone as often as two: nobody else's release then makes good for a lost wake-up.
    world = World(1 + len(schedule) % 2, clock)
    try:
        for number in schedule:
            what, then = number % 1024, number // 1024 % 8
            moves = world.moves()
            moves[what % len(moves)]()
            if then < 3:
                await iterations(then)
            elif then < 6:
                await world.settle()
            elif not await world.is_well():
                return True
        return not await world.is_well()
    finally:
        await world.end()


def forgets(schedule: list[int]) -> bool:
    """Return whether somebody is left waiting, in this schedule, although the lock is free."""
    clock = FakeClock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting, "SAFETY_POLL_SECONDS", 1e9)
        patch.setattr(waiting, "loop_time", clock.time)
        patch.setattr(bus_module, "loop_time", clock.time)
        patch.setattr(bus_module, "call_later", clock.call_later)
        return asyncio.run(run(schedule, clock))


def test_hundreds_of_random_schedules_forget_nobody() -> None:
    assert [seed for seed in range(500) if forgets(random_schedule(seed, 100))] == []
