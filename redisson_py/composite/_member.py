"""Operations of a composite on a member with one server: ask once, hand over, release."""

from __future__ import annotations

import weakref
from collections.abc import Coroutine, Sequence
from contextvars import Context, copy_context
from typing import Any, cast

from redisson_py._answers import Busy, Granted
from redisson_py._engine.hold import Keeper, Lease, hold_of, tell_released, to_release
from redisson_py._engine.ownership import WholeRelease
from redisson_py._engine.request import AcquireRequest
from redisson_py._engine.server import Way
from redisson_py._engine.task_ownership import TaskOwnership
from redisson_py._loop import Task, running_loop
from redisson_py._time import now
from redisson_py.composite._gather import Gather, Sent
from redisson_py.errors import RedissonError

#: Unanswered requests by member.
Pending = dict[TaskOwnership, AcquireRequest]


class NotGrantedError(Exception):
    """Raised by what `ask` returns when a member is busy."""

    def __init__(self, retry_in: float | None) -> None:
        super().__init__("busy" if retry_in is None else f"busy for {retry_in:.3f} s")
        self.retry_in = retry_in


def ask(
    member: TaskOwnership,
    way: Way | None,
    task: Task,
    lease_time: float | None,
    deadline: float | None,
    pending: Pending,
    *,
    fails_fast: bool = False,
    waits: bool = False,
) -> Sent[Lease] | Coroutine[Any, Any, Lease]:
    """Ask for a lease of a member for a task, as a re-entry if the task holds the member.

    The server is asked a single time, whatever the local queue says. If this is cancelled, or there
    is no answer in time, nothing is held. The operation raises `NotGrantedError` if it is busy.

    Args:
        member: The member.
        way: The way to its server, if what is sent now is written at once.
        task: The task that wants it.
        lease_time: Seconds; None for the watchdog's.
        deadline: The end of the wait for the answer, in loop time.
        pending: Keeps the request until it is answered. A caller that removes it must release
            what the request will be granted; then it counts as busy.
        fails_fast: The first failed attempt to connect fails the request.
        waits: The task has waited for the member, and cannot stand in the queue of clients.
    """
    holds = member.holds
    if (
        lease_time is not None
        or running_loop() is not member.context.executor.loop
        or ((holds.first is not None or holds.more) and holds.of(task) is not None)
        # It may be read under a write hold, or refused to a reader.
        or member.writes
        or member.reads
        or way is None
    ):
        return _grant(
            member, task, lease_time, deadline, pending, None, fails_fast=fails_fast, waits=waits
        )
    request = member.new_request(task, None, once=True, deadline=deadline)
    if waits or (member.queue is not None and member.queue.yields_until):
        request.yields = _yields(member, waits)
    granted = _Grant(member, task, request, pending)
    request.send(deadline, way, granted).fails_fast = fails_fast
    pending[member] = request
    return granted


def _yields(member: TaskOwnership, waits: bool) -> int:
    """See `AcquireValues.yields`."""
    queue = member.queue
    if waits or queue is None or not queue.yields_until:
        return -1 if waits else 0
    return int(queue.take_yield(once=False))


class _Grant(Sent[Lease]):
    """A plain request to a member, on its way."""

    __slots__ = ("_caller", "_member", "_pending", "_request", "_task")

    def __init__(
        self,
        member: TaskOwnership,
        task: Task,
        request: AcquireRequest,
        pending: Pending,
    ) -> None:
        super().__init__()
        self._member = member
        self._task = task
        self._request = request
        self._pending = pending
        # The answer arrives in the connection's context; a listener runs in the caller's.
        self._caller = None if member.context.teller is None else copy_context()

    def finish(self, reply: Any) -> Lease | None:
        member, pending = self._member, self._pending
        if member not in pending:
            call = self._request.call
            if call is None or call.sends > 1:
                return None
            # Its grant was released right behind it.
            self._request.answered()
            raise NotGrantedError(None)
        if self._caller is None:
            lease = member.plain_lease(self._request, self._task, reply, now())
        else:
            arguments = self._request, self._task, reply, now()
            lease = self._caller.run(member.plain_lease, *arguments)
        if lease is not None:
            del pending[member]
        return lease

    def resume(self) -> Coroutine[Any, Any, Lease]:
        request = self._request
        return _grant(
            *(self._member, self._task, None, request.deadline, self._pending, request),
            caller=self._caller,
        )

    def abandon(self) -> None:
        self._pending.pop(self._member, None)
        self._request.undo()


async def _grant(
    member: TaskOwnership,
    task: Task,
    lease_time: float | None,
    deadline: float | None,
    pending: Pending,
    begun: AcquireRequest | None,
    *,
    fails_fast: bool = False,
    waits: bool = False,
    caller: Context | None = None,
) -> Lease:
    """Return the lease that `ask` asks for; `begun` is a request that was already sent."""
    if begun is None:
        context = member.context
        context.check()
        held = member.holds.of(task)
        if held is not None and held.state == "held" and member.can_enter_again(held):
            return await member.reenter(held, deadline, fails_fast, lease_time)
        if (room := context.executor.room(member.commands.key, deadline)) is not None:
            await room
    request = begun or member.new_request(task, lease_time, once=True, deadline=deadline)
    parent = request.parent
    if parent is not None:
        parent.count_read(1)
    hold = None
    try:
        if begun is None:
            request.fails_fast = fails_fast
            request.yields = _yields(member, waits)
            request.send(deadline)
            pending[member] = request
        call = request.call
        answer = await request.run(deadline)
        released = pending.pop(member, None) is None
        if isinstance(answer, Granted) and not released:
            hold = member.granted(request, task, lease_time, answer)
            if caller is not None:
                return caller.run(member.take, hold, task, lease_time, now())
            return member.take(hold, task, lease_time, now())
        if released and call is not None and call.sends > 1:
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
    """Send the releases of unanswered requests; ignore the replies."""
    for member, request in list(pending.items()):
        del pending[member]
        request.release_unanswered()


def release_all(leases: Sequence[Lease]) -> Gather[object]:
    """Send the releases of all leases that were not released yet, the newest first."""
    loop = running_loop()
    return Gather(
        [_release(loop, hold.ownership, lease) for hold, lease in to_release(leases[::-1])]
    )


def _release(
    loop: object, ownership: Keeper, lease: Lease
) -> Sent[object] | Coroutine[Any, Any, object]:
    """Send the release of a lease."""
    sent, context = None, ownership.context
    # The answer arrives in the connection's context; a listener runs in the caller's.
    if context.teller is None and loop is context.executor.loop:
        sent = _Release()
    try:
        begun = ownership.begin_release(lease, sent)
    except RedissonError as error:
        return _failed(error)
    if begun is None:
        return _passed_on()
    if sent is not None and type(begun) is WholeRelease and begun.call.future is sent:
        sent.release = begun
        return sent
    return begun.wait()


async def _passed_on() -> None:
    """Do nothing: the hold of the member was passed to another task."""


async def _failed(error: RedissonError) -> None:
    """Raise what the release of a member has raised."""
    raise error


class _Release(Sent[object]):
    """The release of a hold that had one lease, on its way; a release is not cancelled."""

    __slots__ = ("release",)

    #: Known when it was sent.
    release: WholeRelease

    def finish(self, reply: Any) -> object:
        if not reply:
            return None
        release = self.release
        # Call and future refer to each other: break the reference cycle.
        del self.release
        release.judge(reply, None)
        return reply

    def resume(self) -> Coroutine[Any, Any, None]:
        release = self.release
        del self.release
        return release.wait()


def hand_over(lease: Lease, task: Task) -> Lease:
    """Give the hold of a member to another task; return the lease that it has there."""
    hold = hold_of(lease)
    hold.settle(lease)
    present = now()
    tell_released(lease, present)
    hold.pass_to(weakref.ref(task))
    return cast("TaskOwnership", hold.ownership).take(hold, task, None, present)


def is_waited_for(member: TaskOwnership) -> bool:
    """Return whether a task of this client waits for a member alone."""
    queue = member.queue
    if member.context.waiters[member.waiting_key] > 0:
        return True
    return queue is not None and queue.waiting > 0


def is_ahead(member: TaskOwnership, task: Task) -> bool:
    """Return whether asking once would overtake: tasks that wait here, or another process' turn."""
    queue = member.queue
    return queue is not None and not is_held_by(member, task) and queue.is_ahead


def is_occupied(member: TaskOwnership, task: Task) -> bool:
    """Return whether a request is useless now: others wait or hold, or another process is due."""
    if is_held_by(member, task):
        return False
    queue = member.queue
    if queue is None or is_waited_for(member):
        return is_waited_for(member)
    held = queue.hold is not None and queue.hold.valid
    return held or queue.releasing or queue.head_start is not None


def is_held_by(member: TaskOwnership, task: Task) -> bool:
    """Return whether a task holds a member."""
    hold = member.holds.of(task)
    return hold is not None and hold.state == "held"


def extend_all(leases: Sequence[Lease], lease_time: float) -> Gather[None]:
    """Set a new lease for each, from now."""
    return Gather(hold_of(lease).ownership.extend(lease, lease_time) for lease in leases)
