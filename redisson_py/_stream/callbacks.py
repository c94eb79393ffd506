"""What a stream tells its client, and asks of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from redisson_py._stream.stream import Stream


async def _at_once(_: Stream) -> bool:
    """End without waiting for anything."""
    return False


def _ignore(_: Stream) -> None:
    """Do nothing."""


def _unknown(_: Stream, then: Callable[[int | None], None]) -> None:
    """Know of no replicas."""
    then(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """Functions of the client, each called with the stream but the first.

    Attributes:
        on_message: Called with channel and payload of every message.
        on_connected: Called when a connection is ready, before anything else is written to it.
        on_down: Called when the connection broke, or could not be opened for good.
        needed: Whether somebody relies on the connection even while no command is under way.
        on_end: Awaited when the background task is cancelled while it has a connection, which
            it then keeps for that long; and if it returns True until nothing is `needed`.
        on_outlived: Called when that connection is closed.
        count_replicas: Calls a function, now or later, with how many replicas the stream's master
            has as far as other servers know; with None if nobody says it.
    """

    on_message: Callable[[bytes, bytes], None]
    on_connected: Callable[[Stream], None]
    on_down: Callable[[Stream], None]
    needed: Callable[[Stream], bool]
    on_end: Callable[[Stream], Awaitable[bool]] = _at_once
    on_outlived: Callable[[Stream], None] = _ignore
    count_replicas: Callable[[Stream, Callable[[int | None], None]], None] = _unknown
