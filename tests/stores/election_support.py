"""Candidates and observers of elections, for tests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Self

from redisson_py import Election, Leader, Leadership
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
