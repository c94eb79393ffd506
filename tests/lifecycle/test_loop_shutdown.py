"""The event loop shuts down while blocks still clean up (issue 12, item 14).

`asyncio.run` cancels every task, the client's own too. What is held stays held until the blocks
have been left, for longer than a lease, and the cleanups are not cut short.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from redis.asyncio import Redis

from tests.support import repository
from tests.support.cluster_look import master_of, url_of
from tests.support.kinds import KINDS, Stage, member_names
from tests.support.waiting import until, until_async

#: What Python or asyncio print on stderr after an unclean end. Warnings of asyncio's debug mode
#: about slow callbacks are not among them: the machine may be busy.
UNCLEAN = ("Traceback", "Warning", "Exception ignored", "was destroyed", "never retrieved")

some_kinds = pytest.mark.parametrize(
    "stage",
    [
        "lock",
        *(
            pytest.param(kind, marks=pytest.mark.more)
            for kind in ("multi_lock_of_three", "red_lock", "semaphore")
        ),
    ],
    indirect=True,
)
"""One for each class that keeps holds; a program takes as long as its cleanup."""

pytestmark = pytest.mark.also("cluster")


class Program:
    """The program of a test, and its output so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []

    async def read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.lines.append(line.decode().strip())

    def said(self, text: str) -> bool:
        return any(line.startswith(text) for line in self.lines)


@asynccontextmanager
async def running(stage: Stage, how: str) -> AsyncIterator[Program]:
    """Run the program; in the end it must have ended by itself, and cleanly."""
    kind = next(name for name, kind in KINDS.items() if kind is stage.kind)
    command = ["-X", "dev", "-W", "error", "-m", "tests.lifecycle.shutting_down", how, kind]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        url_of(await master_of(stage.servers[0], "cleaned")),
        *(url_of(each) for each in stage.servers),
        cwd=repository.ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    program = Program(process)
    assert process.stderr is not None
    reading = asyncio.gather(program.read(), process.stderr.read(), process.wait())
    try:
        await until(lambda: program.said("held"), 60)
        yield program
        async with asyncio.timeout(30):
            _, errors, code = await reading
    finally:
        if process.returncode is None:
            process.kill()
            await asyncio.gather(reading, return_exceptions=True)
        await stage.servers[0].delete("{cleaned} 0", "{cleaned} 1")
    text = errors.decode()
    assert not any(word in text for word in UNCLEAN), text
    assert (code, program.lines[-1]) == (0, "ended"), text


async def held(stage: Stage, server: Redis, name: str) -> bool:
    """Whether a server says that a thing, in all its parts, is held."""
    if stage.kind.semaphore:
        return bool(await server.get(name) == b"0")
    names = member_names(name, stage.kind.members)
    return bool(await server.exists(*names) == len(names))


async def assert_held_until_cleaned(stage: Stage, names: list[str]) -> None:
    """Watch the servers: nothing may be free before its cleanup has ended."""
    # A red lock may be held on all but one.
    quorum = len(stage.servers) // 2 + 1

    async def free_when_cleaned(number: int, name: str) -> None:
        while sum([await held(stage, server, name) for server in stage.servers]) >= quorum:
            await asyncio.sleep(0.02)
        # Written before the block was left.
        assert await stage.servers[0].exists(f"{{cleaned}} {number}"), f"{name} was free too early"

    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        for number, name in enumerate(names):
            group.create_task(free_when_cleaned(number, name))


def assert_cleaned(program: Program, count: int) -> None:
    """Fail unless every cleanup ran to its end, and knew of no loss."""
    for number in range(count):
        assert f"cleaned {number}" in program.lines, program.lines
    assert not program.said("lost")
    assert not program.said("interrupted")


@some_kinds
@pytest.mark.parametrize("how", ["interrupted", "returns"])
async def test_held_until_the_tasks_have_cleaned_up(stage: Stage, how: str) -> None:
    names = [stage.name, f"{stage.name}-other"]
    async with running(stage, how) as program:
        if how == "interrupted":
            program.process.send_signal(signal.SIGINT)
        await assert_held_until_cleaned(stage, names)
    assert_cleaned(program, 2)
    assert program.said("keyboard interrupt") is (how == "interrupted")
    await until_async(stage.free)
    await (await stage.rival().thing.acquire(timeout=15)).release()


@pytest.mark.parametrize("stage", ["lock", "red_lock", "semaphore"], indirect=True)
async def test_held_until_a_generator_has_cleaned_up(stage: Stage) -> None:
    """`asyncio.run` closes generators when all tasks have ended, the client's own too."""
    async with running(stage, "generator") as program:
        await assert_held_until_cleaned(stage, [stage.name])
    assert_cleaned(program, 1)
    await (await stage.rival().thing.acquire(timeout=15)).release()


@pytest.mark.parametrize("stage", ["red_lock"], indirect=True)
@pytest.mark.parametrize("pause", [450, 2000], ids=["slow", "silent"])
@pytest.mark.more
async def test_every_connection_is_closed_when_a_quorum_has_answered(
    stage: Stage, pause: int
) -> None:
    """The last server answers later than the others, or too late to be waited for."""
    async with running(stage, "generator") as program:
        await until(lambda: program.said("cleaning 0"), 30)
        # Longer than the cleanup takes.
        await stage.servers[-1].client_pause(pause)
        await assert_held_until_cleaned(stage, [stage.name])
    assert_cleaned(program, 1)
