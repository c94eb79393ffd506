"""Tasks that stand in a line, for tests of the line."""

from __future__ import annotations

import asyncio
import weakref

from redisson_py._handoff import Line, Place
from redisson_py._lease.hold import Hold


class Waiter:
    """A task in the line, and what it got."""

    def __init__(self, line: Line, *, passable: bool = True, deadline: float | None = None) -> None:
        self.line = line
        self.passable = passable
        self.deadline = deadline
        self.place: Place | None = None
        self.task = asyncio.create_task(self._enter())

    async def _enter(self) -> Hold | bool:
        if self.line.go_first():
            return True
        self.place = Place(weakref.ref(self.task), self.passable)
        return await self.line.stand(self.place, self.deadline)

    @property
    def got(self) -> Hold | bool | None:
        """What it was given; None as long as it waits."""
        return self.task.result() if self.task.done() else None


async def stand(line: Line, count: int) -> list[Waiter]:
    waiters = [Waiter(line) for _ in range(count)]
    await turns()
    return waiters


async def turns() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def send_away(line: Line, *waiters: Waiter) -> None:
    for waiter in waiters:
        if waiter.got is True:
            line.asked()
        waiter.task.cancel()
        await asyncio.wait([waiter.task])
