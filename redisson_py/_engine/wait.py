"""Counts one caller's wait, and tells a listener of its start and end."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from redisson_py._keys import Name
from redisson_py._listener import WaitEndedEvent, WaitOutcome, WaitStartedEvent
from redisson_py._time import now

if TYPE_CHECKING:
    from redisson_py._engine.context import Context


class Wait:
    """Wraps a call that may have to wait; one that does not wait is not reported.

    As a block it ends the wait with an outcome, unless one was reported before: granted when the
    block is left normally, else cancelled or failed.

    Args:
        context: The client that counts it.
        kind: The kind of synchronizer, in words for messages.
        name: Its name.
        outer: The wait of the composite of which this is a member; it is reported instead.
    """

    __slots__ = ("_context", "_kind", "_name", "_outer", "_since")

    def __init__(self, context: Context, kind: str, name: Name, outer: Wait | None = None) -> None:
        self._context = context
        self._kind = kind
        self._name = name
        self._outer = outer
        self._since: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._since is not None:
            if kind is None:
                self._end("granted")
            else:
                self._end("failed" if issubclass(kind, Exception) else "cancelled")

    def start(self, since: float | None = None) -> None:
        """Start the wait now or at `since`; a second call changes nothing."""
        if self._outer is not None:
            self._outer.start(since)
        elif self._since is None:
            self._since = now() if since is None else since
            if (teller := self._context.teller) is not None:
                teller.tell("wait_started", WaitStartedEvent(self._name, self._kind))

    def granted(self) -> float:
        """End the wait as granted; return its seconds."""
        return 0.0 if self._since is None else self._end("granted")

    def timed_out(self, once: bool) -> None:
        """End the wait as timed out; with `once` the caller did not wait."""
        if not once and self._outer is None:
            self.start()
            self._context.counts.timeouts += 1
            self._end("timeout")

    def _end(self, outcome: WaitOutcome) -> float:
        assert self._since is not None
        seconds, self._since = now() - self._since, None
        self._context.counts.wait_ended(seconds)
        if (teller := self._context.teller) is not None:
            system = self._context.system
            event = WaitEndedEvent(self._name, self._kind, seconds, outcome, system)
            teller.tell("wait_ended", event)
        return seconds
