"""What clients of all stores do in the same way: their counters, and letting go of everything."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from redisson_py._engine.context import Context
from redisson_py._engine.hold import Hold
from redisson_py._statistics import ClientStatistics, FrozenCounts
from redisson_py.errors import ClientClosedError

log = logging.getLogger("redisson_py")

#: Most holds that the warning of a closing client names.
_NAMED = 10


def statistics_of(
    context: Context, *, commands_sent: int, connections: int, evictions: int = 0
) -> ClientStatistics:
    """Return the counters of a client."""
    counts, watchdog = context.counts, context.watchdog
    return ClientStatistics(
        waiters=context.registry.waiting + context.waiters.total(),
        held_leases=sum(len(hold.live) for hold in watchdog.holds),
        renewals=watchdog.renewals,
        losses=sum(counts.losses.values()),
        wake_ups=context.bus.table.wakeups,
        commands_sent=commands_sent,
        connections=connections,
        acquires=counts.acquires,
        waits=counts.waits,
        waited=counts.waited,
        longest_wait=counts.longest_wait,
        timeouts=counts.timeouts,
        losses_by_reason=FrozenCounts(counts.losses),
        reconnects=counts.reconnects,
        late_renewals=counts.late_renewals,
        evictions=evictions,
    )


def let_go(context: Context, error: ClientClosedError, holds: Sequence[Hold]) -> None:
    """Undo requests, raise `error` in waiters, and give back holds, without waiting."""
    for request in list(context.pending):
        request.give_up(error)
    context.registry.close(error)
    context.leave_queues()
    if holds:
        some = [f"{hold.ownership.kind} {hold.ownership.name!r}" for hold in holds[:_NAMED]]
        more = f" and {len(holds) - _NAMED} more" if len(holds) > _NAMED else ""
        log.warning("closing while still holding %s%s", ", ".join(some), more)
    for hold in holds:
        for lease in hold.live:
            lease._close(error)
        hold.ownership.give_back(hold)
