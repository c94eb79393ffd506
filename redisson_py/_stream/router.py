"""Which stream serves a key.

One server, one stream. A cluster needs one a node and Sentinel needs to ask where the master
is: both fit behind these three methods.
"""

from __future__ import annotations

from redisson_py._loop import start_task, stop_task
from redisson_py._stream.stream import Stream
from redisson_py.errors import ClientClosedError

#: How the channels begin that are not about grants: of latches and barriers.
_NO_GRANTS = (b"redisson_countdownlatch__", b"redisson_py_barrier")


class Router:
    """The streams of one client; here, of a client of one server.

    Attributes:
        only: The one stream, but for grants.
        confirming: The stream of grants that replicas confirm; where none do, the same.
    """

    def __init__(self, stream: Stream, confirming: Stream | None = None) -> None:
        self.use(stream, confirming)

    def use(self, stream: Stream, confirming: Stream | None = None) -> None:
        """Send everything through another stream from now on."""
        self.only: Stream = stream
        self.confirming: Stream = confirming or stream

    def confirming_for(self, key: bytes) -> Stream:
        """Return the stream of grants to the node that serves `key`."""
        return self.confirming

    def listener(self, channel: bytes) -> Stream:
        """Return the stream on which to listen to a channel: that of the asks behind it."""
        return self.only if channel.startswith(_NO_GRANTS) else self.confirming

    def stream_for(self, key: bytes) -> Stream:
        """Return the stream to the node that serves `key`."""
        return self.only

    def streams(self) -> tuple[Stream, ...]:
        """Return every stream there is."""
        return (self.only,) if self.confirming is self.only else (self.only, self.confirming)

    def group(self, key: bytes) -> int:
        """Return a number that is the same for keys one script may touch together."""
        return 0

    async def run(self) -> None:
        """Keep the streams open for as long as they are needed; ends by cancellation."""
        if self.confirming is self.only:
            await self.only.run()
            return
        other = start_task(self.confirming.run(), "redisson_py confirming")
        try:
            await self.only.run()
        finally:
            await stop_task(other)

    async def close(self, error: ClientClosedError) -> None:
        """Close every stream; what is under way fails with `error`."""
        for stream in self.streams():
            await stream.close(error)
