"""Acquiring a lock once more for the task that holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redisson_py._answers import Granted
from redisson_py._engine import waiting
from redisson_py._engine.hold import Hold, lease_end, lost_error
from redisson_py._engine.lease import Lease, tell_acquired
from redisson_py._engine.request import AcquireRequest
from redisson_py._time import now

if TYPE_CHECKING:
    from redisson_py._engine.server_state import ServerState

#: Number of grants in a row that came too late to be used, after which `LeaseLostError` is raised.
STALE_GRANTS = 3


async def reenter(
    ownership: ServerState,
    hold: Hold,
    deadline: float | None,
    fails_fast: bool,
    lease_time: float | None,
) -> Lease:
    """Return the lease of one more acquisition; see `TaskOwnership.acquire` for its errors."""
    if fails_fast:
        deadline = None
    for _ in range(STALE_GRANTS):
        lease = await _ask(ownership, hold, deadline, fails_fast, lease_time)
        if lease is not None:
            return lease
        if hold.state != "held":
            break
    raise lost_error(ownership, hold.owner, 0.0, "ended")


async def _ask(
    ownership: ServerState,
    hold: Hold,
    deadline: float | None,
    fails_fast: bool,
    lease_time: float | None,
) -> Lease | None:
    """Ask once; return None if the lease was over before it could be used."""
    context = ownership.context
    lease = context.options.lease_time if lease_time is None else lease_time
    if hold.capped and hold.parent is not None:
        lease = min(lease, max(0.001, hold.parent.lease_until - now()))
    target, change = hold.begin_reentry(lease)
    request = AcquireRequest(
        ownership, hold.owner, target, lease, once=True, deadline=deadline, reentry=hold
    )
    request.change, request.fails_fast = change, fails_fast
    try:
        answer = await waiting.acquire(request, context.bus, deadline, once=True)
    except BaseException:
        unsure = request.uncertain or request.undone
        hold.end_reentry(unsure)
        _give_up(ownership, hold, unsure or hold.changed_since(request.change))
        raise
    hold.end_reentry(request.uncertain)
    if not isinstance(answer, Granted) or hold.state != "held":
        if isinstance(answer, Granted):
            # Lost while the request was under way: no other call would release the grant.
            ownership.undo_late(hold)
        context.watchdog.lose(hold, "taken")
        ownership.forget(hold)
        raise ownership.loss(hold)
    leased = hold.reentered(request.asked_at, request.sent_at, lease, request.change)
    limit = None if lease_time is None else lease_end(request.asked_at, lease_time)
    present = now()
    if limit is not None and limit <= present:
        _give_up(ownership, hold, granted=True)
        return None
    again = ownership.lease_kind(hold, limit, hold.token, present)
    was_renewed = hold.renewed
    hold.add_lease(again)
    if request.change is not change:
        ownership.lower(hold)  # Granted behind that release, it took the count of before.
    elif not leased or (was_renewed and not hold.renewed):
        # The outer lease was released meanwhile, which left the lease of a renewed hold.
        ownership.set_needed_lease(hold)
    context.counts.acquires += 1
    if context.teller is not None:
        tell_acquired(context.teller, again, 0.0)
    return again


def _give_up(ownership: ServerState, hold: Hold, granted: bool) -> None:
    """Give back what a re-entry was, or may have been, granted."""
    if hold.state == "held" and not hold.count:
        # Its last lease was released meanwhile, so this call must release the hold.
        ownership.give_back(hold)
    elif hold.state == "held" and granted:
        ownership.lower(hold)
