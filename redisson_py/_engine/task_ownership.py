"""The holds of one client's tasks on one lock: acquire, re-entry, and its state on the server."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from redisson_py._answers import Change, Disagrees, Granted, Settled
from redisson_py._engine import acquiring, handing_over, waiting
from redisson_py._engine.acquiring import STALE_GRANTS, Attempt
from redisson_py._engine.client_queue import Together
from redisson_py._engine.context import Context, TaskHolds
from redisson_py._engine.hold import (
    FencedLease,
    Hold,
    Lease,
    Reason,
    lease_end,
    lost_error,
    tell_acquired,
)
from redisson_py._engine.hold_watch import HoldWatch
from redisson_py._engine.local_queue import LocalQueue, Waiter
from redisson_py._engine.ownership import Begun, Ownership
from redisson_py._engine.request import AcquireRequest
from redisson_py._engine.server import LockCommands, View
from redisson_py._engine.wait import Wait
from redisson_py._engine.waiting import HeadStart
from redisson_py._keys import Name
from redisson_py._loop import Future, Task, current_task
from redisson_py._owner import TaskKey, reference
from redisson_py._statistics import PrimitiveStatistics
from redisson_py._time import now
from redisson_py.errors import ClientClosedError, ConnectionLostError, LeaseLostError, NotHeldError

log: logging.Logger = logging.getLogger("redisson_py")


class TaskOwnership(Ownership[LockCommands, Context]):
    """The holds of one client's tasks on one lock.

    Args:
        context: The parts of the client.
        name: The name, as given.
        commands: The commands of this kind of lock.
        make_view: Makes, of these, what looks at it on the server.
        passes: Tasks wait in a local queue, and holds are passed among them.
        reentrant: A task may acquire it again.
    """

    __slots__ = (
        "holds",
        "lease_kind",
        "make_view",
        "reads",
        "reentrant",
        "writes",
    )

    holds: TaskHolds[Hold]
    #: Makes a view of it: not kept, because there may be very many names.
    make_view: Callable[[Context, Any], View]
    #: The class of its leases.
    lease_kind: type[Lease]
    #: The holds of the read side, where this is the write side: they share owners.
    reads: TaskHolds[Hold] | None
    #: The holds of the write side, where this is the read side.
    writes: TaskHolds[Hold] | None
    #: Whether a task may acquire it again.
    reentrant: bool

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
            if queue.head_start is not None or queue.yields_until:
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
            room = context.executor.room(self.commands.key, None if once else deadline)
            if room is not None:
                await room
        attempt = _LockAttempt(self, task, deadline, once, lease_time)
        attempt.begun = begun
        return await acquiring.acquire(attempt, outer)

    def _refuse_upgrade(self, task: Task) -> None:
        """Refuse to let a reader ask to write: it would wait for itself."""
        assert self.reads is not None
        read = self.reads.of(task)
        if read is not None and read.state == "held" and read.live:
            raise RuntimeError(
                f"this task holds the read lock of {self.name!r} and would wait for itself to get"
                " the write lock; release the read lock first, or take the write lock before it"
            )

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
        head_start: HeadStart | None = None,
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
            self, owner, 1, lease, head_start, once=once, deadline=deadline, parent=parent
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
            batch=request.late_entry,
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

    def settled(self, answer: Settled, task: Task) -> Lease:
        """Return a lease of nothing for what is there already: it ends without a request."""
        present, field = now(), self.commands.field(self.context.owners.new_owner())
        hold = Hold(
            self, field, reference(task), present, self.context.options.lease_time, True, units=0
        )
        lease = self.lease_kind(hold, None, answer.token, present)
        hold.add_lease(lease)
        return lease

    async def reenter(
        self,
        hold: Hold,
        deadline: float | None,
        fails_fast: bool,
        lease_time: float | None,
    ) -> Lease:
        """Return the lease of one more acquisition; see `TaskOwnership.acquire` for its errors."""
        if fails_fast:
            deadline = None
        for _ in range(STALE_GRANTS):
            lease = await self._ask_again(hold, deadline, fails_fast, lease_time)
            if lease is not None:
                return lease
            if hold.state != "held":
                break
        raise lost_error(self, hold.owner, 0.0, "ended")

    async def _ask_again(
        self,
        hold: Hold,
        deadline: float | None,
        fails_fast: bool,
        lease_time: float | None,
    ) -> Lease | None:
        """Ask once; return None if the lease was over before it could be used."""
        context = self.context
        lease = context.options.lease_time if lease_time is None else lease_time
        if hold.capped and hold.parent is not None:
            lease = min(lease, max(0.001, hold.parent.lease_until - now()))
        target, change = hold.begin_reentry(lease)
        request = AcquireRequest(
            self, hold.owner, target, lease, once=True, deadline=deadline, reentry=hold
        )
        request.change, request.fails_fast = change, fails_fast
        try:
            answer = await waiting.acquire(request, context.bus, deadline, once=True)
        except BaseException:
            unsure = request.uncertain or request.undone
            hold.end_reentry(unsure)
            self._give_up_reentry(hold, unsure or hold.changed_since(request.change))
            raise
        hold.end_reentry(request.uncertain)
        if not isinstance(answer, Granted) or hold.state != "held":
            if isinstance(answer, Granted):
                # Lost while the request was under way: no other call would release the grant.
                self.undo_late(hold)
            context.watchdog.lose(hold, "taken")
            self.forget(hold)
            raise self.loss(hold)
        leased = hold.reentered(request.asked_at, request.sent_at, lease, request.change)
        limit = None if lease_time is None else lease_end(request.asked_at, lease_time)
        present = now()
        if limit is not None and limit <= present:
            self._give_up_reentry(hold, granted=True)
            return None
        again = self.lease_kind(hold, limit, hold.token, present)
        was_renewed = hold.renewed
        hold.add_lease(again)
        if request.change is not change:
            self.lower(hold)  # Granted behind that release, it took the count of before.
        elif not leased or (was_renewed and not hold.renewed):
            # The outer lease was released meanwhile, which left the lease of a renewed hold.
            self.set_needed_lease(hold)
        context.counts.acquires += 1
        if context.teller is not None:
            tell_acquired(context.teller, again, 0.0)
        return again

    async def hand_over(self, lease: Lease, lease_time: float | None) -> str:
        """Give a hold to another process; see `Lease.hand_over`."""
        return await handing_over.hand_over(self, lease._hold, lease, lease_time)

    def _give_up_reentry(self, hold: Hold, granted: bool) -> None:
        """Give back what a re-entry was, or may have been, granted."""
        if hold.state == "held" and not hold.count:
            # Its last lease was released meanwhile, so this call must release the hold.
            self.give_back(hold)
        elif hold.state == "held" and granted:
            self.lower(hold)

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

    # On the server, and which holds there are.

    @property
    def view(self) -> View:
        """Looks at it on the server."""
        return self.make_view(self.context, self.commands)

    @property
    def stay_taken(self) -> bool:
        """Whether the server can keep the name taken for a time after a release."""
        return self.commands.stay_taken

    @property
    def waiting_key(self) -> bytes:
        """The key under which tasks that wait outside a queue are counted."""
        return self.commands.kind.encode() + b":" + self.commands.key

    async def locked(self) -> bool:
        """Return whether anybody holds it now."""
        self.context.check()
        return await self.view.locked()

    async def hold_count(self) -> int:
        """Return how many holds the current task has, as the server sees it."""
        self.context.check()
        hold = self.holds.of(current_task())
        if hold is None or hold.state != "held":
            return 0
        return await self.view.count_of(hold)

    async def remaining(self) -> float | None:
        """Return the seconds left on the server; None when it is free, infinity without expiry."""
        self.context.check()
        return await self.view.remaining()

    async def force_release(self) -> bool:
        """Free it whoever holds it; return whether anybody did."""
        self.context.check()
        before = set(self.all_holds())
        freed, once = await self.view.force_release()
        for request in self.context.pending:
            if isinstance(request, AcquireRequest):
                request.overtaken |= request.ownership.commands.key == self.commands.key
        # The writer's own reads end with the write hold.
        for hold in [*self.all_holds(), *self._holds_of(self.reads)]:
            # A hold granted since it was sent, or since its first run, is not released.
            sure = freed and once and hold in before
            if hold.state == "held" and (sure or not await self.view.is_there(hold)):
                self._force_out(hold, "forced" if freed else "taken")
        return freed

    def _force_out(self, hold: Hold, reason: Reason) -> None:
        """End a hold that was released by force, and its task's read under it."""
        if (read := self.read_under(hold)) is not None:
            self.context.watchdog.lose(read, reason)
        self.context.watchdog.lose(hold, reason)

    def read_under(self, hold: Hold) -> Hold | None:
        """Return the read hold that the task of a write hold has under the same owner."""
        on_key = self.context.watchdog.holds.on(self.commands.key)
        return next((read for read in on_key if read.parent is hold), None)

    async def release_newest(self) -> None:
        """Give back the newest hold of the current task.

        Raises:
            NotHeldError: It has none.
            LeaseLostError: It had one and lost it; raised once.
        """
        self.context.check()
        lease = self.holds.newest_lease(current_task())
        if lease is None:
            raise not_held(self, self.all_holds())
        await lease.release()

    def hold_ended(self, hold: Hold) -> None:
        """Let a read under the owner of an ended hold last longer than that hold."""
        if hold.reads and (read := self.read_under(hold)) is not None:
            with suppress(ClientClosedError):
                read.ownership.set_needed_lease(read)

    def join(self, waiter: Waiter) -> Waiter:
        """Join the local queue at its end, as in `LocalQueue.join`."""
        queue = self.queue
        assert queue is not None
        if queue.watch is None and self.context.bus.listens:
            queue.watch = HoldWatch(self.context, self.commands, queue)
        return queue.join(waiter)

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for this name."""
        queue = self.queue
        return PrimitiveStatistics(
            waiters=self.context.waiters[self.waiting_key] + (queue.waiting if queue else 0),
            held_leases=sum(len(hold.live) for hold in self.all_holds()),
        )

    def all_holds(self) -> list[Hold]:
        """Return the holds that this client has on it, also one that no task has just now."""
        return self._holds_of(self.holds)

    def _holds_of(self, holds: TaskHolds[Hold] | None) -> list[Hold]:
        """Return all holds of one side."""
        on_key = self.context.watchdog.holds.on(self.commands.key)
        return [
            hold
            for hold in on_key
            if isinstance(keeper := hold.ownership, TaskOwnership) and keeper.holds is holds
        ]

    def check_tasks_view(self, hold: Hold) -> None:
        """Raise `AssertionError` unless the tasks of this client see a hold as it is."""
        task = hold.task()
        if hold.in_passage:
            assert self.queue is not None, hold
            assert self.queue.hold is hold, hold
            assert task is not None, f"nobody will take {hold}"
            assert self.holds.of(task) is not hold, hold
        elif task is not None and not task.done():
            assert self.holds.of(task) is hold, f"its task does not know {hold}"

    def forget(self, hold: Hold) -> None:
        """Remove a hold from its task."""
        holds = self.holds
        if holds.first is hold:
            holds.first = None
        else:
            holds.remove(hold)

    @property
    def readers_wait(self) -> bool:
        """Whether tasks of this client wait to read, where this is the write side."""
        return (
            self.reads is not None and self.context.waiters[b"read lock:" + self.commands.key] > 0
        )

    def can_enter_again(self, hold: Hold) -> bool:
        """Return whether the task of a hold can acquire it again.

        Raises:
            RuntimeError: It holds it, and the lock is not reentrant, or it holds no token.
        """
        if not hold.count:
            return False
        if not self.reentrant:
            raise RuntimeError(f"this task already holds {self!r}, which is not reentrant")
        if self.commands.tokens and hold.token is None:
            raise RuntimeError(f"this task holds {hold.ownership!r}, which has no fencing token")
        return True

    def write_hold(self, task: Task) -> Hold | None:
        """Return the write hold under whose owner a task reads, if it has one."""
        assert self.writes is not None
        write = self.writes.of(task)
        if write is None or write.state != "held" or not write.live:
            return None
        return write

    def loss(self, hold: Hold) -> LeaseLostError:
        """Return the error for the loss of a hold without a lease."""
        # A hold that was released because it was over was not marked lost.
        by_clock: Reason = "expired" if hold.renewed else "ended"
        reason = hold.reason if hold.state == "lost" else by_clock
        return lost_error(self, hold.owner, now() - hold.granted_at, reason)


class _LockAttempt(Attempt[Hold | Settled, Lease]):
    """A task's acquisition of a lock that it does not hold."""

    def __init__(
        self,
        ownership: TaskOwnership,
        task: Task,
        deadline: float | None,
        once: bool,
        lease_time: float | None,
    ) -> None:
        context, kind, name = ownership.context, ownership.kind, ownership.name
        super().__init__(context, kind, name, ownership.queue, task, deadline, once, lease_time)
        self._ownership = ownership

    def is_behind(self) -> bool:
        """Return whether tasks here, or other processes, come before a task that asks once."""
        queue = self.queue
        return queue is not None and (queue.is_ahead or self._ownership.readers_wait)

    async def refuse(self) -> None:
        """Return if the server answers; if not, raise that error."""
        await self._ownership.view.look()

    def join(self) -> Waiter:
        """Join the queue at its end."""
        waiter = Waiter(reference(self.task), self.lease_time is None)
        return self._ownership.join(waiter)

    def probe(self) -> None:
        """Make the server answer something soon."""
        self._ownership.way.probe()

    async def was_busy(self, waiter: Waiter) -> bool:
        """Return whether it was busy, for a task whose time is up in the queue."""
        assert self.queue is not None
        assert self.deadline is not None
        return self.queue.is_busy(waiter) and await self._ownership.way.answered_at(self.deadline)

    def no_answer(self) -> ConnectionLostError:
        """Return the error if the server did not answer."""
        return self._ownership.no_answer()

    def fail_together(self) -> None:
        """Fail the waiters without a timeout, if the server did not answer one of them."""
        if self.deadline is None:
            self._ownership.fail_together()

    async def ask(self, waiter: Waiter | None, wait: Wait) -> Hold | Settled | None:
        """Ask until it is granted or settled, or until time is up."""
        ownership = self._ownership
        if self.queue is not None or self.once:
            return await self._ask(waiter, wait)
        with self.context.waiting(ownership.waiting_key):
            return await self._ask(waiter, wait)

    async def _ask(self, waiter: Waiter | None, wait: Wait) -> Hold | Settled | None:
        ownership, context, queue = self._ownership, self.context, self.queue
        begun = self.begun
        request = begun if isinstance(begun, AcquireRequest) else self._new_request()
        if queue is not None:
            request.heard_busy_at = queue.known_busy_at(waiter)
        parent, hold = request.parent, None
        if parent is not None:
            parent.count_read(1)
        try:
            limit = None if self.once else self.deadline
            answer = await waiting.acquire(request, request, limit, once=self.once, wait=wait)
            if type(answer) is Settled:
                return answer
            if type(answer) is Granted:
                if request.has_queued and queue is not None:
                    # The server took this client out of the queue with the grant.
                    queue.joined = None
                elif request.has_queued and (together := ownership.together) is not None:
                    waiting_key = ownership.waiting_key
                    together.granted(context.bus.table, context.waiters[waiting_key])
                hold = ownership.granted(request, self.task, self.lease_time, answer)
                if (
                    queue is not None
                    and request.head_start is not None
                    and not request.head_start.taken
                ):
                    queue.head_start_not_taken()
            return hold
        finally:
            if parent is not None and hold is None:
                parent.count_read(-1)
            undone = request.undone and request.has_queued
            if undone and (together := ownership.together) is not None:
                # It may have been granted, which took this client out of the queue.
                together.rouse(context.bus.table)

    def _new_request(self) -> AcquireRequest:
        ownership, queue, once = self._ownership, self.queue, self.once
        head_start = None
        if not once and queue is not None and queue.head_start is not None:
            head_start = queue.take_head_start()
        request = ownership.new_request(
            self.task, self.lease_time, head_start, once=once, deadline=self.deadline
        )
        request.fails_fast = once
        request.yields = int(queue is not None and queue.take_yield(once))
        if ownership.commands.queues and not once:
            channel = ownership.commands.channel
            request.client = self.context.bus.table.spare_name(channel)
        return request

    def is_good(self, grant: Hold | Settled) -> bool:
        """Return whether a granted or passed hold is in force."""
        return isinstance(grant, Settled) or grant.valid

    def take(self, grant: Hold | Settled, waited: float) -> Lease:
        """Give a granted or passed hold to the task."""
        if isinstance(grant, Settled):
            return self._ownership.settled(grant, self.task)
        return self._ownership.take(grant, self.task, self.lease_time, now(), waited)

    def give_back(self, grant: Hold | Settled) -> None:
        """Pass on or release a hold that was over before it could be used."""
        assert type(grant) is Hold
        self._ownership.give_back(grant)

    def loss(self, grant: Hold | Settled) -> LeaseLostError:
        """Return the error of a hold that was over before it could be used."""
        assert type(grant) is Hold
        return self._ownership.loss(grant)


def not_held(lock: object, holds: Sequence[Hold]) -> NotHeldError:
    """Return the error of a release by a task that has no hold; it names the task that has one.

    Args:
        lock: What is released.
        holds: The client's holds on it, or on its first member.
    """
    text = f"{lock!r} is not held by the current task"
    for hold in holds:
        if not hold.live:
            continue
        task = hold.task()
        if task is not None and not task.done():
            return NotHeldError(
                f"{text}, but by task {task.get_name()!r} of this client; keep the lease that"
                " `acquire` returns: any task may call `lease.release()`"
            )
        return NotHeldError(
            f"{text}, but by a task of this client that has ended: below Python 3.12"
            " `asyncio.wait_for(lock.acquire(), ...)` acquires in a new task. Use"
            " `acquire(timeout=...)`, or keep the lease that it returns and call `lease.release()`"
        )
    return NotHeldError(text)
