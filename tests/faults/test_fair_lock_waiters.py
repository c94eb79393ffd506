"""Waiters of a fair lock that are stopped, or are told of an error."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from redis.asyncio import Redis

from redisson_py import Redisson, ScriptError
from tests.fixtures.client import ClientFactory
from tests.support.fair_locks import nothing_left, one_by_one, server_side, until_queued
from tests.support.leases import renew_now
from tests.support.waiting import until, until_async, until_listening

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


async def test_place_of_a_waiter_that_was_refused_is_in_nobodys_way(
    clients: ClientFactory, redis: Redis
) -> None:
    far, near = clients(lease_time=LEASE), clients()
    fair = await server_side(redis)
    lease = await near.get_fair_lock("k").acquire()
    (refused,) = await one_by_one(fair, far.get_fair_lock("k").acquire())
    await until_listening(far)
    await redis.set("k", "no lock any more")
    with pytest.raises(ScriptError, match="WRONGTYPE"):
        await refused
    renew_now(near)
    await lease.wait_lost()
    await redis.delete("k")
    # Leaving was refused too, so its place is one of the dead.
    async with near.get_fair_lock("k").hold(timeout=30):
        await until_queued(fair, 0)
    await until_async(lambda: nothing_left(fair))
