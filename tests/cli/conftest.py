"""Processes of the command line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest_asyncio

from tests.cli.processes import CommandLine, StartCommandLine


@pytest_asyncio.fixture
async def command_line(user_url: str) -> AsyncIterator[StartCommandLine]:
    """Start `redisson-py` in processes: `await command_line("run", "k", "--", "true")`.

    What still runs in the end is killed.
    """
    async with AsyncExitStack() as stack:

        async def start(*arguments: str, url: str = user_url, **options: object) -> CommandLine:
            process = await CommandLine.start(arguments, url, **options)
            stack.push_async_callback(process.kill)
            return process

        yield start
