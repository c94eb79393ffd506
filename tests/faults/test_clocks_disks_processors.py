"""Machines: clocks that are stepped, full disks, starved CPUs."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import AcquireTimeoutError, Lease, LeaseLostError
from redisson_py.testing import CommandError, EmbeddedServer
from tests.fixtures.client import ClientFactory
from tests.fixtures.measured import Measured
from tests.fixtures.redis_server import ServerFactory
from tests.support.leases import renew_now
from tests.support.odd_servers import SteppedClock, small_disk, stepped_clock
from tests.support.streams import answered
from tests.support.waiting import set_safety_poll, until, until_async, until_listening

MINUTE, HOUR = 60.0, 3600.0


@pytest.fixture
def clock(server_choice: str, tmp_path: Path) -> SteppedClock:
    """What steps the clock of the server `stepped`."""
    if "://" in server_choice or server_choice == "container":
        pytest.skip("steps the clock of a server of its own")
    return stepped_clock(server_choice, tmp_path)


@pytest_asyncio.fixture
async def stepped(clock: SteppedClock, server_factory: ServerFactory) -> EmbeddedServer:
    """A server whose clock can be stepped."""
    return await server_factory(clock.kind)


# The server's clock.


async def test_server_clock_stepped_forward_is_reported_and_tokens_grow(
    clients: ClientFactory,
    stepped: EmbeddedServer,
    clock: SteppedClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Redis lets others in too early, as documented: the holder is told, and has the old token."""
    set_safety_poll(monkeypatch, 0.2)
    holder, rival = clients(stepped.url), clients(stepped.url)
    tokens = []
    with pytest.raises(LeaseLostError) as lost:
        async with holder.get_fenced_lock("k") as lease:
            tokens.append(lease.token)
            assert await rival.get_fenced_lock("k").try_acquire() is None
            clock.step(MINUTE)
            async with await rival.get_fenced_lock("k").acquire(timeout=30) as stolen:
                tokens.append(stolen.token)
                renew_now(holder)
                await asyncio.sleep(30)  # cut short by the loss
    assert lost.value.reason == "taken"
    assert not await rival.get_fenced_lock("k").locked()
    async with holder.get_fenced_lock("k") as again:
        tokens.append(again.token)
    assert len(tokens) == 3
    assert tokens == sorted(set(tokens))


@pytest.mark.usefixtures("old_busy_counts")
async def test_server_clock_stepped_back_ends_no_wait_late(
    clients: ClientFactory,
    stepped: EmbeddedServer,
    clock: SteppedClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Redis keeps a lease for an hour: here it ends in time, and waiters ask without a message."""
    set_safety_poll(monkeypatch, 0.2)
    holder, waiter = clients(stepped.url), clients(stepped.url)
    # Connected first, so that only the wait can time out.
    await answered(waiter)
    lease = await holder.get_fenced_lock("k").acquire(lease_time=5)
    clock.step(-HOUR)
    # Redis looks at the clock ten times a second, and when it has something to do.
    await until_async(lambda: lasts(stepped, HOUR - MINUTE))
    # The holder goes by its own clock, and so does a waiter with a timeout.
    await until(lambda: lease.lost)
    with pytest.raises(AcquireTimeoutError, match="busy"):
        await waiter.get_fenced_lock("k").acquire(timeout=1)
    waiting = asyncio.create_task(waiter.get_fenced_lock("k").acquire())
    await until_listening(waiter)
    # It was told an hour. Nobody publishes that the clock is right again.
    clock.step(0)
    async with await asyncio.wait_for(waiting, 30) as next_one:
        assert next_one.token > lease.token
        # Tokens grow also where the clock is behind the last one.
        clock.step(-2 * HOUR)
    async with holder.get_fenced_lock("k") as last:
        assert last.token > next_one.token


async def lasts(server: EmbeddedServer, seconds: float) -> bool:
    """Return whether Redis will keep the lock for longer than this."""
    return int(await server.execute("PTTL", "k")) > 1000 * seconds


# The server's disk.


async def test_server_that_ends_on_a_full_disk_is_a_loss_in_time(
    clients: ClientFactory, server_choice: str, server_factory: ServerFactory, tmp_path: Path
) -> None:
    """With `appendfsync always` Redis ends itself; the holder is told before its lease ends."""
    if "://" in server_choice or server_choice == "container":
        pytest.skip("fills the disk of a server of its own")
    server = await server_factory(small_disk(server_choice, tmp_path, "3m"), appendonly=True)
    client = clients(server.url, lease_time=6, command_timeout=1)
    lease = await client.get_fenced_lock("k").acquire()
    with pytest.raises(LeaseLostError) as lost:
        async with lease:
            await fill(server)
            await until(lambda: not server.running)
            assert not lease.lost
            await asyncio.sleep(30)  # cut short by the loss
    assert lost.value.reason == "expired"
    await server.start()  # on an empty disk
    async with client.get_fenced_lock("k").hold(timeout=30) as again:
        assert again.token > lease.token


async def fill(server: EmbeddedServer) -> None:
    """Write until the server has ended."""
    for number in range(10):
        try:
            await server.execute("SET", f"filler {number}", "x" * 1_000_000)
        except (OSError, CommandError):
            return


# The holder's processor.

HOGS = 8
LEASE = 6.0
#: Busy loops and holder leave the processor to whatever else the machine has to do.
NICE = 10


async def test_holder_on_a_starved_processor_keeps_its_lock(
    server_url: str, clients: ClientFactory, redis: Redis, measured: Measured
) -> None:
    """It shares one processor with eight busy loops for longer than its lease, and renews."""
    command = (sys.executable, "-m", "tests.support.holding_process", server_url, str(LEASE))
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
    assert process.stdout is not None
    try:
        assert (await asyncio.wait_for(process.stdout.readline(), 30)).startswith(b"held ")
        waiting: asyncio.Task[Lease] | None = None
        with starved(process.pid):
            waiting = asyncio.create_task(clients().get_lock("k").acquire())
            renewals = Renewals(redis)
            await until_async(renewals.enough, 10 * LEASE)
            assert not waiting.done(), "somebody else was let in"
        measured("renewals of a starved holder", renewals.seen)
        assert process.returncode is None
        process.kill()
        async with await asyncio.wait_for(waiting, 60):
            pass
    finally:
        if process.returncode is None:
            process.kill()
        output, _ = await process.communicate()
    assert output == b"", "the holder was told of a loss, or released"


class Renewals:
    """Counts how often the lease of `k` has become longer."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._left = 0
        self.seen = 0

    async def enough(self) -> bool:
        """Return whether there were more than a lease takes; the lock must be there."""
        left = await self._redis.pttl("k")
        assert left > 0, "the lease has run out"
        self.seen += left > self._left
        self._left = left
        # Three a lease, after the first look, which is none.
        return self.seen > 4


@contextmanager
def starved(pid: int) -> Generator[None]:
    """Have a process share one processor with busy loops, for the time of a block."""
    processor = {min(os.sched_getaffinity(0))}
    os.sched_setaffinity(pid, processor)
    os.setpriority(os.PRIO_PROCESS, pid, NICE)
    busy = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
    with ExitStack() as stack:
        for _ in range(HOGS):
            command = ["nice", f"-n{NICE}", sys.executable, "-c", busy, str(*processor)]
            hog = subprocess.Popen(command)
            stack.callback(hog.wait)
            stack.callback(hog.kill)
        yield
