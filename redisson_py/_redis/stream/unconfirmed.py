"""The answer to a call that counts only when replicas have confirmed it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from redisson_py._loop import Future, InvalidState
from redisson_py.errors import ReplicationError

_NOTHING = object()

#: The text for the caller if too few replicas confirm what a call gives: a grant, or a new lease.
NOTHING_HELD = "{got} of {asked} replicas confirmed in time: nothing is held"
NEW_LEASE = (
    "only {got} of {asked} replicas confirmed the new lease; rely on the old or the new lease,"
    " whichever ends first"
)

NEW_RECORD = (
    "only {got} of {asked} replicas confirmed the record: it may be gone after a failover;"
    " ask again"
)


class Unconfirmed(Future[Any]):
    """The future of a call that may grant something: a grant waits for the replicas.

    An answer that grants nothing is passed on at once. Where nothing has to be confirmed, this is a
    future like any other.

    Args:
        gives: Returns whether a reply grants or keeps something, which replicas must confirm.
        partial: The reply is a list, and what grants nothing in it counts also if the rest is not
            confirmed: that is None then.
        short: The text of the error if too few confirm it.

    Attributes:
        gated: Replicas have to confirm a grant.
        reply: The server's answer, while the replicas have to confirm it.
        since: When the time of the replicas began, in loop time; 0 before that.
    """

    def __init__(
        self, gives: Callable[[Any], bool], *, partial: bool = False, short: str = NOTHING_HELD
    ) -> None:
        super().__init__()
        self._gives = gives
        self._partial = partial
        self._short = short
        self.gated: bool = False
        self.reply: Any = _NOTHING
        self.since: float = 0.0

    def set_result(self, result: Any) -> None:
        """Take the server's answer."""
        if not self.gated or not self._gives(result):
            super().set_result(result)
        elif self.done():
            raise InvalidState
        else:
            self.reply = result

    def set_exception(self, error: type[BaseException] | BaseException) -> None:
        """Take an error; a reply that the replicas have not confirmed may be good in part."""
        if self._partial and self.is_held:
            super().set_result([None if given else given for given in self.reply])
        else:
            super().set_exception(error)

    @property
    def is_held(self) -> bool:
        """Whether the server has answered and the replicas have not."""
        return self.reply is not _NOTHING and not self.done()

    def confirm(self) -> None:
        """Pass the answer on: the replicas have it."""
        if self.is_held:
            super().set_result(self.reply)
        self.gated = False

    def again(self) -> Unconfirmed:
        """Return another one for the same answer, whose caller was cancelled."""
        other = Unconfirmed(self._gives, partial=self._partial, short=self._short)
        other.gated, other.since = self.gated, self.since
        if self.reply is not _NOTHING:
            other.set_result(self.reply)
        return other

    def shortfall(self, asked: int, got: int) -> ReplicationError:
        """Return the error for the caller if too few replicas confirmed in time."""
        return ReplicationError(self._short.format(asked=asked, got=got), asked, got)

    def begin(self, gated: bool, present: float) -> None:
        """Note that the call is written; the time of the replicas may have begun before that."""
        self.gated = gated
        self.reply = _NOTHING
        self.since = self.since or present

    def begin_anew(self) -> None:
        """Note that the call will be written again: to another server or connection."""
        self.gated = False
        self.reply = _NOTHING
        self.since = 0.0
