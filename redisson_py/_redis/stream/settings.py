"""What a stream is made of: what opens its connections, the client's functions, other servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from redisson_py._outage import Outages

if TYPE_CHECKING:
    from redisson_py._redis.redis_py import AbstractConnection
    from redisson_py._redis.stream.call import Call, ReplyError
    from redisson_py._redis.stream.stream import Stream

#: Longest pause in seconds between two attempts to connect, where another server may take over.
LONGEST_PAUSE_SECONDS = 0.25

#: Seconds that an attempt to connect may take, where another server may take over. The first one
#: may take a second, and each one after that twice as long, up to this; a longer `reply_timeout`
#: takes the place of the second, and of this.
LONGEST_ATTEMPT_SECONDS = 4.0

#: A server that took longer than this to answer a new connection may have been frozen meanwhile.
SLOW_OPENING_SECONDS = 0.25


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


async def _at_once(_: Stream) -> bool:
    """End without waiting for anything."""
    return False


def _ignore(_: Stream) -> None:
    """Do nothing."""


def _drop(_: Stream, call: Call) -> bool:
    """Send it no more: nobody subscribes on this stream."""
    return False


def _is_news(name: bytes, refusal: str) -> bool:
    """Say that nobody was informed of it yet."""
    return False


def _unknown(_: Stream, then: Callable[[int | None], None]) -> None:
    """Say that the number of replicas is not known."""
    then(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """Functions of the client; each but `on_message` and `is_known` is called with the stream.

    Attributes:
        on_message: Called with channel and payload of every message.
        on_connected: Called when a connection is ready, before anything else is written to it.
        on_down: Called when the connection broke, or was refused for good.
        needed: Whether somebody relies on the connection even while no command is under way.
        on_end: Awaited when the background task is cancelled while it has a connection. The
            connection stays open until this returns; if it returns True, until nothing is `needed`.
        on_outlived: Called when that connection is closed.
        on_put_off: Called with a SUBSCRIBE or UNSUBSCRIBE that the server refused, when it is time
            to send it again; returns whether it still applies.
        is_known: Called with a channel and the reply that refused it; returns whether the log tells
            already that the same lock's other channel was refused so.
        count_replicas: Calls a function, now or later, with the number of replicas that the
            stream's master has according to other servers; with None if none of them knows.
    """

    on_message: Callable[[bytes, bytes], None]
    on_connected: Callable[[Stream], None]
    on_down: Callable[[Stream], None]
    needed: Callable[[Stream], bool]
    on_end: Callable[[Stream], Awaitable[bool]] = _at_once
    on_outlived: Callable[[Stream], None] = _ignore
    on_put_off: Callable[[Stream, Call], bool] = _drop
    is_known: Callable[[bytes, str], bool] = _is_news
    count_replicas: Callable[[Stream, Callable[[int | None], None]], None] = _unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """What a stream is made of.

    Attributes:
        opener: Opens connections.
        reply_timeout: Seconds after which a connection without an answer counts as dead.
        tell: The client's functions.
        outages: Is informed when the connection is lost, and when it is back.
        sharded: The server belongs to a cluster with sharded pub/sub.
        fails_over: Another server may become the master, so the role of this one is checked.
        topology: The other servers that may serve its keys.
    """

    opener: Opener
    reply_timeout: float
    tell: Callbacks
    outages: Outages
    sharded: bool = False
    fails_over: bool = False
    topology: Topology | None = None
