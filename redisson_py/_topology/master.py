"""One stream to the master that a finder finds."""

from __future__ import annotations

from collections.abc import Callable

from redisson_py._stream.router import NewStream, SingleRouter
from redisson_py._stream.stream import Stream
from redisson_py._topology.finder import Finder
from redisson_py.errors import ClientClosedError


class FinderRouter(SingleRouter):
    """The stream of a client of Sentinel or of replicated servers, and the finder of its master.

    Args:
        new_stream: Makes the stream.
        new_finder: Makes what opens its connections.
    """

    def __init__(self, new_stream: NewStream, new_finder: Callable[[FinderRouter], Finder]) -> None:
        finder = self._finder = new_finder(self)
        super().__init__(lambda: new_stream(finder, fails_over=True))

    def leave_master(self, reason: str) -> None:
        """Leave a server that is not the master any more; unanswered calls go out again."""
        self.only.abort(reason)

    def hurry(self) -> None:
        """Try to connect at once: the attempt is likely to succeed now."""
        self.only.hurry()

    def count_replicas(self, stream: Stream, then: Callable[[int | None], None]) -> None:
        """Call `then` with the number of replicas that the Sentinels reach, or with None."""
        self._finder.count_replicas(then)

    async def run(self) -> None:
        """Run the stream, and what listens for a new master; ends by cancellation."""
        self._finder.start()
        try:
            await super().run()
        finally:
            await self._finder.stop()

    async def close(self, error: ClientClosedError) -> None:
        """Close everything; what is under way fails with `error`."""
        await super().close(error)
        await self._finder.close(error)

    def fail(self, error: ClientClosedError) -> None:
        """Fail what is under way; nothing can be sent any more."""
        super().fail(error)
        self._finder.fail(error)

    def leave_behind(self) -> None:
        """Close the sockets although the event loop was closed."""
        self._finder.leave_behind()
        super().leave_behind()

    def start_over(self) -> object:
        """Make new streams; return the old ones."""
        return super().start_over(), self._finder.start_over()
