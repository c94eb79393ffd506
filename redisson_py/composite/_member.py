"""What a composite needs of a member that one server keeps: asked once, handed over, given back."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import cast

from redisson_py._commands.replies import Busy, Granted
from redisson_py._engine.block import give_back
from redisson_py._engine.lease import Lease
from redisson_py._engine.request import AcquireRequest
from redisson_py._loop import Task
from redisson_py._stream.stream import Stream
from redisson_py._time import now
from redisson_py.composite._gather import Gather
from redisson_py.errors import RedissonError
from redisson_py.locks._ownership import TaskOwnership

#: Requests that were sent and not answered yet, by the member.
Pending = dict[TaskOwnership, AcquireRequest]


class NotGrantedError(Exception):
    """Raised by `grant` when a member is busy."""

    def __init__(self, retry_in: float | None) -> None:
        super().__init__("busy" if retry_in is None else f"busy for {retry_in:.3f} s")
        self.retry_in = retry_in


async def grant(
    member: TaskOwnership,
    task: Task,
    lease_time: float | None,
    deadline: float | None,
    pending: Pending,
) -> Lease:
    """Return a lease of a member for a task; what the task holds already it enters again.

    Redis is asked a single time, whatever the local queue says. If this is cancelled, or there
    is no answer in time, nothing is held.

    Args:
        member: The member.
        task: The task that wants it.
        lease_time: Seconds; None for the watchdog's.
        deadline: Until when to wait for the answer, in loop time.
        pending: Has the request until it is answered. A caller that takes it out must release
            what the request will get; then it counts as busy.

    Raises:
        NotGrantedError: It is busy.
    """
    context = member.context
    context.check()
    held = member.holds.of(task)
    if held is not None and held.state == "held" and member.can_enter_again(held):
        return await member.reenter(held, deadline, lease_time)
    stream = stream_of(member)
    if stream.full:
        await stream.room()
    request = member.new_request(task, lease_time, once=True, deadline=deadline)
    parent = request.parent
    if parent is not None:
        parent.count_read(1)
    hold = None
    try:
        call = request.send(deadline)
        pending[member] = request
        if parent is None and lease_time is None:
            with suppress(RedissonError):
                # An error is raised once more by the future, below, and dealt with there.
                reply = await call.future
                lease = None
                if member in pending:
                    lease = member.plain_lease(request, task, reply, now())
                if lease is not None:
                    del pending[member]
                    return lease
        answer = await request.run(deadline)
        released = pending.pop(member, None) is None
        if isinstance(answer, Granted) and not released:
            hold = member.granted(request, task, lease_time, answer)
            return member.take(hold, task, lease_time, now())
        if released and call.sends > 1:
            # Sent again, because the server did not know the script or the connection broke, it
            # may have arrived after that release.
            request.send_undo()
        if isinstance(answer, Busy) and answer.queued:
            # A duplicate of it may still be granted.
            request.undo()
        raise NotGrantedError(answer.retry_in if isinstance(answer, Busy) else None)
    except NotGrantedError:
        raise
    except BaseException:
        pending.pop(member, None)
        request.undo()
        raise
    finally:
        if parent is not None and hold is None:
            parent.count_read(-1)


def release_pending(pending: Pending) -> None:
    """Send the releases of what was asked for and not answered yet; the replies are ignored."""
    for member, request in list(pending.items()):
        del pending[member]
        request.release_unanswered()


def release_all(leases: Sequence[Lease]) -> Gather[None]:
    """Send the releases of all leases that were not released yet, the newest first."""
    return Gather(give_back(lease) for lease in reversed(leases) if not lease._told)


def hand_over(lease: Lease, task: Task) -> Lease:
    """Give the hold of a member to another task; return the lease that it has there."""
    hold = lease._hold
    lease._settle()
    hold.pass_to(weakref.ref(task))
    return cast("TaskOwnership", hold.ownership).take(hold, task, None, now())


def is_waited_for(member: TaskOwnership) -> bool:
    """Return whether a task of this client waits for a member by itself."""
    queue = member.queue
    if member.context.waiters[member.waiting_key] > 0:
        return True
    return queue is not None and queue.waiting > 0


def is_ahead(member: TaskOwnership, task: Task) -> bool:
    """Return whether asking once would overtake: tasks that wait here, or another process' turn."""
    queue = member.queue
    return queue is not None and not is_held_by(member, task) and queue.is_ahead


def is_occupied(member: TaskOwnership, task: Task) -> bool:
    """Return whether asking is no use now: others here wait or hold, or another process is due."""
    if is_held_by(member, task):
        return False
    queue = member.queue
    if queue is None or is_waited_for(member):
        return is_waited_for(member)
    held = queue.hold is not None and queue.hold.valid
    return held or queue.releasing or queue.turn is not None


def is_held_by(member: TaskOwnership, task: Task) -> bool:
    """Return whether a task holds a member."""
    hold = member.holds.of(task)
    return hold is not None and hold.state == "held"


def stream_of(member: TaskOwnership) -> Stream:
    """Return the stream to the server of a member."""
    return member.context.executor.router.stream_for(member.commands.key)
