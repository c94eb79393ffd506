"""Waiters of a fair lock that are stopped, or are told of an error."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

from redis.asyncio import Redis

from redisson_py import Redisson
from tests.support.fair_locks import nothing_left, one_by_one, server_side, until_queued
from tests.support.waiting import until

LEASE = 0.6


def state_of(pid: int) -> str:
    """Return the state of a process, as the kernel abbreviates it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def test_waiter_that_is_stopped_at_the_head_loses_its_place(
    client: Redisson, redis: Redis, server_url: str
) -> None:
    fair = await server_side(redis)
    lock = client.get_fair_lock("k")
    lease = await lock.acquire()
    command = [sys.executable, "-m", "tests.support.fair_visitor", server_url, str(LEASE)]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE)
    assert process.stdin is not None
    process.stdin.write(b"1\n")
    await until_queued(fair, 1)
    (first,) = await fair.queued()
    (waiting,) = await one_by_one(fair, lock.acquire())
    try:
        process.send_signal(signal.SIGSTOP)
        await until(lambda: state_of(process.pid) == "T")
        await lease.release()
        lease = await asyncio.wait_for(waiting, 15)
        assert first not in await fair.queued()
    finally:
        process.send_signal(signal.SIGCONT)
    # Awake, it comes again, as the last.
    await until_queued(fair, 1)
    assert await redis.exists("visits") == 0
    await lease.release()
    # Without any bytes Python 3.11 leaves its input open.
    await process.communicate(b"")
    assert process.returncode == 0
    assert await redis.llen("visits") == 1
    await redis.delete("visits")
    assert await nothing_left(fair)
