"""Striking workers while they hold the lock: one is killed, one is stopped past its lease."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from examples.demo.crew import Member, until
from examples.demo.worker import LEASE_TIME, STATUS_PERIOD, Place
from redisson_py import RLock

#: How much later than due something may show on a busy machine, in seconds.
MARGIN = 1.5
#: How long a holder is left alone before it is struck: long enough to be seen in the table.
_SUSPENSE = 0.6
#: How long a stopped worker sleeps on after its lease.
_OVERSLEEP = 0.8
_PARK_PATIENCE = 15.0

Say = Callable[[str], None]


@dataclass(slots=True)
class Fault:
    """What was done to a worker while it held the lock, and what came of it.

    Attributes:
        what: What was done.
        worker: To whom.
        held_since: When it was seen to wait inside its critical section.
        at: When it was struck.
        was_holder: Whether Redis said then that it held the lock.
        recovered_after: Seconds from `at` until another worker had the lock.
        asleep: Seconds for which it was stopped.
        noticed_after: Seconds from waking until its task was told of the loss.
    """

    what: Literal["killed", "stopped"]
    worker: str
    held_since: float
    at: float
    was_holder: bool
    recovered_after: float | None = None
    asleep: float = 0.0
    noticed_after: float | None = None

    @property
    def recovered_in_time(self) -> bool:
        """Whether the others got the lock when the lease was over."""
        return self.recovered_after is not None and self.recovered_after <= LEASE_TIME + MARGIN

    def delayed(self, granted_at: float, waited: float) -> bool:
        """Whether a wait fell in the time when the struck worker kept everybody waiting."""
        over = self.at + (self.recovered_after or float("inf"))
        return granted_at > self.held_since and granted_at - waited < over


async def strike(members: Sequence[Member], lock: RLock, seconds: float, say: Say) -> list[Fault]:
    """Kill one worker and stop another, spread over a phase of so many seconds."""
    victim, sleeper, *_ = members
    await asyncio.sleep(seconds / 6)
    killed = await _kill(victim, members, lock, say)
    await asyncio.sleep(seconds / 6)
    return [killed, await _stop(sleeper, members, lock, say)]


async def _kill(victim: Member, members: Sequence[Member], lock: RLock, say: Say) -> Fault:
    fault = await _catch("killed", victim, "halfway", lock)
    victim.kill()
    say(f"-- {victim.name} (pid {victim.pid}) killed (SIGKILL) while holding")
    await _recovery(fault, members, say)
    return fault


async def _stop(sleeper: Member, members: Sequence[Member], lock: RLock, say: Say) -> Fault:
    fault = await _catch("stopped", sleeper, "stale", lock)
    sleeper.stop()
    say(f"-- {sleeper.name} (pid {sleeper.pid}) stopped (SIGSTOP) while holding")
    await _recovery(fault, members, say)
    await asyncio.sleep(fault.at + LEASE_TIME + _OVERSLEEP - time.monotonic())
    woken_at = time.monotonic()
    sleeper.wake()
    fault.asleep = woken_at - fault.at
    say(f"-- {sleeper.name} woken (SIGCONT) after {fault.asleep:.2f} s")
    if await until(lambda: sleeper.loss_of_parked is not None, LEASE_TIME + MARGIN):
        fault.noticed_after = (sleeper.loss_of_parked or 0.0) - woken_at
        say(f"-- {sleeper.name} noticed its loss {fault.noticed_after * 1000:.0f} ms later")
    return fault


async def _catch(
    what: Literal["killed", "stopped"], member: Member, place: Place, lock: RLock
) -> Fault:
    """Have a task of `member` hold the lock until it is struck."""
    member.park(place)
    await until(
        lambda: member.state == "holding", _PARK_PATIENCE, f"{member.name} did not get the lock"
    )
    held_since = time.monotonic()
    await asyncio.sleep(_SUSPENSE)
    snapshot = await lock.inspect()
    was_holder = any(holder.pid == member.pid for holder in snapshot.holders)
    return Fault(what, member.name, held_since, time.monotonic(), was_holder)


async def _recovery(fault: Fault, members: Sequence[Member], say: Say) -> None:
    """Wait until another worker has the lock."""

    def grants() -> list[float]:
        others = (member for member in members if member.name != fault.worker)
        return [at for member in others for at, _ in member.grants[-5000:] if at > fault.at]

    if await until(lambda: bool(grants()), LEASE_TIME + MARGIN + 5 * STATUS_PERIOD):
        fault.recovered_after = min(grants()) - fault.at
        say(f"-- another worker has the lock, {fault.recovered_after:.2f} s after the strike")
