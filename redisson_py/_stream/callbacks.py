"""The functions by which a stream informs its client, and asks it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from redisson_py._stream.call import Call
    from redisson_py._stream.stream import Stream


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
