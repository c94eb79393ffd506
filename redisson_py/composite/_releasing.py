"""Giving back the members of a composite; their answers decide, also if the caller is cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from redisson_py._engine.lease import Lease
from redisson_py._engine.releasing import report
from redisson_py.composite._gather import Gather
from redisson_py.composite._hold import CompositeHold, CompositeLease
from redisson_py.composite._member import release_all, release_pending
from redisson_py.errors import BackendError

if TYPE_CHECKING:
    from redisson_py.composite._ownership import CompositeOwnership


async def release_members(
    ownership: CompositeOwnership, lease: CompositeLease, was_lost: bool, let_go_at: float
) -> None:
    """Give the leases of the members back; raise if too few of them held."""
    members, hold = lease._members, lease._hold
    assert isinstance(hold, CompositeHold)
    gone = [member for member in members if member._told or member._state == "lost"]
    releases = release_all(members)
    if hold.state != "held":
        release_pending(hold.pending)

    def judge() -> BaseException | None:
        problem = _judge(ownership, lease, gone, was_lost, releases)
        lease._tell_released(let_go_at)
        return problem

    try:
        await ownership.settle(releases)
    except BaseException:
        releases.when_ended(lambda: report(judge()))
        raise
    problem = judge()
    if problem is not None:
        raise problem


def _judge(
    ownership: CompositeOwnership,
    lease: CompositeLease,
    gone: Sequence[Lease],
    was_lost: bool,
    releases: Gather[object],
) -> BaseException | None:
    """Record what the answers of the members mean; return the error to raise, if any."""
    members = lease._members
    found_lost = [each for each in members if each not in gone and each._state == "lost"]
    if not was_lost and len(members) - len(gone) - len(found_lost) < ownership.needed:
        lease._lose_late(found_lost[-1]._reason if found_lost else "taken")
        was_lost = True
    if was_lost:
        return lease._loss()
    failure = ownership.failure(releases)
    if isinstance(failure, BackendError):
        lease._release_failed(str(failure))
    return failure
