"""Carries plans out, each in a process of its own, so that memory ends with each run."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tests.jepsen.nemeses.network import enclosing
from tests.jepsen.plan import Plan
from tests.jepsen.result import Result

#: Seconds that a run may take to start, to come to its end and to be judged.
GRACE = 180.0

#: Seconds in which it must end what it started when it is told to.
ENDING = 20.0

_LOG = "run.log"


async def one(plan: Plan, folder: Path, tree: Path | None = None) -> Result:
    """Carry a plan out in a process of its own; its histories are in a folder.

    Args:
        plan: What to run.
        folder: Where its histories go.
        tree: The tree whose package and tools are run, if not ours.
    """
    plan.save(folder)
    environment = dict(os.environ)
    if tree is not None:
        # No .pyc: a sabotage of the same length, made in the same second, would go unseen.
        environment |= {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        with (folder / _LOG).open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *enclosing(plan.needs),
                *(sys.executable, "-m", "tests.jepsen.run", str(folder)),
                stdin=PIPE,
                stdout=DEVNULL,
                stderr=log,
                cwd=tree,
                env=environment,
                # A terminal's Ctrl-C reaches us only; we then tell it to end.
                start_new_session=True,
            )
    except OSError as error:
        # No `unshare` here, or no space: other runs need neither.
        return Result(plan, failures=[f"the run cannot begin: {error}"], folder=str(folder))
    try:
        async with asyncio.timeout(plan.seconds + GRACE):
            await process.wait()
        return Result.load(folder)
    except TimeoutError:
        return Result(plan, failures=["the run did not end"], folder=str(folder))
    except (FileNotFoundError, ValueError):
        # It has no result, or not all of one: the disk was full.
        log_text = (folder / _LOG).read_text("utf-8", "replace")
        text = log_text or "it wrote no result and no error; is the disk full?"
        return Result(plan, failures=[f"the run failed: {text[-3000:]}"], folder=str(folder))
    finally:
        await _end(process)


async def _end(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(ENDING):
            await process.wait()
    # Its workers are of its session; servers have guards that end them.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _new(folder: Path, title: str) -> Path:
    """Make a folder: no run goes on in the histories of another one, or reports its result."""
    for number in itertools.count(1):
        home = folder / (title if number == 1 else f"{title}+again-{number}")
        with suppress(FileExistsError):
            home.mkdir(parents=True)
            return home
    raise AssertionError


async def several(
    plans: Iterable[Plan], folder: Path, jobs: int, *, keep: bool = False
) -> AsyncGenerator[Result]:
    """Carry plans out, some at the same time; yield each result when it is there.

    Histories of runs in which all was well are removed, unless they are to be kept.
    """
    waiting = iter(plans)
    running: set[asyncio.Task[Result]] = set()
    try:
        while True:
            for plan in itertools.islice(waiting, jobs - len(running)):
                running.add(asyncio.create_task(one(plan, _new(folder, plan.title))))
            if not running:
                return
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                result = task.result()
                if result.ok and not keep:
                    shutil.rmtree(result.folder)
                    result = replace(result, folder="")
                yield result
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
