"""Who runs something once is killed, or stopped: the next runs it, or finds it done."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from redisson_py import AcquireTimeoutError
from redisson_py._time import now
from tests.stores.postgres.server import running_postgres
from tests.support.waiting import until_waiting
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
        assert await read_row(process) == "effect"
        assert await read_row(process) == "completed"
        process.kill()
        async with client.get_once("after").hold(timeout=0) as entered:
            assert (entered.done, entered.result) == (True, b"theirs")


async def test_killed_between_its_effect_and_its_completion_the_next_repeats_it(
    server_url: str,
) -> None:
    """The effect is once only where its resource compares tokens: the later one is greater."""
    async with client_of(server_url, LEASE) as client:
        async with runner(server_url, "effect", "effect") as process:
            token = int((await read_row(process)).split()[2])
            assert await read_row(process) == "effect"
            waiting = asyncio.create_task(client.get_once("effect").acquire(timeout=30))
            await until_waiting(client, 1)
            process.kill()
            running = await waiting
        assert not running.done
        assert await client.get_latch(f"effect:effect:{token}").count() == 1
        assert running.token > token
        await running.complete(b"mine")
        assert await client.get_latch(f"effect:effect:{token}").delete()


@pytest.mark.parametrize("step", ["effect", "inside", "committed"])
async def test_killed_in_a_transaction_its_rows_and_its_record_stay_or_vanish_together(
    step: str,
) -> None:
    name = f"row:{step}"
    with running_postgres() as server:
        looks = await asyncpg.connect(server.url)
        await looks.execute("CREATE TABLE effects (name text)")
        async with client_of(server.url, LEASE) as client, runner(server.url, name, step) as killed:
            while await read_row(killed) != step:
                pass
            # It is done, or else who runs it keeps others out.
            found = await client.get_once(name).try_acquire()
            assert (found is not None and found.done) == (step == "committed")
            killed.kill()
            async with client.get_once(name).hold(timeout=30) as entered:
                assert entered.done == (step == "committed")
                assert await looks.fetchval("SELECT count(*) FROM effects") == entered.done
                if not entered.done:
                    async with looks.transaction():
                        await looks.execute("INSERT INTO effects VALUES ($1)", name)
                        await entered.complete(b"mine", connection=looks)
            found = await client.get_once(name).run(lambda: b"other")
            assert found == (b"theirs" if step == "committed" else b"mine")
            assert await looks.fetchval("SELECT count(*) FROM effects") == 1
        await looks.close()


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
    names = [f"k{number}" for number in range(3)]
    async with client_of(url, LEASE) as client:
        for number, name in enumerate(names):
            async with runner(url, name, "completed") as process:
                while await read_row(process) != "effect":
                    pass
                # Before, in or after `complete`.
                until = now() + number * 0.001
                while now() < until:
                    await asyncio.sleep(0)
                process.kill()
                found = await client.get_once(name).run(lambda: b"mine")
                assert found in (b"mine", b"theirs")
                assert await client.get_once(name).run(lambda: b"other") == found
