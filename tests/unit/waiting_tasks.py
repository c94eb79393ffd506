"""Tasks that wait in a local queue, and the lock they wait for."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any

from redisson_py._engine.hold import Hold
from redisson_py._engine.local_queue import LocalQueue, Waiter
from tests.unit.fakes import LEASE, FakeContext, FakeOwnership, make_hold

PASSING_SECONDS = 0.01


class QueueOwnership(FakeOwnership):
    """A lock whose waiting tasks are in a queue; nothing is asked of Redis."""

    def __init__(self, queue: LocalQueue[Hold], context: FakeContext | None = None) -> None:
        super().__init__(context=context)
        self.queue = queue

    def new_hold(self, **options: Any) -> Hold:
        """Return a hold that Redis granted a task of this client just now."""
        hold = make_hold(self, **options)
        self.queue.hold = hold
        return hold

    def lost(self, hold: Hold) -> None:
        super().lost(hold)
        if self.queue.hold is hold:
            self.queue.hold = None
        self.queue.advance()

    def pass_on(self, hold: Hold) -> bool:
        return bool(self.queue.pass_on(hold, PASSING_SECONDS, LEASE / 2))

    def give_back(self, hold: Hold) -> None:
        super().give_back(hold)
        if hold.state == "held" and not self.pass_on(hold):
            self.send_release(hold)

    def send_release(self, hold: Hold) -> None:
        hold.end("released")
        if self.queue.hold is hold:
            self.queue.hold = None
        self.queue.releasing = True

    def release_answered(self) -> None:
        self.queue.releasing = False
        self.queue.advance()


class WaitingTask:
    """A task that wants the lock, and what it got."""

    def __init__(
        self, queue: LocalQueue[Hold], *, passable: bool = True, deadline: float | None = None
    ) -> None:
        self.queue = queue
        self.passable = passable
        self.deadline = deadline
        self.waiter: Waiter | None = None
        self.task = asyncio.create_task(self._enter())

    async def _enter(self) -> Hold | bool:
        if self.queue.go_first():
            return True
        self.waiter = Waiter(weakref.ref(self.task), self.passable)
        return await self.queue.wait(self.queue.join(self.waiter), self.deadline)

    @property
    def got(self) -> Hold | bool | None:
        """What it was given; None as long as it waits, or if it was cancelled."""
        if self.task.done() and not self.task.cancelled():
            return self.task.result()
        return None


async def wait_in(queue: LocalQueue[Hold], count: int) -> list[WaitingTask]:
    """Return tasks that wait; the first may ask, if nothing keeps it waiting."""
    tasks = [WaitingTask(queue) for _ in range(count)]
    await iterations()
    return tasks


async def iterations(count: int = 3) -> None:
    """Let the event loop have some turns."""
    for _ in range(count):
        await asyncio.sleep(0)


async def send_away(queue: LocalQueue[Hold], *tasks: WaitingTask) -> None:
    """Cancel those that wait; those that ask have been answered."""
    for each in tasks:
        if each.got is True:
            queue.asked()
        each.task.cancel()
        await asyncio.wait([each.task])
