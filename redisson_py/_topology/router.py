"""One stream to the master that a finder finds."""

from __future__ import annotations

import asyncio

from redisson_py._loop import stop_task
from redisson_py._stream.router import Router
from redisson_py._stream.stream import Stream
from redisson_py._topology.finder import Finder
from redisson_py.errors import ClientClosedError


class FinderRouter(Router):
    """The streams of a client of Sentinel, or of replicated servers."""

    def __init__(self, stream: Stream, finder: Finder) -> None:
        super().__init__(stream)
        self.finder = finder

    async def run(self) -> None:
        """Keep the stream, and what hears of a new master; ends by cancellation."""
        hearing = asyncio.create_task(self.finder.run(), name="redisson_py finder")
        try:
            await self.only.run()
        finally:
            await stop_task(hearing)

    async def close(self, error: ClientClosedError) -> None:
        """Close everything; what is under way fails with `error`."""
        await super().close(error)
        await self.finder.close(error)
