"""Who runs something once is killed, or stopped: the next runs it, or finds it done."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from redisson_py import AcquireTimeoutError
from redisson_py._time import now
from tests.stores.postgres.server import running_postgres
from tests.system.once_runner import client_of

LEASE = 2.0


@pytest.fixture(params=["redis", "postgres"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "redis":
        yield request.getfixturevalue("server_url")
        return
    with running_postgres() as server:
        yield server.url


@asynccontextmanager
async def runner(url: str, name: str, step: str) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.system.once_runner", url, str(LEASE), name, step),
        stdout=PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def read_row(process: Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(30):
        return (await process.stdout.readline()).decode().strip()


async def test_killed_before_it_completed_the_next_runs_it(url: str) -> None:
    async with client_of(url, LEASE) as client, runner(url, "before", "running") as process:
        _, done, token = (await read_row(process)).split()
        assert done == "False"
        once = client.get_once("before")
        with pytest.raises(AcquireTimeoutError):
            async with once.hold(timeout=0):
                pytest.fail("two run it")
        process.kill()
        async with once.hold(timeout=30) as running:
            assert not running.done
            assert running.token > int(token)
            await running.complete(b"mine")
        assert await once.run(lambda: b"other") == b"mine"


async def test_killed_after_it_completed_it_is_done_at_once(url: str) -> None:
    async with client_of(url, LEASE) as client, runner(url, "after", "completed") as process:
        assert (await read_row(process)).startswith("entered False")
        assert await read_row(process) == "completed"
        process.kill()
        async with client.get_once("after").hold(timeout=0) as entered:
            assert (entered.done, entered.result) == (True, b"theirs")


async def test_stopped_past_its_lease_it_is_followed(url: str) -> None:
    async with client_of(url, LEASE) as client, runner(url, "stopped", "running") as process:
        await read_row(process)
        process.send_signal(signal.SIGSTOP)
        async with client.get_once("stopped").hold(timeout=30) as running:
            assert not running.done
            await running.complete(b"mine")
        process.send_signal(signal.SIGCONT)
        # Its block is cancelled: the process ends, with an error.
        async with asyncio.timeout(30):
            assert await process.wait() != 0
        assert await client.get_once("stopped").run(lambda: b"other") == b"mine"


async def test_killed_at_any_moment_each_thing_has_one_result(url: str) -> None:
    """What one process finds done, all find done, with the same result."""
    names = [f"k{number}" for number in range(6)]
    async with client_of(url, LEASE) as client:
        for number, name in enumerate(names):
            async with runner(url, name, "completed") as process:
                await read_row(process)
                # Between `entered` and `completed`, or after it.
                until = now() + number * 0.0004
                while now() < until:
                    await asyncio.sleep(0)
                process.kill()
                found = await client.get_once(name).run(lambda: b"mine")
                assert found in (b"mine", b"theirs")
                assert await client.get_once(name).run(lambda: b"other") == found
