"""Several processes wait for one fair lock: in order, and past one that is killed."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import Redisson
from tests.fixtures.client import ClientFactory
from tests.support.fair_locks import fair_lock, nothing_left, one_by_one, server_side, until_queued
from tests.support.scripts.calls import ask

#: Long enough for a waiter to stay alive on a busy machine, until it is killed.
LEASE = 3.0

Start = Callable[[float], Awaitable[Process]]


@pytest_asyncio.fixture
async def start(server_url: str) -> AsyncIterator[Start]:
    """Start a visitor with a lease time; what still runs in the end is killed."""
    started: list[Process] = []

    async def run(lease_time: float) -> Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.support.fair_visitor",
            server_url,
            str(lease_time),
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


def visit(process: Process, number: int) -> None:
    """Have a visitor start a task."""
    assert process.stdin is not None
    process.stdin.write(b"%d\n" % number)


async def test_processes_are_served_in_the_order_they_came(
    client: Redisson, redis: Redis, start: Start
) -> None:
    fair = await server_side(redis)
    processes = [await start(30) for _ in range(3)]
    async with fair_lock(client):
        for number in range(12):
            visit(processes[number % 3], number)
            await until_queued(fair, number + 1)
    for process in processes:
        # Python 3.11 leaves the input open when there is nothing to communicate.
        await process.communicate(b"")
        assert process.returncode == 0
    visits = await ask(redis, "LRANGE", "visits", 0, -1)
    await redis.delete("visits")
    assert visits == [b"%d" % number for number in range(12)]
    assert await nothing_left(fair)


async def test_a_killed_process_is_passed_over_after_one_lease(
    clients: ClientFactory, redis: Redis, start: Start
) -> None:
    fair = await server_side(redis)
    near = clients()
    lease = await fair_lock(near).acquire()
    process = await start(LEASE)
    for number in (1, 2):
        visit(process, number)
        await until_queued(fair, number)
    (waiting,) = await one_by_one(fair, fair_lock(near).acquire())
    process.kill()
    await process.wait()
    await lease.release()
    async with asyncio.timeout(30):
        await (await waiting).release()
