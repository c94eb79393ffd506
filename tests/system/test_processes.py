"""Several processes: turns, a killed holder, a stopped one."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from redisson_py import Redisson
from tests.fixtures.client import ClientFactory

Start = Callable[..., Awaitable[Process]]


@pytest_asyncio.fixture
async def start() -> AsyncIterator[Start]:
    """Start `python -m <module>`; what still runs in the end is killed."""
    started: list[Process] = []

    async def run(module: str, *arguments: object) -> Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            module,
            *map(str, arguments),
            stdin=PIPE,
            stdout=PIPE,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line(process: Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(30):
        return (await process.stdout.readline()).decode().strip()


@pytest.mark.parametrize(
    ("tasks", "body_ms"),
    [(1, 0), (1, 1), (1, 20), (8, 0), (8, 1), (8, 20)],
)
async def test_two_processes_take_turns(
    start: Start, server_url: str, tasks: int, body_ms: float
) -> None:
    # Long enough for hundreds of hand-offs of either kind.
    seconds = 9 if body_ms == 20 else 2
    for _ in range(5):
        both = [
            await start("tests.system.contender", server_url, seconds, tasks, body_ms)
            for _ in range(2)
        ]
        for process in both:
            assert await line(process) == "ready"
        for process in both:
            assert process.stdin is not None
            process.stdin.write(b"go\n")
        said = [(await line(process)).split() for process in both]
        sections = [int(each) for each, _ in said]
        if sum(sections) < 200:
            # The machine is slow: more time.
            seconds = min(2 * seconds, 20)
        elif max(float(stood) for _, stood in said) < seconds / 10:
            break
        # A process that stands still for long has fewer turns, whatever the lock does: once more.
    assert sum(sections) >= 200
    assert min(sections) * 3 >= max(sections), sections


async def test_killed_holder_frees_the_lock_within_its_lease(
    start: Start, server_url: str, client: Redisson
) -> None:
    holder = await start("tests.support.holding_process", server_url, 3)
    assert (await line(holder)).startswith("held")
    lock = client.get_lock("k")
    assert await lock.try_acquire() is None
    holder.kill()
    async with lock.hold(timeout=20):
        left = await lock.remaining()
        assert left is not None


async def test_stopped_holder_learns_of_its_loss_when_it_wakes(
    start: Start, server_url: str, clients: ClientFactory
) -> None:
    holder = await start("tests.support.holding_process", server_url, 1)
    assert (await line(holder)).startswith("held")
    holder.send_signal(signal.SIGSTOP)
    async with clients().get_lock("k").hold(timeout=10) as lease:
        holder.send_signal(signal.SIGCONT)
        assert await line(holder) == "lost"
        assert not lease.lost
    assert await holder.wait() == 0
