"""Stand-ins for tests without a server: a clock that obeys, resources that only take notes."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import weakref
from collections.abc import Callable
from typing import Any, cast

import pytest

from redisson_py._lease import hold as hold_module
from redisson_py._lease import lease as lease_module
from redisson_py._lease import watchdog as watchdog_module
from redisson_py._lease.hold import Hold
from redisson_py._lease.lease import Lease
from redisson_py._scripts import source
from redisson_py._scripts.source import Script

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
        """Make this the clock of holds, leases and watchdogs."""
        for module in (hold_module, lease_module, watchdog_module):
            patch.setattr(module, "now", self.now)
        patch.setattr(watchdog_module, "call_later", self.call_later)


class FakeTask:
    """A task as far as a hold cares."""

    def __init__(self) -> None:
        self.ended = False

    def done(self) -> bool:
        return self.ended


class FakeResource:
    """A lock that takes notes instead of talking to Redis."""

    def __init__(self, name: str = "k", kind: str = "lock") -> None:
        self.name = name
        self.key = self._hold_key = self._lease_key = name.encode()
        self.kind = kind
        self._renewal: Script = RENEW
        self._cut_by_others = False
        self.ended: list[Hold] = []
        self.given_back: list[Hold] = []
        self.released: list[Lease] = []
        self.on_ended: Callable[[Hold], object] = lambda hold: None

    async def _release_lease(self, lease: Lease) -> None:
        self.released.append(lease)
        lease._end()
        lease._hold.drop(lease)

    async def _set_lease(self, lease: Lease, lease_time: float) -> None:
        raise NotImplementedError

    def _hold_ended(self, hold: Hold) -> None:
        self.ended.append(hold)
        self.on_ended(hold)

    def _give_back(self, hold: Hold) -> None:
        self.given_back.append(hold)


#: Holds refer to tasks weakly; those of fakes live as long as the test run.
_tasks: list[FakeTask] = []


def fake_task() -> Any:
    """Return a task that goes on for ever, or until a test sets `ended`."""
    task = FakeTask()
    _tasks.append(task)
    return task


def make_hold(
    resource: FakeResource | None = None,
    *,
    ends_at: float,
    owner: str = "c:1",
    watched: bool = True,
    task: asyncio.Task[Any] | FakeTask | None = None,
) -> Hold:
    """Return a hold on a resource that takes notes."""
    return Hold(
        resource or FakeResource(),
        owner,
        ends_at=ends_at,
        watched=watched,
        task=cast("Any", weakref.ref(task or fake_task())),
    )


def make_lease(hold: Hold, *, limit: float | None = None) -> Lease:
    """Return a lease of a hold, and have the hold know it."""
    lease = Lease(hold, limit, None, "cancel", hold.granted_at)
    hold.leases.append(lease)
    return lease
