"""Releasing, for every kind: send it, wait for the answer, and record what the answer means.

A release is carried out whether its caller waits or was cancelled. Its answer may say that the hold
was gone, or that the server refuses; `Release.judge` decides what follows and is called with the
answer in any case. If nobody is left to raise an error to, it goes to the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

from redisson_py._answers import RefusedError
from redisson_py._engine.hold import Hold, Lease, lose_late, release_failed, tell_released
from redisson_py._engine.server import Call
from redisson_py._loop import Future
from redisson_py._time import now
from redisson_py.errors import ClientClosedError, ConnectionLostError, ReleaseFailedError

log = logging.getLogger("redisson_py")


class Releaser(Protocol):
    """Sends releases, and hears what became of them."""

    def ended(self, reply: Any, own_message: int) -> None:
        """End the release of a whole hold, by its answer; None if there is no good one."""

    def was_lost(self, reply: Any) -> bool:
        """Return whether the answer to the release of a whole hold says that it was gone."""
        ...

    def refusal(self, hold: Any, lease: Any, call: Call, error: RefusedError) -> Exception:
        """Return the error for a refusal, which may mean a loss."""
        ...


class Release:
    """The release of a whole hold, on its way.

    Args:
        releaser: Who has sent it.
        hold: The hold.
        lease: Its last lease.
        call: The request.
        let_go_at: When its holder let go of it.
        was_valid: Its holder could rely on it until then.
        own_message: The number that its message has on the channel; 0: this client hears none.
    """

    __slots__ = (
        "_hold",
        "_lease",
        "_let_go_at",
        "_own_message",
        "_releaser",
        "_was_valid",
        "call",
    )

    def __init__(
        self,
        releaser: Releaser,
        hold: Hold,
        lease: Lease,
        call: Call,
        let_go_at: float,
        was_valid: bool,
        own_message: int = 0,
    ) -> None:
        self._releaser = releaser
        self._hold = hold
        self._lease = lease
        self.call = call
        self._let_go_at = let_go_at
        self._was_valid = was_valid
        self._own_message = own_message

    async def wait(self) -> None:
        """Wait for the answer, and raise the error that it means."""
        answer, reply, error = self.call.future, None, None
        try:
            reply = await answer
        except BaseException as raised:
            if not answer.done() or answer.cancelled() or answer.exception() is not raised:
                self.leave()
                raise
            error = raised
        problem = self.judge(reply, error)
        if problem is not None:
            raise problem from problem.__cause__

    def leave(self) -> None:
        """Have its answer judged although nobody waits for it any more."""

        def answered(done: Future[Any]) -> None:
            error = done.exception()
            report(self.judge(None if error is not None else done.result(), error))

        self.call.unattended().add_done_callback(answered)

    def judge(self, reply: Any, error: BaseException | None) -> BaseException | None:
        """Record what the answer means; return the error to raise, if it is one."""
        self._releaser.ended(reply, self._own_message)
        problem = error
        if error is None:
            if not reply and self._releaser.was_lost(reply):
                problem = self._found_gone(reply)
        elif isinstance(error, RefusedError):
            problem = self._refused(error)
        elif isinstance(error, ConnectionLostError) and self._was_valid:
            problem = self._unanswered(error)
        elif isinstance(error, ConnectionLostError):
            problem = lose_late(self._lease)
        if self._hold.ownership.context.teller is not None:
            tell_released(self._lease, self._let_go_at)
        return None if problem is None else caused_by(problem, error)

    def _found_gone(self, reply: Any) -> Exception | None:
        """Return the error of a release that did not find its hold; None if an earlier copy did."""
        hold = self._hold
        if not self._was_valid:
            # It was over by the clock when this was sent, so the reason is not "taken".
            return lose_late(self._lease)
        if reply is None and self.call.uncertain:
            return None
        if now() < hold.ends_at:
            return lose_late(self._lease, "taken")
        # The lease was in force when its holder let go of it, so that is no loss.
        return self._failed(
            f"the server did not release {self._releaser!r} before its lease ended", held=False
        )

    def _refused(self, error: RefusedError) -> Exception:
        """Return the error of a release that the server refused."""
        release_failed(self._lease, f"the server refused its release: {error}")
        return self._releaser.refusal(self._hold, self._lease, self.call, error)

    def _unanswered(self, error: ConnectionLostError) -> ReleaseFailedError:
        """Return the error of a release that got no answer."""
        text = f"the release of {self._releaser!r} got no answer ({error}) and is repeated until"
        return self._failed(f"{text} the lease ends", held=True)

    def _failed(self, text: str, *, held: bool) -> ReleaseFailedError:
        """Return the error of a failed release, and record it for the next one."""
        release_failed(self._lease, text)
        return ReleaseFailedError(text, maybe_held=held)


class PartRelease(Release):
    """The release of one acquisition of several, or of some units, on its way."""

    __slots__ = ("_alone",)

    def __init__(
        self,
        releaser: Releaser,
        hold: Hold,
        lease: Lease,
        call: Call,
        let_go_at: float,
        was_valid: bool,
    ) -> None:
        super().__init__(releaser, hold, lease, call, let_go_at, was_valid)
        # Asked now: who is cancelled has left its block when the answer comes.
        self._alone = lease._block is None and lease._composite is None

    def judge(self, reply: Any, error: BaseException | None) -> BaseException | None:
        """Record what the answer means; return the error to raise, if it is one."""
        hold, lease, call = self._hold, self._lease, self.call
        problem = error
        if isinstance(error, RefusedError):
            problem = self._refused(error)
            if self._alone and not call.uncertain:
                hold.release_refused(lease)
        elif isinstance(error, ConnectionLostError):
            problem = self._unanswered(error)
        elif error is None and reply is None and not self._ended_between():
            problem = lose_late(lease, "taken")
        tell_released(lease, self._let_go_at)
        return None if problem is None else caused_by(problem, error)

    def _ended_between(self) -> bool:
        """Whether it may have been sent twice, and the lease that it set ended in between."""
        return self.call.uncertain and self._was_valid and now() >= self._hold.ends_at


def when_answered(call: Call, decide: Callable[[Future[Any]], object]) -> None:
    """Call `decide` with the answer to a request, also if its caller is cancelled meanwhile."""

    def answered(done: Future[Any]) -> None:
        if done.cancelled():
            call.unattended().add_done_callback(decide)
        else:
            decide(done)

    call.future.add_done_callback(answered)


def report(problem: BaseException | None) -> None:
    """Log an error that nobody waits for."""
    if problem is not None and not isinstance(problem, ClientClosedError):
        log.warning("a release failed after its caller was cancelled: %s", problem)


def caused_by(problem: BaseException, cause: BaseException | None) -> BaseException:
    """Return an error with its cause, unless it is that itself."""
    if problem is not cause:
        problem.__cause__ = cause
    return problem
