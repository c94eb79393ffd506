"""What a stream must know of other servers that may serve its keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from redisson_py._redis import AbstractConnection
    from redisson_py._stream.call import Call, ReplyError
    from redisson_py._stream.stream import Stream

#: Longest pause in seconds between two attempts to connect, where another server may take over.
LONGEST_PAUSE = 0.25

#: Seconds that an attempt to connect may take, where another server may take over. The first one
#: may take a second, and each one after that twice as long, up to this; a longer `reply_timeout`
#: takes the place of the second, and of this.
LONGEST_ATTEMPT = 4.0

#: A server that took longer than this to answer a new connection may have been frozen meanwhile.
SLOW_OPENING = 0.25


class Opener(Protocol):
    """Opens connections: always to the same server, or to the current master."""

    @property
    def where(self) -> str:
        """The address, without any secret."""
        ...

    @property
    def connect_timeout(self) -> float | None:
        """Seconds that one attempt may take, if the user said so."""
        ...

    async def open(self, limit: float) -> AbstractConnection:
        """Return a connection that is ready for commands, within `limit` seconds.

        Raises:
            BackendError: It is refused for good.
            ConnectionLostError: There is none; there may be later.
            Elsewhere: The calls that wait for it are to be sent elsewhere.
        """
        ...


class Elsewhere(Exception):
    """Raised by an opener: other servers have the keys of the calls that wait for a connection."""


class Topology(Protocol):
    """Several servers that take over keys when one of them fails or gives them away."""

    def send_again(self, call: Call) -> Call:
        """Send a call to the server that has its key now."""
        ...

    def redirected(self, stream: Stream, call: Call, error: ReplyError) -> bool:
        """Handle a call that was refused because its key is elsewhere; return whether it was."""
        ...

    def went_down(self, stream: Stream) -> None:
        """The connection of a stream broke, or could not be opened: others may serve its keys."""
        ...

    def gone(self, stream: Stream, channel: bytes, refused: Call | None = None) -> None:
        """A server sends no messages of a channel, because its slot moved.

        It ended the subscription, or `refused` it.
        """
        ...

    async def confirm(self, stream: Stream) -> None:
        """Return when another server has said what the server of a stream serves now."""
        ...

    def confirm_late(self, stream: Stream, then: Callable[[], None]) -> None:
        """Call `then` when another server has said so, if the server still serves anything."""
        ...
