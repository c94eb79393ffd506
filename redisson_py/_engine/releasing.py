"""What the answer to a release means: the same whether its caller waits or was cancelled.

A cancelled release is carried out. Its answer may say that the hold was gone, or that the server
refuses; the one place that decides what follows is called with the answer in any case. If nobody is
left to raise an error to, it goes to the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from redisson_py._engine.server import Call
from redisson_py._loop import Future, running_loop
from redisson_py.errors import (
    ClientClosedError,
    RedissonError,
)

if TYPE_CHECKING:
    from redisson_py._engine.hold import Lease

log = logging.getLogger("redisson_py")

Judge = Callable[[Future[Any]], BaseException | None]
"""Records what an answer means, and returns the error to raise, if it is one."""

Release = tuple[Call, int, bool, float]
"""A release under way: its call, the number that its message has on the channel (0: not heard),
whether the hold was valid when it was sent, and when that was."""


class Releaser(Protocol):
    """Hears the answer to the release of a whole hold."""

    def left(self, reply: int | None, own_message: int) -> None:
        """End a release that found the hold."""

    async def finish_release(self, hold: Any, lease: Lease, release: Release) -> None:
        """Wait for the answer to a release; raise if it found that the hold was lost."""

    def judge_of_release(self, hold: Any, lease: Lease, release: Release) -> Judge:
        """Return what judges the answer to the release of a whole hold."""
        ...


LastRelease = tuple[Releaser, Any, Release | None]
"""A release under way of a hold that had one lease, or None if it was passed on. When it is
answered `left` must follow, or `finish_release` if the reply is not plain."""


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
        hear_alone(call, releasing.judge_of_release(hold, lease, release))
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


def caused_by(problem: BaseException | None, cause: BaseException | None) -> BaseException | None:
    """Return an error with its cause, unless it is that itself."""
    if problem is not None and problem is not cause:
        problem.__cause__ = cause
    return problem
