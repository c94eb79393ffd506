"""The holds of one client's tasks on one lock: acquire and re-entry."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from redisson_py._answers import Change, Disagrees, Granted
from redisson_py._engine import waiting
from redisson_py._engine.client_queue import Together
from redisson_py._engine.context import Context, TaskHolds
from redisson_py._engine.hold import Hold, lease_end
from redisson_py._engine.lease import FencedLease, Lease, tell_acquired
from redisson_py._engine.local_queue import LocalQueue, Waiter
from redisson_py._engine.ownership import Begun
from redisson_py._engine.reentry import STALE_GRANTS, reenter
from redisson_py._engine.request import AcquireRequest
from redisson_py._engine.server import LockCommands, View
from redisson_py._engine.server_state import ServerState
from redisson_py._engine.wait import Wait
from redisson_py._engine.waiting import Turn
from redisson_py._keys import Name
from redisson_py._loop import Future, Task
from redisson_py._owner import TaskKey, reference
from redisson_py._time import now
from redisson_py.errors import ConnectionLostError

log: logging.Logger = logging.getLogger("redisson_py")


class TaskOwnership(ServerState):
    """The holds of one client's tasks on one lock.

    Args:
        context: The parts of the client.
        name: The name, as given.
        commands: The commands of this kind of lock.
        make_view: Makes, of these, what looks at it on the server.
        passes: Tasks wait in a local queue, and holds are passed among them.
        reentrant: A task may acquire it again.
    """

    __slots__ = ()

    def __init__(
        self,
        context: Context,
        name: Name,
        commands: LockCommands,
        make_view: Callable[[Context, Any], View],
        *,
        passes: bool = True,
        reentrant: bool = True,
    ) -> None:
        registry, key = context.registry, commands.key
        queue: LocalQueue[Hold] | None = None
        if passes:
            # A hold can only be passed to a task that wants the same: fenced to fenced.
            queue = registry.queues[commands.kind].get(key, LocalQueue)
        super().__init__(context, name, commands, queue)
        self.make_view = make_view
        self.holds: TaskHolds[Hold] = registry.holds[commands.hold_kind].get(key, TaskHolds)
        self.reentrant = reentrant
        self.lease_kind: type[Lease] = FencedLease if commands.tokens else Lease
        self.reads: TaskHolds[Hold] | None = None
        self.writes: TaskHolds[Hold] | None = None

    def disagrees(self, answer: Disagrees) -> None:
        """Warn, once for a name, that not all say the same of who goes first; for read locks."""
        if self.context.is_news(("prefer disagrees", self.commands.key)):
            log.warning(
                "read-write lock %r is used with prefer='readers' and with prefer='writers':"
                " readers with 'readers' do not let a waiting writer go first. Use one value for"
                " a name",
                self.name,
            )

    # Acquiring.

    def begin(self, loop: object, task: Task) -> tuple[Begun, Future[Any]] | None:
        """Begin an acquisition without a timeout: send its request, or join the queue."""
        context, holds, queue = self.context, self.holds, self.queue
        other_side = self.reads if self.writes is None else self.writes
        if (
            loop is not context.executor.loop
            or ((holds.first is not None or holds.more) and holds.of(task) is not None)
            # A task that writes reads under that hold, and one that reads must not ask to write. As
            # `len`, without the cost of a call.
            or (other_side is not None and (other_side.first is not None or other_side.more))
            or context.options.acquire_timeout is not None
        ):
            return None
        if queue is not None:
            if queue.turn is not None or queue.yields_until:
                return None
            # As `LocalQueue.go_first`, without the cost of a call.
            if (
                queue.waiters
                or queue.asking
                or queue.releasing
                or (queue.hold is not None and queue.hold.valid)
            ):
                if context.teller is not None:
                    # `acquire` reports the wait to the listener.
                    return None
                waiter = self.join(Waiter(holds.key(task), True))
                return waiter, waiter.future
        elif self.commands.queues and context.bus.table.spare_name(self.commands.channel):
            # There was a queue a moment ago: it listens before it asks.
            return None
        way = context.executor.way_to(self.commands.key)
        if not way.can_begin:
            return None
        if queue is not None:
            queue.asking = True
        owners = context.owners
        # As `new_owner`, without the cost of a call.
        owner = owners.prefix + str(owners.new_number())
        request = AcquireRequest(self, owner, 1, context.options.lease_time)
        return request, request.send(None, way).future

    def first_lease(self, begun: Begun, task: Task, reply: object) -> Lease | None:
        """Return the lease of a granted request or a passed hold; None if `acquire` must go on."""
        present, queue = now(), self.queue
        if type(begun) is Waiter:
            if type(reply) is Hold and reply.state == "held" and present < reply.ends_at:
                self.context.counts.wait_ended(present - begun.since)
                return self._own(reply, present)
            return None
        lease = self.plain_lease(begun, task, reply, present)
        if lease is not None and queue is not None:
            # As `LocalQueue.asked`: with a hold here the next waiter does not ask.
            queue.asking = queue.refused = False
            queue.head = None
        return lease

    def plain_lease(self, request: Any, task: Task, reply: object, present: float) -> Lease | None:
        """Return the lease of a granted plain request; None if `acquire` must go on."""
        answer = request.plain_grant(reply, present)
        if answer is None:
            return None
        holds, queue = self.holds, self.queue
        # As `TaskHolds.key`, without the cost of a call.
        key = TaskKey(task, TaskKey.leave)
        key.where = holds
        field, sent_at = request.field, request.sent_at
        hold = Hold(self, field, key, sent_at, request.lease_time, True, granted_at=present)
        if answer.token is not None:
            hold.bring_tokens(answer.token, answer.tokens or self.commands.tokens)
        if queue is not None:
            queue.hold = hold
        return self._own(hold, present)

    def _own(
        self, hold: Hold, present: float, limit: float | None = None, waited: float = 0.0
    ) -> Lease:
        """Keep a hold under its task; return its first lease."""
        holds = self.holds
        if holds.first is None and not holds.more:
            holds.first = hold
        else:
            holds.keep(hold)
        token = None if hold.next_token is None else hold.take_token()
        lease = self.lease_kind(hold, limit, token, present)
        hold.add_lease(lease)
        context = self.context
        context.counts.acquires += 1
        if context.teller is not None:
            tell_acquired(context.teller, lease, waited)
        return lease

    async def acquire(
        self,
        task: Task,
        deadline: float | None = None,
        once: bool = False,
        lease_time: float | None = None,
        begun: Begun | None = None,
        outer: Wait | None = None,
    ) -> Lease | None:
        """Return a lease, or None when the deadline has passed (or it is busy, with `once`)."""
        if begun is None:
            context = self.context
            context.check()
            held = self.holds.of(task)
            if held is not None and held.state == "held" and self.can_enter_again(held):
                return await self.reenter(held, deadline, once, lease_time)
            if self.reads is not None:
                self._refuse_upgrade(task)
            way = context.executor.way_to(self.commands.key)
            if way.full:
                await way.room(context.executor.limit(None if once else deadline))
        stale_grants = 0
        with Wait(self.context, self.kind, self.name, outer) as wait:
            while True:
                hold = await self._new_hold(task, deadline, once, lease_time, begun, wait)
                begun = None
                if hold is None:
                    wait.timed_out(once)
                    return None
                present = now()
                if present < hold.ends_at and hold.state == "held":
                    return self.take(hold, task, lease_time, present, wait.granted())
                # Granted, but over before it could be used.
                self.give_back(hold)
                stale_grants += 1
                if stale_grants == STALE_GRANTS:
                    raise self.loss(hold)

    def _refuse_upgrade(self, task: Task) -> None:
        """Refuse to let a reader ask to write: it would wait for itself."""
        assert self.reads is not None
        read = self.reads.of(task)
        if read is not None and read.state == "held" and read.live:
            raise RuntimeError(
                f"this task holds the read lock of {self.name!r} and would wait for itself to get"
                " the write lock; release the read lock first, or take the write lock before it"
            )

    async def _new_hold(
        self,
        task: Task,
        deadline: float | None,
        once: bool,
        lease_time: float | None,
        begun: Begun | None,
        wait: Wait,
    ) -> Hold | None:
        """Return a hold granted by the server or passed by a task here; None when time is up."""
        queue, turn, waiter = self.queue, None, None
        if isinstance(begun, AcquireRequest):
            if queue is None:
                self.context.waiters[self.waiting_key] += 1
        elif once:
            if queue is not None and (queue.is_ahead or self.readers_wait):
                # It is busy if the server answers; if not, that error is raised.
                await self.view.look()
                return None
        elif queue is None:
            self.context.waiters[self.waiting_key] += 1
        elif begun is not None or not queue.go_first():
            waiter = begun or self.join(Waiter(reference(task), lease_time is None))
            wait.start(waiter.since)
            passed = await queue.wait(waiter, deadline, self.way.probe)
            if isinstance(passed, Hold):
                return passed
            if not passed:
                assert deadline is not None
                if queue.is_busy(waiter) and await self.way.answered_at(deadline):
                    return None
                raise self.no_answer()
        parent, hold, request = None, None, None
        try:
            if isinstance(begun, AcquireRequest):
                request = begun
            else:
                if not once and queue is not None and queue.turn is not None:
                    turn = queue.take_turn()
                request = self.new_request(task, lease_time, turn, once=once, deadline=deadline)
                request.fails_fast = once
                request.yields = int(queue is not None and queue.take_yield(once))
                if self.commands.queues and not once:
                    request.client = self.context.bus.table.spare_name(self.commands.channel)
            if queue is not None:
                request.heard_busy_at = queue.known_busy_at(waiter)
            parent = request.parent
            if parent is not None:
                parent.count_read(1)
            limit = None if once else deadline
            answer = await waiting.acquire(request, request, limit, once=once, wait=wait)
            if type(answer) is Granted:
                if request.has_queued and queue is not None:
                    # The server took this client out of the queue with the grant.
                    queue.joined = None
                elif request.has_queued and (together := self.together) is not None:
                    context = self.context
                    together.granted(context.bus.table, context.waiters[self.waiting_key])
                hold = self.granted(request, task, lease_time, answer)
                if turn is not None and queue is not None and not turn.taken:
                    queue.turn_not_taken()
            return hold
        except ConnectionLostError:
            if deadline is None:
                self.fail_together()
            raise
        finally:
            if parent is not None and hold is None:
                parent.count_read(-1)
            undone = request is not None and request.undone and request.has_queued
            if undone and (together := self.together) is not None:
                # It may have been granted, which took this client out of the queue.
                together.rouse(self.context.bus.table)
            if not once and queue is not None:
                queue.asked()
            elif not once:
                self.context.stopped_waiting(self.waiting_key)

    @property
    def together(self) -> Together | None:
        """Who waits in the queue of clients beside the tasks of a local queue; None: nobody can."""
        waits = self.queue is None and self.context.waiters[self.waiting_key] > 0
        if not waits or self.commands.clients is None:
            return None
        return self.context.together[self.waiting_key]

    def new_request(
        self,
        task: Task,
        lease_time: float | None,
        turn: Turn | None = None,
        *,
        once: bool,
        deadline: float | None,
    ) -> AcquireRequest:
        """Return the request for a new hold of a task."""
        if self.reads is not None:
            self._refuse_upgrade(task)
        owners, options = self.context.owners, self.context.options
        lease = options.lease_time if lease_time is None else lease_time
        parent = None if self.writes is None else self.write_hold(task)
        if parent is None:
            owner = owners.new_owner()
        else:
            owner = parent.owner
            if not parent.renewed:
                lease = min(lease, max(0.001, parent.lease_until - now()))
        request = AcquireRequest(
            self, owner, 1, lease, turn, once=once, deadline=deadline, parent=parent
        )
        request.renewed = lease_time is None
        if parent is not None:
            # Late duplicates of earlier reads under this owner must not be taken for this one.
            request.change = Change(owners.new_number(), parent.unsettled)
        return request

    def granted(
        self, request: AcquireRequest, task: Task, lease_time: float | None, answer: Granted
    ) -> Hold:
        """Return the hold of a granted request."""
        hold = Hold(
            self,
            request.field,
            reference(task),
            request.sent_at,
            request.lease_time,
            lease_time is None,
            uncertain=request.uncertain,
            parent=request.parent,
            batch=request.late_place,
            asked_at=request.asked_at,
        )
        if answer.token is not None:
            hold.bring_tokens(answer.token, answer.tokens or self.commands.tokens)
        if self.queue is not None:
            self.queue.hold = hold
        if request.overtaken:
            self.context.watchdog.ask_now(lambda key: key == self.commands.key)
        return hold

    def take(
        self,
        hold: Hold,
        task: Task,
        lease_time: float | None,
        present: float,
        waited: float = 0.0,
    ) -> Lease:
        """Give a granted or passed hold to the current task."""
        hold.taken_by(self.holds.key(task))
        limit = None
        if lease_time is not None:
            # A read that a write hold caps may last longer once the write hold is released.
            limit = hold.ends_at if hold.parent is None else lease_end(present, lease_time)
        return self._own(hold, present, limit, waited)

    async def reenter(
        self, hold: Hold, deadline: float | None, fails_fast: bool, lease_time: float | None
    ) -> Lease:
        """Acquire it once more for the task that holds it."""
        return await reenter(self, hold, deadline, fails_fast, lease_time)

    def abandon(self, begun: Begun) -> None:
        """Undo an acquisition whose task was cancelled: leave the queue, or undo the request."""
        queue = self.queue
        if isinstance(begun, AcquireRequest):
            begun.undo()
            if queue is not None:
                queue.asked()
        elif queue is not None:
            self.context.counts.wait_ended(now() - begun.since)
            queue.abandon(begun)
