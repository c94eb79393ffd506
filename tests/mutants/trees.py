"""Copies of the tree, and commands that run in them."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.support.repository import ROOT


class Trees:
    """Copies of the tree, one for each worker."""

    def __init__(self, folder: Path, workers: int) -> None:
        self._idle = asyncio.LifoQueue[Path]()
        # What is hidden is git's, environments and caches.
        ignored = shutil.ignore_patterns(".*", "__pycache__", "build")
        for number in range(workers):
            self._idle.put_nowait(shutil.copytree(ROOT, folder / str(number), ignore=ignored))

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Path]:
        """Lend a copy that no other worker has."""
        tree = await self._idle.get()
        try:
            yield tree
        finally:
            self._idle.put_nowait(tree)


async def output_of(command: Sequence[str], tree: Path, seconds: float) -> tuple[int, str]:
    """Run a command in a tree; return how it ended, and what it wrote.

    Raises:
        TimeoutError: It did not end in time.
    """
    # No .pyc: a sabotage of the same length, made in the same second, would go unseen.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "500"}
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=tree,
        env=environment,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=STDOUT,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(seconds):
            output, _ = await process.communicate()
    finally:
        # What it started goes with it.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    assert process.returncode is not None
    return process.returncode, output.decode("utf-8", "replace")
