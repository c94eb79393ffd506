"""Processes that wait in a crowd."""

from __future__ import annotations

import asyncio
import hashlib
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import replace

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py._redis.dialect import Dialect
from redisson_py._redis.scripts.source import Script
from tests.crowd.queue_look import members, until_in_queue
from tests.support.waiting import set_safety_poll

#: Longer than a test may wait: who needs the safety poll fails.
NEVER = 600.0


#: Of what is written in microseconds in the scripts of queues: for how long one that was called
#: may be silent, and after which time the next one looks. A slow machine lets both pass.
_SILENT = re.compile(r"\b5([01])000\b(?= then| - | \+|\))")


@pytest.fixture
def nobody_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have clients wait for one that was called, however long it needs until it comes."""
    found = [
        each
        for name, module in [*sys.modules.items()]
        if name.startswith("redisson_py._redis.commands")
        for each in vars(module).values()
        if isinstance(each, Script)
    ]
    for script in found:
        longer = []
        for wording in script.wordings:
            text = _SILENT.sub(r"5\g<1>0000000", wording.text)
            sha = hashlib.sha1(text.encode()).hexdigest()
            head = wording.head.replace(wording.sha.encode(), sha.encode())
            longer.append(replace(wording, text=text, sha=sha, head=head))
        monkeypatch.setattr(script, "wordings", tuple(longer))
        for name in ("text", "sha", "head"):
            monkeypatch.setattr(script, name, getattr(longer[Dialect.MODERN], name))


class Waiter:
    """A process of `tests.crowd.waiter`."""

    def __init__(self, process: Process) -> None:
        self.process = process

    async def read_row(self) -> list[str]:
        """Return the words of the next thing it says."""
        assert self.process.stdout is not None
        async with asyncio.timeout(60):
            return (await self.process.stdout.readline()).decode().split()

    async def granted(self) -> int:
        """Return when it was granted the lock, in nanoseconds."""
        word, moment = await self.read_row()
        assert word == "granted"
        return int(moment)

    async def release(self) -> int:
        """Have it release; return when."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        word, moment = await self.read_row()
        assert word == "released"
        return int(moment)

    def stop(self) -> None:
        """Stop it where it is."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on."""
        self.process.send_signal(signal.SIGCONT)

    async def kill(self) -> None:
        """Kill it."""
        self.process.kill()
        await self.process.wait()


async def in_order(waiters: Iterable[Waiter]) -> AsyncIterator[tuple[Waiter, int]]:
    """Return each once it was granted the lock, and when.

    Mostly they come in order. On a busy machine one that lives may be silent for so long that it is
    passed over too.
    """
    granted = {asyncio.create_task(each.granted()): each for each in waiters}
    try:
        while granted:
            done, _ = await asyncio.wait(granted, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                yield granted.pop(task), task.result()
    finally:
        for task in granted:
            task.cancel()


#: Starts a process whose clients wait, and returns when they are in the queue.
Join = Callable[..., Awaitable[Waiter]]


@pytest.fixture(autouse=True)
def no_safety_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nobody asked without a reason."""
    set_safety_poll(monkeypatch, NEVER)


@pytest_asyncio.fixture(autouse=True)
async def no_counters(redis: Redis) -> AsyncIterator[None]:
    """Remove the semaphore `k`, which stays for ever."""
    yield
    await redis.delete("k", "{k}:redisson_py:total")


@pytest_asyncio.fixture
async def join(server_url: str, redis: Redis) -> AsyncIterator[Join]:
    """Start processes that wait; what still runs in the end is killed."""
    started: list[Waiter] = []

    async def run(
        kind: str = "lock",
        count: int = 1,
        lease_time: float = 30.0,
        *,
        safety_poll: float = NEVER,
        waits: bool = True,
    ) -> Waiter:
        before = len(await members(redis))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tests.crowd.waiter", server_url, kind),
            *map(str, (count, lease_time, safety_poll)),
            stdin=PIPE,
            stdout=PIPE,
        )
        waiter = Waiter(process)
        started.append(waiter)
        assert await waiter.read_row() == ["ready"]
        if waits:
            await until_in_queue(redis, before + count)
        return waiter

    yield run
    for waiter in started:
        if waiter.process.returncode is None:
            waiter.process.kill()
        await waiter.process.communicate()
