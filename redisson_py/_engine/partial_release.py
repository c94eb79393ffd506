"""Giving back one of several acquisitions of a hold, and a release that gets no answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redisson_py._answers import RefusedError
from redisson_py._engine.hold import Hold
from redisson_py._engine.server import Call, lease_from
from redisson_py._options import TOMBSTONE
from redisson_py._time import milliseconds, now
from redisson_py.errors import ConnectionLostError, ReleaseFailedError

if TYPE_CHECKING:
    from redisson_py._engine.lease import Lease
    from redisson_py._engine.ownership import Ownership


def lower(ownership: Ownership, hold: Hold) -> Call:
    """Lower the hold count on the server to ours; shorten the lease to what is needed."""
    present = now()
    seconds = hold.lease_needed(ownership.context.options.lease_time, present)
    version, keep = hold.begin_change(seconds)
    hold.lease_maybe_set(present, seconds)
    version_ms = milliseconds(TOMBSTONE) if keep else 0
    args = ownership.commands.release(
        hold, hold.count, milliseconds(seconds), 0, version, version_ms
    )
    # The server can forget a later change once a tombstone has ended.
    call = ownership.start_release(args, min(seconds, TOMBSTONE / 2), in_line=True)

    def lowered(_: object) -> None:
        ownership.context.watchdog.end_overdue(hold)
        hold.end_change(call)
        done = call.future
        if done.cancelled() or done.exception() is not None:
            return
        if done.result() is None:
            ownership.context.watchdog.lose(hold, "taken")
        elif hold.state == "held" and hold.is_last_change(version):
            hold.lease_set(lease_from(call, present), seconds)

    call.future.add_done_callback(lowered)
    return call


async def answer_lowered(
    ownership: Ownership, hold: Hold, lease: Lease, call: Call, was_valid: bool = False
) -> None:
    """Wait for the answer to `lower`; raise if it found that the hold was lost.

    `was_valid`: the hold was not lost when the release was sent.
    """
    try:
        reply = await call.future
    except RefusedError as error:
        lease._release_failed(f"the server refused that: {error}")
        raise ownership.refusal(hold, lease, call, error) from error
    except ConnectionLostError as error:
        raise release_failed(ownership, lease, error) from error
    # If sent twice, the lease that the first copy set may have ended before the second came.
    ended = call.uncertain and was_valid and now() >= hold.ends_at
    if reply is None and not ended:
        lease._lose_late("taken")
        raise lease._loss()


def release_failed(
    ownership: Ownership, lease: Lease, error: ConnectionLostError
) -> ReleaseFailedError:
    """Return the error of a release that got no answer, and record it for the next one."""
    failed = ReleaseFailedError(
        f"the release of {ownership!r} got no answer ({error}); it is repeated until its lease"
        " ends",
        maybe_held=True,
    )
    lease._release_failed(str(failed))
    return failed
