"""Stand-ins for tests without a server: a clock that obeys, ownerships that only take notes."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
import weakref
from collections.abc import Callable
from typing import Any, cast

import pytest

from redisson_py._engine import hold as hold_module
from redisson_py._engine.hold import Hold, Lease
from redisson_py._listener import Teller
from redisson_py._options import OnLost
from redisson_py._owner import Owners
from redisson_py._redis.scripts import source
from redisson_py._redis.scripts.source import Script
from redisson_py._statistics import Counts

LEASE = 30.0
RENEW = source.load("lock.renew")


class Alarm:
    """What `FakeClock.call_later` returns: a timer that can be taken back."""

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    """Time that passes only when a test says so, and the timers that go off meanwhile."""

    def __init__(self, start: float = 1000.0) -> None:
        self.present = start
        self._alarms: list[tuple[float, int, Alarm]] = []
        self._numbers = itertools.count()

    def now(self) -> float:
        return self.present

    def time(self) -> float:
        """The same, under the name that event loops have for it."""
        return self.present

    def call_later(self, delay: float, callback: Callable[[], object]) -> Alarm:
        assert delay >= 0
        alarm = Alarm(callback)
        heapq.heappush(self._alarms, (self.present + delay, next(self._numbers), alarm))
        return alarm

    @property
    def pending(self) -> list[float]:
        """When the timers go off that nobody took back."""
        return sorted(moment for moment, _, alarm in self._alarms if not alarm.cancelled)

    def sleep(self, seconds: float) -> None:
        """Let time pass, and have every timer go off at its moment."""
        end = self.present + seconds
        while self._alarms and self._alarms[0][0] <= end:
            moment, _, alarm = heapq.heappop(self._alarms)
            if not alarm.cancelled:
                self.present = max(self.present, moment)
                alarm.callback()
        self.present = end

    def block(self, seconds: float) -> None:
        """Let time pass while the event loop is stuck: the timers go off at the end."""
        self.present += seconds
        self.sleep(0)

    def control_leases(self, patch: pytest.MonkeyPatch) -> None:
        """Make this the clock of holds, leases, queues and watchdogs."""
        for module in ("hold", "local_queue", "ownership", "watchdog"):
            patch.setattr(f"redisson_py._engine.{module}.now", self.now)
        patch.setattr("redisson_py._engine.watchdog.call_later", self.call_later)


class FakeTask:
    """A task as far as a hold cares."""

    def __init__(self) -> None:
        self.ended = False

    def done(self) -> bool:
        return self.ended


#: Holds refer to tasks weakly; those of fakes live as long as the test run.
_tasks: list[FakeTask] = []


def fake_task() -> Any:
    """Return a task that goes on for ever, or until a test sets `ended`."""
    task = FakeTask()
    _tasks.append(task)
    return task


class FakeWatchdog:
    """A watchdog that knows what is held, and notes what it is told."""

    def __init__(self) -> None:
        self.holds: dict[Hold, None] = {}
        self.log: list[str] = []

    def add(self, hold: Hold, due: float) -> None:
        self.holds[hold] = None
        hold.bucket = {} if hold.asked_after else None

    def remove(self, hold: Hold) -> None:
        self.holds.pop(hold, None)
        hold.bucket = hold.ends_row = None

    def reconsider(self, hold: Hold) -> None:
        self.log.append("reconsider")
        hold.bucket = {} if hold.asked_after else None

    def watch_end(self, hold: Hold) -> None:
        self.log.append(f"mind end {hold.earliest_end:g}")

    def lose(self, hold: Hold, reason: Any) -> None:
        hold.lose(reason)


class FakeOptions:
    """Options as far as holds care."""

    def __init__(self) -> None:
        self.lease_time = LEASE
        self.command_timeout = 10.0
        self.on_lost: OnLost = "cancel"


class FakeContext:
    """The parts of a client that holds use."""

    def __init__(self, watchdog: Any = None) -> None:
        self.watchdog = watchdog or FakeWatchdog()
        self.owners = Owners()
        self.options = FakeOptions()
        self.counts = Counts()
        self.teller: Teller | None = None

    @property
    def losses(self) -> int:
        return sum(self.counts.losses.values())


class FakeCommands:
    """What the watchdog asks a kind of lock."""

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.owner = bytes.decode
        self.renew_script: Script = RENEW
        self.shares_lease = False

    @property
    def renewal_keys(self) -> tuple[bytes, ...]:
        return (self.key,)

    @property
    def renewal_values(self) -> dict[str, int]:
        return {}


class FakeOwnership:
    """A lock that takes notes instead of talking to Redis."""

    def __init__(
        self, name: str = "k", kind: str = "lock", context: FakeContext | None = None
    ) -> None:
        self.name = name
        self.kind = kind
        self.context = context or FakeContext()
        self.commands = FakeCommands(name.encode())
        self.queue: Any = None
        self.ended: list[Hold] = []
        self.undone: list[Hold] = []

    @property
    def on_lost(self) -> OnLost:
        return self.context.options.on_lost

    def begin(self, loop: object, task: object) -> None:
        return None

    def begin_release(self, lease: Lease, future: object = None) -> None:
        hold = lease._hold
        assert isinstance(hold, Hold)
        was_held = hold.state == "held"
        lost = lease._state == "lost"
        hold.settle(lease)
        if not was_held or lost:
            raise lease._loss()
        if not hold.count:
            hold.end("released")

    async def extend(self, lease: Lease, lease_time: float) -> None:
        raise NotImplementedError

    def warn_of_long_waits(self, hold: Hold, present: float, long: float) -> None:
        """Nobody waits."""

    def lower(self, hold: Hold) -> None:
        """Redis is told."""

    def set_needed_lease(self, hold: Hold) -> None:
        """Redis is told."""

    def lost(self, hold: Hold) -> None:
        self.ended.append(hold)

    def undo_late(self, hold: Hold) -> None:
        self.undone.append(hold)

    def forget(self, hold: Hold) -> None:
        """No task has it now."""

    def give_back(self, hold: Hold) -> None:
        """A task that was passed it does not want it."""


def make_hold(
    ownership: FakeOwnership | None = None,
    *,
    sent_at: float | None = None,
    lease_time: float = LEASE,
    owner: str = "c:1",
    renewed: bool = True,
    task: asyncio.Task[Any] | FakeTask | None = None,
    **options: Any,
) -> Hold:
    """Return a hold on something that takes notes, granted by a request sent just now."""
    return Hold(
        cast("Any", ownership or FakeOwnership()),
        owner.encode(),
        cast("Any", weakref.ref(task or fake_task())),
        vars(hold_module)["now"]() if sent_at is None else sent_at,
        lease_time,
        renewed,
        **options,
    )


def make_lease(hold: Hold, *, limit: float | None = None) -> Lease:
    """Return a lease of a hold, and have the hold know it."""
    lease = Lease(hold, limit, None, hold.granted_at)
    hold.add_lease(lease)
    return lease


def random_schedule(seed: int, most: int) -> list[int]:
    """Return numbers that say which of the possible moves comes next, the same for a seed."""
    dice = random.Random(seed)
    return [dice.randrange(2**16) for _ in range(dice.randrange(most))]
