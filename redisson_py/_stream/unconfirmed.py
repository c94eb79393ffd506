"""The answer to a call that counts only when replicas have it too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from redisson_py._loop import Future, InvalidState

T = TypeVar("T")

_NOTHING = object()


class Unconfirmed(Future[Any]):
    """The future of a call: an answer that gives nothing is passed on at once, a grant waits.

    Where nothing has to be confirmed it is a future like any other.

    Args:
        gives: Returns whether a reply gives or keeps something, so that replicas must have it.

    Attributes:
        gated: Replicas have to confirm what it gives.
        reply: What the server has answered, of something that has to be confirmed.
        since: From when on the time of the replicas counts, in loop time; 0 before that.
    """

    def __init__(self, gives: Callable[[Any], bool]) -> None:
        super().__init__()
        self._gives = gives
        self.gated = False
        self.reply: Any = _NOTHING
        self.since = 0.0

    def set_result(self, result: Any) -> None:
        """Take the server's answer."""
        if not self.gated or not self._gives(result):
            super().set_result(result)
        elif self.done():
            raise InvalidState
        else:
            self.reply = result

    @property
    def is_held(self) -> bool:
        """Whether the server has answered, and the replicas have not."""
        return self.reply is not _NOTHING and not self.done()

    def confirm(self) -> None:
        """Pass the answer on: the replicas have it."""
        if self.is_held:
            super().set_result(self.reply)

    def begin(self, gated: bool, present: float) -> None:
        """The call is written; the time of the replicas may have begun while it waited for that."""
        self.gated = gated
        self.reply = _NOTHING
        self.since = self.since or present

    def begin_anew(self) -> None:
        """The call will be written once more: to another server, or on another connection."""
        self.gated = False
        self.reply = _NOTHING
        self.since = 0.0


def denied(future: Future[Any], asked: Sequence[T]) -> list[T]:
    """Return what the server has said no to, of a call that replicas have not confirmed."""
    if not isinstance(future, Unconfirmed) or future.reply is _NOTHING:
        return []
    return [each for each, given in zip(asked, future.reply, strict=True) if not given]
