"""Tasks of one client that fight for a few locks, and a process full of them.

Run as `python -m tests.soak.crew URL TURN`. Prints `ready`, then does what the lines of its
input say: `go`, `rest` (answered with the number of sections so far), `end` (with a report).
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from redisson_py import FencedLock, Lease, Redisson, RLock
from redisson_py._engine import bus, client_queue, request, waiting
from redisson_py._loop import loop_time
from redisson_py._time import PUNCTUAL, now
from tests.support.waiting import until

# Under a quiet name a crew has one patient task only: nobody comes after it in its line, or
# asks in its stead, if its wake-up is lost.
BUSY_NAMES = ("busy 1", "busy 2")
QUIET_NAMES = ("quiet 1", "quiet 2", "quiet 3", "quiet 4")
CLIENT_NAME = "under-fire"
FICKLE = "fickle"

Lock = RLock | FencedLock


@dataclass
class Report:
    """What crews did, in this process and in others.

    Attributes:
        sections: When each section under a name began, and when its body was over.
        given_up: How often a fickle task left empty-handed.
        overslept: How many waits the safety poll ended.
        connections: How many were opened.
        losses: Leases lost.
    """

    sections: dict[str, list[tuple[float, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    given_up: int = 0
    overslept: int = 0
    connections: int = 0
    losses: int = 0

    def add(self, other: Report) -> None:
        """Add what others did."""
        for name, sections in other.sections.items():
            self.sections[name] += sections
        self.given_up += other.given_up
        self.overslept += other.overslept
        self.connections += other.connections
        self.losses += other.losses

    def hand_offs(self) -> list[float]:
        """Return the time from the end of each body to the beginning of the next."""
        return [
            next_one[0] - this_one[1]
            for sections in self.sections.values()
            for this_one, next_one in pairwise(sorted(map(tuple, sections)))
        ]


class Crew:
    """For each lock some patient tasks and a fickle one, all resting until `go`.

    Plain and fenced locks stand in two lines, so the crew has two seats on each channel, and
    one of them may leave with a wake-up that the other needs. (Mixed on one name they exclude
    each other; only the fencing tokens would be worth nothing.)
    """

    def __init__(self, client: Redisson) -> None:
        self.report = Report()
        self._client = client
        self._gate = asyncio.Event()
        self._busy = 0
        self._over = False

    async def work(self) -> None:
        """Work whenever the gate is open, until `end`."""
        async with asyncio.TaskGroup() as group:
            for name in (*BUSY_NAMES, *QUIET_NAMES):
                lock, fenced = self._client.get_lock(name), self._client.get_fenced_lock(name)
                group.create_task(self._repeat(self._try_awhile, lock))
                group.create_task(self._repeat(self._persist, fenced))
                if name in BUSY_NAMES:
                    group.create_task(self._repeat(self._persist, lock))
                    group.create_task(self._repeat(self._persist, lock))

    def go(self) -> None:
        """Let all work."""
        self._gate.set()

    async def rest(self) -> None:
        """Begin nothing new; return when each task has ended what it had begun.

        Who waits for a lock now must get it by the releases of those before him: nobody comes
        later whose release could make good for a lost wake-up.
        """
        self._gate.clear()
        await until(lambda: self._busy == 0, seconds=30)

    @property
    def finished(self) -> int:
        """How many sections there were so far."""
        return sum(map(len, self.report.sections.values()))

    def end(self) -> None:
        """Have the resting tasks end."""
        self._over = True
        self._gate.set()
        statistics = self._client.statistics()
        self.report.connections += statistics.connections
        self.report.losses += statistics.losses

    async def _repeat(self, work: Callable[[Lock], Awaitable[None]], lock: Lock) -> None:
        while True:
            await self._gate.wait()
            if self._over:
                return
            self._busy += 1
            await work(lock)
            self._busy -= 1

    async def _persist(self, lock: Lock) -> None:
        await self._section(await lock.acquire())

    async def _try_awhile(self, lock: Lock) -> None:
        trial = asyncio.create_task(lock.acquire(), name=FICKLE)
        await asyncio.wait([trial], timeout=random.uniform(0, 0.05))
        trial.cancel()
        await asyncio.wait([trial])
        if trial.cancelled():
            self.report.given_up += 1
        else:
            await self._section(trial.result())

    async def _section(self, lease: Lease) -> None:
        entered = now()
        # Without a pause now and then, most of the time would go by in passing.
        await asyncio.sleep(random.choice((0, 0, 0.001)))
        self.report.sections[str(lease.name)].append((entered, now()))
        await lease.release()


@contextmanager
def counting_overslept(report: Report) -> Iterator[None]:
    """Count, in this process, the waits that ended by the safety poll and not by a wake-up.

    Of the wake-ups that fickle tasks get, every other finds them about to be cancelled.
    """

    class Counts(bus.Sleeper):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self._task = asyncio.current_task()

        def rouse(self) -> None:
            super().rouse()
            if self._task is not None and self._task.get_name() == FICKLE and random.random() < 0.5:
                self._task.cancel()

        async def wait(self, seconds: float | None) -> None:
            began = loop_time()
            await super().wait(seconds)
            assert self.seat is not None
            if seconds is None or seconds < waiting.SAFETY_POLL:
                # Shorter waits are those that leave another process its turn.
                return
            # The first two of a queue of clients look before.
            if not self.seat.woken and loop_time() >= began + seconds - PUNCTUAL:
                report.overslept += 1

    class Sleeper(Counts, bus.Sleeper):
        pass

    class QueueSleeper(Counts, client_queue.QueueSleeper):
        pass

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bus, "Sleeper", Sleeper)
        patch.setattr(request, "QueueSleeper", QueueSleeper)
        yield


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


async def main(url: str, turn: float) -> None:
    async with Redisson.from_url(url, turn=turn, client_name=CLIENT_NAME) as client:
        await client.ping()
        crew = Crew(client)
        with counting_overslept(crew.report):
            working = asyncio.create_task(crew.work())
            say("ready")
            while (order := await asyncio.to_thread(sys.stdin.readline)) == "go\n":
                crew.go()
                await asyncio.to_thread(sys.stdin.readline)
                await crew.rest()
                say(str(crew.finished))
            assert order == "end\n"
            crew.end()
            await working
    say(json.dumps(vars(crew.report)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
