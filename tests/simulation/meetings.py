"""What tasks do with latches and barriers in a universe, and the rules of both."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING

from redisson_py import (
    AcquireTimeoutError,
    BrokenBarrierError,
    ConnectionLostError,
    CountDownLatch,
    CyclicBarrier,
)
from tests.lifecycle.actors import Order
from tests.simulation.kinds import PARTIES

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.universe import Universe


class Meetings:
    """What is known of a latch or a barrier.

    Attributes:
        total: What the latch counts down from.
        begun: Calls of `count_down`, or arrivals, that have begun.
        confirmed: Calls of `count_down` that were answered.
        positions: How often a party was released with each position.
    """

    def __init__(self, universe: Universe) -> None:
        self._universe = universe
        self.total = max(1, sum(universe.plan.tasks) * universe.plan.laps // 3)
        self.begun = 0
        self.confirmed = 0
        self.positions: Counter[int] = Counter()
        self.data_lost = False

    def set_latch(self) -> None:
        """Set the count of the latch, if it is one."""
        if self._universe.plan.kind != "latch":
            return
        count = str(self.total).encode()
        self._universe.nodes[0].execute_late([(b"SET", b"latch", count)])

    def check(self) -> None:
        """Fail unless the latch counts each call once."""
        if self._universe.plan.kind != "latch" or self.data_lost:
            return
        left = int(self._universe.nodes[0].server.string(b"latch") or 0)
        least, most = max(0, self.total - self.begun), max(0, self.total - self.confirmed)
        assert least <= left <= most, f"{left} are left of {self.total}, not {least} to {most}"

    def opened(self) -> None:
        """A waiter at the latch went on."""
        enough = self.begun >= self.total or self.data_lost
        assert enough, f"open after {self.begun} of {self.total}"

    def released(self, position: int) -> None:
        """A party at the barrier went on: each of its rounds has had all its parties."""
        assert 0 <= position < PARTIES, position
        self.positions[position] += 1
        rounds = self.positions[position]
        enough = rounds * PARTIES <= self.begun or self.data_lost
        assert enough, f"{rounds} rounds with {self.begun} arrivals of {PARTIES} parties each"


class MeetingWorker:
    """A task that counts down and waits for a latch, or that waits at a barrier."""

    def __init__(self, process: Process, name: str, chance: random.Random) -> None:
        self._process = process
        self._universe = process.universe
        self._meetings = process.universe.meetings
        self.name = name
        self._chance = chance

    async def run(self) -> None:
        """Do all laps."""
        plan = self._universe.plan
        for _ in range(plan.laps):
            await asyncio.sleep(plan.lease_time * self._chance.random())
            cut = None
            if self._chance.random() < plan.cancels:
                cut = self._chance.randint(1, 12), self._chance.random() < 0.5
            order = Order(self._lap, cut)
            task = asyncio.current_task()
            assert task is not None
            await order.carry_out(task)
            if order.error is not None:
                self._universe.note(self.name, "got", type(order.error).__name__)
                self._judge(order, order.error)

    def _judge(self, order: Order, error: BaseException) -> None:
        """Fail unless a lap ended as it may."""
        if order.thrown and isinstance(error, asyncio.CancelledError):
            return
        if isinstance(error, AcquireTimeoutError | BrokenBarrierError):
            return
        if isinstance(error, ConnectionLostError):
            # A timeout may be shorter than it takes to connect.
            return
        raise error

    async def tidy(self) -> None:
        """Open the latch, if too few have counted down: nobody may wait for ever."""
        target = self._process.targets[""]
        while isinstance(target, CountDownLatch) and await target.count():
            await self._count_down(target)

    async def _lap(self) -> None:
        target = self._process.targets[""]
        timeout = self._universe.plan.lease_time * self._chance.choice([0.1, 1.0, 4.0])
        if isinstance(target, CyclicBarrier):
            self._universe.note(self.name, "arrives")
            self._meetings.begun += 1
            position = await target.wait(timeout)
            self._universe.note(self.name, "is released as", position)
            self._universe.grants += 1
            self._meetings.released(position)
        elif self._chance.random() < 0.6:
            await self._count_down(target)
        else:
            await target.wait(timeout if self._chance.random() < 0.5 else None)
            self._universe.note(self.name, "goes on")
            self._meetings.opened()

    async def _count_down(self, latch: CountDownLatch) -> None:
        self._universe.note(self.name, "counts down")
        self._meetings.begun += 1
        await latch.count_down()
        self._universe.grants += 1
        self._meetings.confirmed += 1
