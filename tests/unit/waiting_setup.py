"""A request that answers what it was told to, and a bus to sleep on whose time obeys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from redisson_py._answers import Busy, Wakes
from redisson_py._commands.wakes import lock_wakes
from redisson_py._engine.waiting import Sleeper, Turn
from tests.unit.fakes import FakeClock

Outcome = str | Busy
Reply = Outcome | BaseException | asyncio.Event
YES = "yes"
BUSY = Busy(retry_in=30.0)


class FakeRequest:
    """Answers what it was told to; an event is a reply that is still under way."""

    def __init__(self, *replies: Reply, turn: Turn | None = None) -> None:
        self.replies = list(replies)
        self.turn = turn
        self.listens_first = turn is not None
        self.channel = b"channel"
        self.wakes: Wakes = lock_wakes
        self.heard_busy_at = 0.0
        self.asked: list[float | None] = []
        self.undone = 0
        self.in_flight = asyncio.Event()
        self.on_ask: Callable[[], object] = lambda: None

    async def run(self, deadline: float | None) -> Outcome:
        self.asked.append(deadline)
        self.on_ask()
        reply = self.replies.pop(0)
        if isinstance(reply, asyncio.Event):
            self.in_flight.set()
            await reply.wait()
            return YES
        if isinstance(reply, BaseException):
            raise reply
        return reply

    def undo(self) -> None:
        self.undone += 1


class FakeSleeper:
    """A place to sleep. Time passes as long as it sleeps, unless it is woken."""

    def __init__(self, bus: FakeBus) -> None:
        self.bus = bus
        self.woken = False

    def arm(self) -> None:
        self.woken = False
        self.bus.log.append("arm")

    async def wait(self, seconds: float | None) -> None:
        assert seconds is not None, "every sleep is bounded"
        self.bus.sleeps.append(seconds)
        if self.woken:
            return
        self.bus.asleep.set()
        if self.bus.sleeps_for_ever:
            await asyncio.Event().wait()
        self.bus.clock.sleep(max(0.0, seconds - self.bus.early))

    async def wait_for_messages(self, beyond: int, seconds: float) -> bool:
        self.bus.log.append(f"turn beyond {beyond} for {seconds:.3f}")
        if self.bus.sleeps_for_ever:
            self.bus.asleep.set()
            await asyncio.Event().wait()
        return self.bus.messages > beyond


class FakeBus:
    """Gives out places, and notes who listens."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.log: list[str] = []
        self.sleeps: list[float] = []
        self.sleeps_for_ever = False
        self.messages = 0
        self.early = 0.0
        self.asleep = asyncio.Event()
        self.sleeper: FakeSleeper | None = None

    @contextmanager
    def listen(self, channel: bytes, wakes: Wakes) -> Iterator[Sleeper]:
        assert (channel, wakes) == (b"channel", lock_wakes)
        self.log.append("listen")
        self.sleeper = FakeSleeper(self)
        try:
            yield self.sleeper
        finally:
            self.log.append("leave")

    def wake(self) -> None:
        assert self.sleeper is not None
        self.sleeper.woken = True
