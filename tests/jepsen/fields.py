"""What tests of nemeses share: a field, a strike that is under way, and what it recorded."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from redisson_py import Redisson, RedissonError
from redisson_py.testing import CommandError, EmbeddedServer
from tests.jepsen.field import Field, Need, WorkerProcess
from tests.jepsen.history import Op, Recorder, read_history
from tests.jepsen.nemeses import NEMESES
from tests.jepsen.topologies import TOPOLOGIES
from tests.jepsen.worker import WorkerSpec
from tests.jepsen.workloads import WORKLOADS

#: Seconds of a lease in these tests.
LEASE = 0.3


@asynccontextmanager
async def field_for(folder: Path, *names: str, topology: str = "single") -> AsyncGenerator[Field]:
    """Run the servers that some nemeses need, and what they strike, but no worker's process."""
    needs = frozenset[Need]().union(*(NEMESES[name].needs for name in names))
    record = Recorder(folder, "nemesis")
    async with TOPOLOGIES[topology](record, needs, folder) as field:
        field.lease_time = LEASE
        way = await field.way("w0")
        spec = WorkerSpec.of(
            WORKLOADS["mutex"],
            "w0",
            folder,
            urls=way.urls,
            options={"lease_time": LEASE, **way.options},
            objects=["plain-1"],
            tasks=1,
            source=way.source,
        )
        field.workers.append(WorkerProcess(spec))
        yield field


async def strike(field: Field, name: str, seed: int = 1) -> None:
    """Have a nemesis strike once."""
    await NEMESES[name].strike(field, random.Random(seed))


@asynccontextmanager
async def striking(field: Field, name: str, seed: int = 1) -> AsyncGenerator[asyncio.Task[None]]:
    """Have a nemesis strike beside the block, which ends with the strike."""
    task = asyncio.create_task(strike(field, name, seed))
    try:
        yield task
        await task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def strike_until(
    field: Field, name: str, condition: Callable[[], Awaitable[bool]], seed: int = 1
) -> None:
    """Have a nemesis strike until `condition()` was true while it acted.

    A strike lasts a moment, in which a busy machine may have no time to look: then it strikes
    again, as nemeses do.
    """
    async with asyncio.timeout(60):
        for number in itertools.count(seed):
            seen = False
            async with striking(field, name, number) as task:
                while not (seen or task.done()):
                    seen = await condition()
                    await asyncio.sleep(0.001)
            if seen:
                return


@asynccontextmanager
async def work(field: Field) -> AsyncGenerator[Redisson]:
    """Take and release a lock all the time, as the worker of the field would."""
    spec = field.workers[0].spec
    async with Redisson.from_url(spec.urls[0], **spec.options) as client:

        async def keep_working() -> None:
            while True:
                with suppress(RedissonError):
                    async with client.get_lock("plain-1").hold(timeout=5):
                        await asyncio.sleep(0)

        task = asyncio.create_task(keep_working())
        try:
            yield client
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def strikes(folder: Path) -> list[Op]:
    """Return what nemeses recorded."""
    return read_history(folder).of("nemesis")


async def refusal(server: EmbeddedServer, *command: str | int) -> str:
    """Return why a server refuses a command now; empty if it does not."""
    try:
        await server.execute(*command, timeout=1)
    except CommandError as error:
        return str(error)
    except (OSError, TimeoutError, RuntimeError) as error:
        return type(error).__name__
    return ""
