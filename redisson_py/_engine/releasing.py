"""What the answer to a release means: the same whether its caller waits or was cancelled.

A cancelled release is carried out. Its answer may say that the hold was gone, or that the server
refuses; the one place that decides what follows is called with the answer in any case. If nobody is
left to raise an error to, it goes to the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from redisson_py._answers import RefusedError
from redisson_py._engine.hold import Hold
from redisson_py._engine.server import Call
from redisson_py._loop import Future, running_loop
from redisson_py._time import now
from redisson_py.errors import (
    ClientClosedError,
    ConnectionLostError,
    RedissonError,
    ReleaseFailedError,
)

if TYPE_CHECKING:
    from redisson_py._engine.lease import Lease
    from redisson_py._engine.ownership import LastRelease, Ownership

log = logging.getLogger("redisson_py")

Judge = Callable[[Future[Any]], BaseException | None]
"""Records what an answer means, and returns the error to raise, if it is one."""

Release = tuple[Call, int, bool, float]
"""A release under way: its call, the number that its message has on the channel (0: not heard),
whether the hold was valid when it was sent, and when that was."""


async def give_back(lease: Lease) -> None:
    """Give back one acquisition; see `Lease.release`."""
    await finish(lease, lease._hold.ownership.begin_last_release(running_loop(), lease))


async def finish(lease: Lease, last: LastRelease | None) -> None:
    """Give back one acquisition whose release was begun, if it could be in one step."""
    if last is None:
        await lease._hold.ownership.release(lease)
        return
    releasing, hold, release = last
    if release is None:
        return
    call, own_message, _, _ = release
    try:
        reply = await call.future
    except RedissonError:
        # `finish_release` awaits the future again and handles the error.
        reply = None
    except BaseException:
        hear_alone(call, judge_of_release(releasing, hold, lease, release))
        raise
    if reply:
        releasing.left(reply, own_message)
    else:
        await releasing.finish_release(hold, lease, release)


def when_answered(call: Call, decide: Callable[[Future[Any]], object]) -> None:
    """Call `decide` with the answer to a request, also if its caller is cancelled meanwhile."""

    def answered(done: Future[Any]) -> None:
        if done.cancelled():
            call.unattended().add_done_callback(decide)
        else:
            decide(done)

    call.future.add_done_callback(answered)


async def hear(call: Call, judge: Judge) -> None:
    """Wait for the answer to a request, and raise the error that it means."""
    answer = call.future
    try:
        await answer
    except BaseException as error:
        if not answer.done() or answer.cancelled() or answer.exception() is not error:
            hear_alone(call, judge)
            raise
    problem = judge(answer)
    if problem is not None:
        raise problem from problem.__cause__


def hear_alone(call: Call, judge: Judge) -> None:
    """Have the answer to a request judged whose caller was cancelled."""
    call.unattended().add_done_callback(lambda done: report(judge(done)))


def report(problem: BaseException | None) -> None:
    """Log an error that nobody waits for."""
    if problem is not None and not isinstance(problem, ClientClosedError):
        log.warning("a release failed after its caller was cancelled: %s", problem)


def judge_of_release(ownership: Ownership, hold: Hold, lease: Lease, release: Release) -> Judge:
    """Return what judges the answer to the release of a whole hold."""
    return partial(_judge, ownership, hold, lease, release)


def _judge(
    ownership: Ownership, hold: Hold, lease: Lease, release: Release, done: Future[Any]
) -> BaseException | None:
    call, own_message, was_valid, let_go_at = release
    error = done.exception()
    reply = None if error is not None else done.result()
    ownership.left(reply, own_message)
    problem = error
    if error is None:
        sure = not (reply is None and call.uncertain and was_valid)
        if not reply and ownership.commands.was_lost(reply) and sure:
            if was_valid and now() >= hold.ends_at:
                problem = _too_late(ownership, lease)
            else:
                # If it was over by the clock when this was sent, the reason is not "taken".
                lease._lose_late("taken" if was_valid else lease._overdue_reason)
                problem = lease._loss()
    elif isinstance(error, RefusedError):
        lease._release_failed(f"the server refused its release: {error}")
        problem = ownership.refusal(hold, lease, call, error)
    elif isinstance(error, ConnectionLostError) and was_valid:
        problem = release_failed(ownership, lease, error)
    elif isinstance(error, ConnectionLostError):
        lease._lose_late(lease._overdue_reason)
        problem = lease._loss()
    lease._tell_released(let_go_at)
    return caused_by(problem, error)


def caused_by(problem: BaseException | None, cause: BaseException | None) -> BaseException | None:
    """Return an error with its cause, unless it is that itself."""
    if problem is not None and problem is not cause:
        problem.__cause__ = cause
    return problem


def _too_late(ownership: Ownership, lease: Lease) -> ReleaseFailedError:
    """Return the error of a release that found nothing, when its lease could have ended meanwhile.

    The lease was in force when its holder let go of it, so that is no loss.
    """
    failed = ReleaseFailedError(
        f"the server did not release {ownership!r} before its lease ended",
        maybe_held=False,
    )
    lease._release_failed(str(failed))
    return failed


def release_failed(
    ownership: Ownership, lease: Lease, error: ConnectionLostError
) -> ReleaseFailedError:
    """Return the error of a release that got no answer, and record it for the next one."""
    failed = ReleaseFailedError(
        f"the release of {ownership!r} got no answer ({error}) and is repeated until the lease"
        " ends",
        maybe_held=True,
    )
    lease._release_failed(str(failed))
    return failed
