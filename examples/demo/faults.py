"""Striking workers while they hold the lock: one is killed, one is stopped past its lease."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from examples.demo.crew import Member, until
from examples.demo.worker import LEASE_TIME, Stage
from redisson_py import RLock

#: How long a holder is left alone before it is struck: long enough to be seen in the table.
_SUSPENSE = 0.6
#: How long a stopped worker sleeps on after its lease.
_OVERSLEEP = 0.8
#: Seconds after the end of a lease until the next one has the lock, unless the machine is busy.
_LATE = 0.5

Say = Callable[[str], None]


def least_seconds(seconds: float) -> float:
    """Return how long the faults take, if they are spread over so many seconds."""
    return seconds / 3 + 2 * (_SUSPENSE + LEASE_TIME) + _OVERSLEEP


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
        noticed_after: Seconds from waking until its task learned of the loss.
    """

    what: Literal["killed", "stopped"]
    worker: str
    held_since: float
    at: float
    was_holder: bool
    recovered_after: float | None = None
    asleep: float = 0.0
    noticed_after: float | None = None

    def delayed(self, granted_at: float, waited: float) -> bool:
        """Whether a wait fell in the time when the struck worker kept everybody waiting."""
        until = self.at + (self.recovered_after or float("inf"))
        return granted_at > self.held_since and granted_at - waited < until


class Striker:
    """Kills one worker and stops another.

    Args:
        members: The workers.
        lock: Their lock.
        patience: Seconds after which what must happen counts as missing.
        say: Prints a line.
    """

    def __init__(self, members: Sequence[Member], lock: RLock, patience: float, say: Say) -> None:
        self._members = members
        self._lock = lock
        self._patience = patience
        self._say = say

    async def strike(self, seconds: float) -> list[Fault]:
        """Do it, spread over a phase of so many seconds."""
        victim, sleeper, *_ = self._members
        await asyncio.sleep(seconds / 6)
        killed = await self._kill(victim)
        await asyncio.sleep(seconds / 6)
        return [killed, await self._stop(sleeper)]

    async def _kill(self, victim: Member) -> Fault:
        fault = await self._catch("killed", victim, "halfway")
        victim.kill()
        self._say(f"{victim.name} (pid {victim.pid}) is killed (SIGKILL) while it has the lock")
        await self._recovery(fault)
        return fault

    async def _stop(self, sleeper: Member) -> Fault:
        fault = await self._catch("stopped", sleeper, "stale")
        sleeper.stop()
        self._say(f"{sleeper.name} (pid {sleeper.pid}) is stopped (SIGSTOP) while it has the lock")
        await self._recovery(fault)
        await asyncio.sleep(fault.at + LEASE_TIME + _OVERSLEEP - time.monotonic())
        woken_at = time.monotonic()
        sleeper.wake()
        fault.asleep = woken_at - fault.at
        self._say(f"{sleeper.name} is woken (SIGCONT) after {fault.asleep:.2f} s")
        if await until(lambda: sleeper.loss_of_parked is not None, self._patience):
            fault.noticed_after = (sleeper.loss_of_parked or 0.0) - woken_at
            self._say(
                f"{fault.noticed_after * 1000:.0f} ms later it knows that it lost the lock, and "
                "does not write"
            )
        return fault

    async def _catch(
        self, what: Literal["killed", "stopped"], member: Member, stage: Stage
    ) -> Fault:
        """Have a task of `member` hold the lock until it is struck.

        A machine that pauses the member may cost it the lock before that: then its next task is
        caught.
        """
        while True:
            member.park(stage)
            await until(
                lambda: member.state == "holding",
                self._patience,
                f"{member.name} did not get the lock",
            )
            held_since = time.monotonic()
            await asyncio.sleep(_SUSPENSE)
            snapshot = await self._lock.inspect()
            was_holder = any(holder.pid == member.pid for holder in snapshot.holders)
            if was_holder or not await until(lambda: member.state == "working", self._patience):
                return Fault(what, member.name, held_since, time.monotonic(), was_holder)

    async def _recovery(self, fault: Fault) -> None:
        """Wait until another worker has the lock."""

        def grants() -> list[float]:
            others = (member for member in self._members if member.name != fault.worker)
            return [at for member in others for at, _ in member.grants[-5000:] if at > fault.at]

        if await until(lambda: bool(grants()), self._patience):
            fault.recovered_after = min(grants()) - fault.at
            late = fault.recovered_after > LEASE_TIME + _LATE
            self._say(
                f"another worker has the lock, {fault.recovered_after:.2f} s later (the lease was "
                f"{LEASE_TIME:g} s{'; this machine is busy' if late else ''})"
            )
