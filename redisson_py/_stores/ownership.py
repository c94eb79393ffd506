"""Holds in a store that ends none: this client does, and renews them until then."""

from __future__ import annotations

from typing import Any

from redisson_py._answers import Granted
from redisson_py._engine.hold import Hold, Lease, lease_end
from redisson_py._engine.request import AcquireRequest
from redisson_py._engine.task_ownership import TaskOwnership
from redisson_py._engine.waiting import HeadStart
from redisson_py._loop import Task
from redisson_py._time import now


class EndedHere(TaskOwnership):
    """The holds of one client's tasks on one lock, whose `lease_time` this client ends.

    The store keeps them for as long as the client's session lives, so a `lease_time` is what a
    `max_hold` is elsewhere.
    """

    __slots__ = ()

    def new_request(
        self,
        task: Task,
        lease_time: float | None,
        head_start: HeadStart | None = None,
        *,
        once: bool,
        deadline: float | None,
    ) -> AcquireRequest:
        """Return the request for a new hold of a task: one that is renewed."""
        return super().new_request(task, None, head_start, once=once, deadline=deadline)

    def granted(
        self, request: AcquireRequest, task: Task, lease_time: float | None, answer: Granted
    ) -> Hold:
        """Return the hold of a granted request."""
        return super().granted(request, task, None, answer)

    def take(
        self,
        hold: Hold,
        task: Task,
        lease_time: float | None,
        present: float,
        waited: float = 0.0,
    ) -> Lease:
        """Give a granted or passed hold to the current task."""
        lease = super().take(hold, task, None, present, waited)
        if lease_time is not None:
            hold.keep_until(lease_end(present, lease_time), lease)
        return lease

    async def reenter(
        self, hold: Hold, deadline: float | None, fails_fast: bool, lease_time: float | None
    ) -> Lease:
        """Acquire it once more for the task that holds it."""
        lease = await super().reenter(hold, deadline, fails_fast, None)
        if lease_time is not None:
            hold.keep_until(lease_end(now(), lease_time), lease)
        return lease

    async def extend(self, lease: Lease, lease_time: float) -> None:
        """Set when a lease ends; raise if the store says that it is gone.

        The end is set here, so it counts whether or not the caller waits for what the store says.
        """
        self.context.check()
        hold: Any = lease._hold
        ends_at = lease_end(now(), lease_time)
        hold.keep_until(ends_at, lease)
        if hold.ends_at < ends_at:
            # It was renewed to its earlier end.
            self.set_needed_lease(hold)
        if not await self.view.is_there(hold):
            self.context.watchdog.lose(hold, "taken")
        if hold.state != "held" or lease._state == "lost":
            raise lease._loss()
