"""Which stream serves a key.

One server, one stream. A cluster needs one a node and Sentinel needs to ask where the master
is: both fit behind these three methods.
"""

from __future__ import annotations

from redisson_py._stream.stream import Stream
from redisson_py.errors import ClientClosedError


class Router:
    """The streams of one client; here, of a client of one server.

    Attributes:
        only: The one stream.
    """

    def __init__(self, stream: Stream) -> None:
        self.only: Stream = stream

    def use(self, stream: Stream) -> None:
        """Send everything through another stream from now on."""
        self.only = stream

    def stream_for(self, key: bytes) -> Stream:
        """Return the stream to the node that serves `key`."""
        return self.only

    def streams(self) -> tuple[Stream, ...]:
        """Return every stream there is."""
        return (self.only,)

    def group(self, key: bytes) -> int:
        """Return a number that is the same for keys one script may touch together."""
        return 0

    async def run(self) -> None:
        """Keep the streams open for as long as they are needed; ends by cancellation."""
        await self.only.run()

    async def close(self, error: ClientClosedError) -> None:
        """Close every stream; what is under way fails with `error`."""
        await self.only.close(error)
