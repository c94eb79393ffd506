"""One stream to the master that a finder finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from redisson_py._addresses import AddressMap
from redisson_py._stream.router import SingleRouter
from redisson_py._stream.stream import Stream
from redisson_py._stream.topology import Opener
from redisson_py._topology.finder import Finder, ReplicatedFinder, SentinelFinder
from redisson_py.errors import ClientClosedError

if TYPE_CHECKING:
    from redisson_py._redis import Servers


class FinderRouter(SingleRouter):
    """The stream of a client of Sentinel or of replicated servers, and what tells it where to be.

    Args:
        new_stream: As for a `SingleRouter`.
        finder: Opens the connections of these streams.
    """

    def __init__(self, new_stream: Callable[[], Stream], finder: Finder) -> None:
        super().__init__(new_stream)
        self._finder = finder

    async def run(self) -> None:
        """Keep the stream, and what hears of a new master; ends by cancellation."""
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
        """Have other streams; return what was there."""
        return super().start_over(), self._finder.start_over()


def router_of(
    servers: Servers,
    reply_timeout: float,
    *,
    address_map: AddressMap | None,
    new_stream: Callable[[Opener], Stream],
    in_use: Callable[[], bool],
) -> FinderRouter:
    """Return the router to the one master of several servers.

    Args:
        servers: The Sentinels, or the servers themselves.
        reply_timeout: Seconds without an answer after which a Sentinel's connection counts as dead.
        address_map: Changes the addresses that Sentinels announce.
        new_stream: Makes a stream with connections from a finder.
        in_use: Whether somebody holds or waits for something.
    """

    def leave(reason: str) -> None:
        for stream in router.streams():
            stream.abort(reason)

    def hurry() -> None:
        for stream in router.streams():
            stream.hurry()

    finder: Finder
    if servers.sentinel is None:
        finder = ReplicatedFinder(servers.connector, servers.addresses, on_elsewhere=leave)
    else:
        finder = SentinelFinder(
            servers.connector,
            servers.sentinel,
            servers.addresses,
            servers.service,
            reply_timeout,
            address_map=address_map,
            on_elsewhere=leave,
            on_news=hurry,
            kept=lambda: in_use() or any(stream.ready for stream in router.streams()),
            needed=in_use,
        )
    router = FinderRouter(lambda: new_stream(finder), finder)
    return router
