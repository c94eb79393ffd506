"""Several processes: turns, a killed holder, a stopped one."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from redisson_py import Redisson
from tests.fixtures.measured import Measured

Start = Callable[..., Awaitable[Process]]

#: Of each process, to judge by.
ROUNDS = 30


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
            # One line has a number for each section.
            limit=1 << 26,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def read_row(process: Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(60):
        return (await process.stdout.readline()).decode().strip()


@pytest.mark.parametrize(
    ("tasks", "body_ms"),
    [(1, 0), (1, 1), (1, 20), (8, 0), (8, 1), (8, 20)],
)
async def test_two_processes_alternate(
    start: Start, server_url: str, measured: Measured, tasks: int, body_ms: float
) -> None:
    for seconds in (2, 4, 8, 16, 32):
        both = [
            await start("tests.system.contender", server_url, seconds, tasks, body_ms)
            for _ in range(2)
        ]
        for process in both:
            assert await read_row(process) == "ready"
        for process in both:
            assert process.stdin is not None
            process.stdin.write(b"go\n")
        first, second = runs(*[json.loads(await read_row(process)) for process in both])
        if min(len(first), len(second)) >= ROUNDS:
            break
        # The machine is slow: more time.
    assert min(len(first), len(second)) >= ROUNDS
    sections = usual(first), usual(second)
    measured(f"turns and sections, {tasks} tasks of {body_ms} ms", (len(first), *sections))
    assert min(sections) * 3 >= max(sections), sections


def runs(first: list[int], second: list[int]) -> tuple[list[int], list[int]]:
    """Return for each process how many sections it had in each of its turns, from their moments.

    Only while both were at work.
    """
    begin, end = max(first[0], second[0]), min(first[-1], second[-1])
    moments = sorted([*((moment, 0) for moment in first), *((moment, 1) for moment in second)])
    found: tuple[list[int], list[int]] = [], []
    inside = [(moment, number) for moment, number in moments if begin <= moment <= end]
    for number, run in itertools.groupby(inside, lambda section: section[1]):
        found[number].append(sum(1 for _ in run))
    return found


def usual(runs: list[int]) -> int:
    """Return how many sections a process had, but in the longest tenth of its turns.

    Where the other process stands still, whatever the lock does, a turn lasts until it goes on.
    """
    return sum(sorted(runs)[: len(runs) - len(runs) // 10])


async def test_killed_holder_frees_the_lock_within_its_lease(
    start: Start, server_url: str, client: Redisson
) -> None:
    holder = await start("tests.support.holding_process", server_url, 3)
    assert (await read_row(holder)).startswith("held")
    lock = client.get_lock("k")
    assert await lock.try_acquire() is None
    holder.kill()
    async with lock.hold(timeout=20):
        left = await lock.remaining()
        assert left is not None
