"""Giving back one of several acquisitions of a hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redisson_py._answers import RefusedError
from redisson_py._engine.hold import Hold
from redisson_py._engine.releasing import Judge, caused_by, release_failed, when_answered
from redisson_py._engine.server import Call, lease_from
from redisson_py._loop import Future
from redisson_py._options import TOMBSTONE as REMEMBERED
from redisson_py._time import now
from redisson_py.errors import ConnectionLostError

if TYPE_CHECKING:
    from redisson_py._engine.lease import Lease
    from redisson_py._engine.ownership import Ownership


def lower(ownership: Ownership, hold: Hold) -> Call:
    """Lower the hold count on the server to ours; shorten the lease to what is needed."""
    present = now()
    seconds = hold.lease_needed(ownership.context.options.lease_time, present)
    change = hold.begin_change(seconds)
    hold.lease_maybe_set(present, seconds)
    # Repeated for less time than the server remembers a later change.
    keep = min(seconds, REMEMBERED / 2)
    call = ownership.context.executor.lower(
        ownership.commands, hold, hold.count, seconds, keep, change
    )

    def lowered(done: Future[int | None]) -> None:
        ownership.context.watchdog.end_overdue(hold)
        hold.end_change(call)
        if done.exception() is not None:
            return
        if done.result() is None:
            ownership.context.watchdog.lose(hold, "taken")
        elif hold.state == "held" and hold.is_last_change(change):
            hold.lease_set(lease_from(call, present), seconds)

    when_answered(call, lowered)
    return call


def judge_of_lowered(
    ownership: Ownership,
    hold: Hold,
    lease: Lease,
    call: Call,
    let_go_at: float,
    was_valid: bool = False,
) -> Judge:
    """Return what judges the answer to `lower`.

    `was_valid`: the hold was not lost when the release was sent, at `let_go_at`.
    """
    # Asked now: who was cancelled has left its block when the answer comes.
    alone = lease._block is None and lease._composite is None

    def judge(done: Future[int | None]) -> BaseException | None:
        problem = error = done.exception()
        if isinstance(error, RefusedError):
            lease._release_failed(f"the server refused its release: {error}")
            problem = ownership.refusal(hold, lease, call, error)
            if alone and not call.uncertain:
                hold.release_refused(lease)
        elif isinstance(error, ConnectionLostError):
            problem = release_failed(ownership, lease, error)
        elif error is None:
            # If sent twice, the lease that the first copy set may have ended before the second.
            ended = call.uncertain and was_valid and now() >= hold.ends_at
            if done.result() is None and not ended:
                lease._lose_late("taken")
                problem = lease._loss()
        lease._tell_released(let_go_at)
        return caused_by(problem, error)

    return judge
