"""Candidates and observers of elections, for tests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

from redisson_py import Election, Leader, Leadership
from redisson_py._time import now
from tests.support.waiting import until, until_async

#: The stores that have elections.
ELECTION_STORES = ("redis", "postgres", "mysql", "etcd", "zookeeper")


def election_of(client: Any, name: str) -> Election:
    made: Election = client.get_election(name)
    return made


@contextlib.asynccontextmanager
async def leading(election: Election, value: str) -> AsyncIterator[asyncio.Future[Leadership]]:
    """Campaign in a task until the end of the block, which begins when it leads or waits.

    The future gets its leadership.
    """
    done = asyncio.Event()
    elected: asyncio.Future[Leadership] = asyncio.get_running_loop().create_future()

    async def campaign() -> Leadership:
        async with election.campaign(value) as leadership:
            elected.set_result(leadership)
            await done.wait()
        return leadership

    waiting = len((await election.inspect()).waiters or ())
    is_led = await election.leader() is not None
    task = asyncio.create_task(campaign())
    if is_led:
        await queued(election, waiting + 1)
    else:
        await elected
    try:
        yield elected
    finally:
        done.set()
        if not elected.done():
            task.cancel()
        await asyncio.wait([task])


async def queued(election: Election, count: int) -> None:
    """Return when so many candidates wait on the server."""

    async def seen() -> bool:
        return len((await election.inspect()).waiters or ()) == count

    await until_async(seen)


async def until_stopped(pid: int) -> None:
    """Return when a process that was sent SIGSTOP runs no more."""

    def stopped() -> bool:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
        return text.rpartition(")")[2].split()[0] == "T"

    await until(stopped)


class Resource:
    """Checks the token of each write, and refuses those of earlier terms."""

    def __init__(self) -> None:
        self._newest = 0

    def write(self, token: int) -> bool:
        """Write something in a term; return whether that was accepted."""
        if token < self._newest:
            return False
        self._newest = token
        return True


class Stalls:
    """For how long this machine, or the server, has kept everybody waiting, inside a block.

    A task sleeps briefly and asks the server, again and again. What that takes beyond the usual is
    no waiter's doing.

    Attributes:
        seconds: The sum of it.
    """

    _SLEEP_SECONDS = 0.02
    _USUAL_SECONDS = 0.04

    def __init__(self, election: Election) -> None:
        self._election = election
        self.seconds = 0.0

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _watch(self) -> None:
        before = now()
        while True:
            await asyncio.sleep(self._SLEEP_SECONDS)
            await self._election.leader()
            self.seconds += max(0.0, now() - before - self._USUAL_SECONDS)
            before = now()


class Observer:
    """A task that observes, and what it has seen."""

    def __init__(self, election: Election) -> None:
        self._election = election
        self.seen: list[str | None] = []
        self.leaders: list[Leader | None] = []

    async def __aenter__(self) -> Self:
        self.task = asyncio.create_task(self._observe())
        await until(lambda: self.seen or self.task.done())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])

    async def saw(self, *values: str | None) -> None:
        """Return when it has seen exactly these values."""
        with contextlib.suppress(TimeoutError):
            await until(lambda: len(self.seen) >= len(values) or self.task.done())
        assert self.seen == list(values)

    async def saw_last(self, value: str | None) -> None:
        """Return when it has seen this value last."""
        with contextlib.suppress(TimeoutError):
            await until(lambda: self.seen[-1] == value or self.task.done(), 30)
        assert self.seen[-1] == value

    async def _observe(self) -> None:
        async for leader in self._election.observe():
            self.leaders.append(leader)
            self.seen.append(None if leader is None else leader.text)
