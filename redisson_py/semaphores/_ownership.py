"""One client's units of one semaphore: taking, releasing and passing them.

A lock is held by a task. Units of a semaphore belong to their permit, which any task of the client
may release. So the queue of the semaphore keeps them, not the task.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterator
from typing import Any, TypeVar, cast

from redisson_py._answers import Disagrees, Granted, RefusedError
from redisson_py._engine import acquiring, waiting
from redisson_py._engine.acquiring import Attempt
from redisson_py._engine.context import Context
from redisson_py._engine.hold import (
    Hold,
    Lease,
    Reason,
    hold_of,
    lost_error,
    tell_acquired,
    tell_released,
)
from redisson_py._engine.local_queue import Waiter
from redisson_py._engine.ownership import Begun, Ownership, PartRelease, Release, when_answered
from redisson_py._engine.request import AcquireRequest
from redisson_py._engine.server import Call, UnitCommands
from redisson_py._engine.wait import Wait
from redisson_py._engine.waiting import is_fresh
from redisson_py._keys import Name
from redisson_py._loop import Future, Task
from redisson_py._owner import reference
from redisson_py._statistics import PrimitiveStatistics
from redisson_py._time import now
from redisson_py.errors import ConnectionLostError, LeaseLostError, NotHeldError, RedissonError
from redisson_py.semaphores._queue import PermitQueue, PermitRequest, PermitWaiter
from redisson_py.semaphores.permit import Permit

#: Most lost permits kept for one task, to be reported by `release()` without a permit.
_MOST_LOST = 1000


log: logging.Logger = logging.getLogger("redisson_py")


C = TypeVar("C", bound=UnitCommands, covariant=True)
"""The commands of a kind."""
X = TypeVar("X", bound=Context, covariant=True)
"""The parts of a client."""


class PermitOwnership(Ownership[C, X]):
    """One client's units of one semaphore, on any server."""

    def __init__(self, context: X, name: Name, commands: C) -> None:
        self.permit_queue = context.registry.queues[commands.kind].get(commands.key, PermitQueue)
        super().__init__(context, name, commands, self.permit_queue)
        self.compares = commands.start_units >= 0 and not self.permit_queue.number_known
        #: The number of granted requests.
        self.grants = 0
        #: The lost holds of each task, some of them reported to it by now.
        self.unreported: weakref.WeakKeyDictionary[Task, list[Hold]] = weakref.WeakKeyDictionary()

    @property
    def identity(self) -> tuple[str, str, bytes]:
        """The identity of this semaphore among all others."""
        return self.context.database, self.kind, self.commands.key

    async def exists(self) -> bool:
        """Return whether there is such a semaphore; raise if the server does not answer."""
        raise NotImplementedError

    # Acquiring.

    def begin(self, loop: object, task: Task) -> tuple[PermitRequest, Future[Any]] | None:
        """Send the request of a task without a timeout, if no task waits here."""
        context, queue = self.context, self.permit_queue
        way = context.executor.way_to(self.commands.key)
        if (
            not self.commands.passes
            or loop is not context.executor.loop
            # As `is_ahead`, without the cost of a call.
            or queue.waiters
            or queue.asking
            or (queue.head_start is not None and queue.is_ahead)
            or queue.yields_until
            or context.options.acquire_timeout is not None
            or not way.can_begin
        ):
            return None
        owners, lease_time = context.owners, context.options.lease_time
        # As `new_owner`, without the cost of a call.
        owner = owners.prefix + str(owners.new_number())
        request = PermitRequest(self, owner, 1, lease_time, once=False, deadline=None)
        if context.bus.table.channels:
            return request, request.send(None, way).future
        # Without any subscription there are no messages to count.
        return request, AcquireRequest.send(request, None, way).future

    def first_lease(self, begun: Begun, task: Task, reply: object) -> Permit | None:
        """Return the permit of a granted request; None if `acquire` must go on."""
        present = now()
        request: Any = begun
        if request.plain_grant(reply, present) is None:
            return None
        hold = Hold(
            self,
            request.field,
            reference(task),
            request.sent_at,
            request.lease_time,
            True,
            granted_at=present,
        )
        self.grants += 1
        permit = Permit(hold, request.owner, None, present)
        hold.add_lease(permit)
        context = self.context
        context.counts.acquires += 1
        if context.teller is not None:
            tell_acquired(context.teller, permit, 0.0)
        return permit

    def abandon(self, begun: Begun) -> None:
        """Undo a request whose task was cancelled."""
        cast("PermitRequest", begun).undo()

    async def acquire(
        self,
        task: Task,
        units: int,
        deadline: float | None,
        once: bool,
        lease_time: float | None,
        begun: PermitRequest | None = None,
    ) -> list[Permit] | None:
        """Return permits for `units` units, or None when time is up."""
        if begun is None:
            context = self.context
            context.check()
            room = context.executor.room(self.commands.key, None if once else deadline)
            if room is not None:
                await room
        attempt = _PermitAttempt(self, task, units, deadline, once, lease_time)
        attempt.begun = begun
        return await acquiring.acquire(attempt)

    def new_request(
        self, units: int, lease_time: float | None, once: bool, deadline: float | None
    ) -> PermitRequest:
        owners, options = self.context.owners, self.context.options
        lease = options.lease_time if lease_time is None else lease_time
        owner = owners.new_owner()
        for _ in self.commands.fields(owner, units)[1:]:
            # Reserve the numbers of the other owners, right after the first: see `permit_ids`.
            owners.new_owner()
        return PermitRequest(self, owner, units, lease, once=once, deadline=deadline)

    def granted(self, request: PermitRequest, task: Task, lease_time: float | None) -> list[Hold]:
        """Return the holds of a granted request."""
        return [
            Hold(
                self,
                field,
                reference(task),
                request.sent_at,
                request.lease_time,
                lease_time is None,
                units=units,
                uncertain=request.uncertain,
                batch=request.owner,
            )
            for field, units in self.commands.fields(request.owner, request.target)
        ]

    def take(
        self, hold: Hold, task: Task, lease_time: float | None, present: float, waited: float
    ) -> Permit:
        """Give a granted or passed hold to the current task."""
        hold.taken_by(reference(task))
        limit = None if lease_time is None else hold.ends_at
        permit = Permit(hold, self.commands.permit_text(hold.field), limit, present)
        hold.add_lease(permit)
        self.context.counts.acquires += 1
        if self.context.teller is not None:
            tell_acquired(self.context.teller, permit, waited)
        return permit

    # Releasing.

    def pass_on(self, hold: Hold) -> bool:
        """Pass a hold to the next waiting task if possible; return whether it was passed."""
        first = self.permit_queue.first
        if first is None or not first.passable or first.request.target != hold.units:
            return False
        options = self.context.options
        if not hold.may_pass(options.turn, options.lease_time / 2):
            return False
        if not first.request.take(hold):
            return False
        hold.pass_to(first.task)
        return True

    def hold_ended(self, hold: Hold) -> None:
        """Handle the loss of a hold."""
        task = hold.task()
        # Only `release()` of a plain semaphore reports losses by task, and passes permits on.
        by_task = self.commands.passes
        if by_task and hold.outside_blocks and task is not None and not task.done():
            self.unreported[task] = [*self._unreported(task), hold][-_MOST_LOST:]

    def _unreported(self, task: Task) -> list[Hold]:
        return [hold for hold in self.unreported.get(task, ()) if hold.outside_blocks]

    async def release_units(self, task: Task, units: int) -> None:
        """Release units acquired outside a block: the task's newest first, then the client's.

        Raises:
            NotHeldError: There are fewer; nothing was given back.
            LeaseLostError: One of them was lost before; the others were given back.
        """
        self.context.check()
        chosen: list[tuple[Hold, int]] = []
        left = units
        for hold in self._candidates(task):
            if left <= 0:
                break
            part = min(left, hold.units)
            chosen.append((hold, part))
            left -= part
        if left > 0:
            raise NotHeldError(
                f"{self!r}: cannot release {units}, because this client holds {units - left}"
                " outside of blocks; only add_permits creates permits"
            )
        begun = [self._begin_part(hold, part) for hold, part in chosen]
        problem: RedissonError | None = None
        for number, each in enumerate(begun):
            try:
                if isinstance(each, Release):
                    await each.wait()
                elif each is not None:
                    raise each
            except RedissonError as error:
                problem = problem or error
            except BaseException:
                for release in begun[number + 1 :]:
                    if isinstance(release, Release):
                        release.leave()
                raise
        if problem is not None:
            raise problem

    def _candidates(self, task: Task) -> Iterator[Hold]:
        """Yield the holds that a task may give back without naming them, in that order."""
        held = [hold for hold in self.all_holds() if hold.outside_blocks]
        mine = [hold for hold in held if hold.task() is task] + self._unreported(task)
        yield from sorted(mine, key=lambda hold: hold.acquired_at, reverse=True)
        yield from reversed([hold for hold in held if hold.task() is not task])

    def _begin_part(self, hold: Hold, units: int) -> Release | LeaseLostError | None:
        """Send the release of units of a hold; return None if they were passed on here.

        Return the loss if it was lost before.
        """
        (permit,) = hold.outside_blocks
        if hold.state == "held" and units < hold.units:
            hold.units_fell(units)
            return PartRelease(self, hold, permit, now())
        try:
            return self.begin_release(permit)
        except LeaseLostError as loss:
            return loss

    async def extend(self, lease: Lease, lease_time: float) -> None:
        """Set the end of a permit; one without units has none."""
        if hold_of(lease).units:
            await super().extend(lease, lease_time)

    def lower(self, hold: Hold) -> Call:
        """Lower the units in Redis to those of the hold."""
        change, units = hold.begin_change(), hold.units
        lease_time = self.context.options.lease_time
        call = self.context.executor.lower(
            self.commands, hold, units, lease_time, lease_time, change
        )

        def lowered(done: Future[int | None]) -> None:
            hold.end_change(call)
            error = done.exception()
            if isinstance(error, RefusedError) and not call.uncertain:
                hold.units_refused(change)
            elif error is not None:
                return
            elif done.result() is None:
                self.context.watchdog.lose(hold, "taken")
            else:
                hold.units_lowered(units)

        when_answered(call, lowered)
        return call

    def permit_of(self, hold: Hold) -> Permit:
        """Return the permit of a hold; a new one if the first was garbage-collected."""
        for lease in hold.live:
            assert isinstance(lease, Permit)
            return lease
        limit = None if hold.renewed else hold.ends_at
        permit = Permit(hold, self.commands.permit_text(hold.field), limit, hold.granted_at)
        hold.add_lease(permit)
        return permit

    def released_by_id(self, hold: Hold) -> None:
        """End a hold that Redis released by its id."""
        if hold.state != "held":
            return
        # It needs a permit even if the user kept none, so that its end is reported.
        permit = self.permit_of(hold)
        hold.settle(permit)
        tell_released(permit, now())
        hold.end("released")

    # Looking.

    def all_holds(self) -> list[Hold]:
        """Return the holds that this client has on it, oldest first."""
        on_key = self.context.watchdog.holds.on(self.commands.key)
        return [hold for hold in on_key if self.has(hold)]

    def hold_of(self, permit: bytes) -> Hold | None:
        """Return the hold that this client has under the id of a permit."""
        hold = self.context.watchdog.holds.find(self.commands.key, permit)
        return hold if hold is not None and self.has(hold) else None

    def has(self, hold: Hold) -> bool:
        """Whether a hold is one on this semaphore, and not on another thing of its name."""
        theirs = hold.ownership
        return isinstance(theirs, PermitOwnership) and theirs.permit_queue is self.permit_queue

    def check_tasks_view(self, hold: Hold) -> None:
        """Raise `AssertionError` unless the tasks of this client see a hold as it is; for tests."""
        if hold.in_passage:
            first = self.permit_queue.first
            assert first is not None, f"nobody will take {hold}"
            assert first.request.passed is hold, f"nobody will take {hold}"

    def disagrees(self, answer: Disagrees) -> None:
        """Warn, once for a name, that there are other permits than this client names."""
        queue, found, wanted = self.permit_queue, answer.permits, self.commands.start_units
        if found is None or found == wanted or wanted < 0 or queue.number_known:
            return
        queue.number_known = True
        if self.context.is_news(self.identity):
            log.warning(
                "%s %r has %d permit%s, not %d: an existing semaphore keeps its number. To change"
                " it, call set_permits(%d) or add_permits(%d)",
                *(self.kind, self.name, found, "" if found == 1 else "s"),
                *(wanted, wanted, wanted - found),
            )

    def warn_of_missing(self) -> None:
        """Warn, once for a name, if permits are missing that Redisson's clients cannot have."""
        commands, queue = self.commands, self.permit_queue
        if commands.start_units > 0 and commands.records_all and not queue.number_known:
            queue.number_known = True
            facts = (self.kind, self.name, commands.start_units, commands.missing)
            log.warning("%s %r has fewer than %d permits: %s", *facts)

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for this name."""
        held = sum(len(hold.live) for hold in self.all_holds())
        return PrimitiveStatistics(waiters=self.permit_queue.waiting, held_leases=held)


class _PermitAttempt(Attempt[list[Hold], list[Permit]]):
    """A task's acquisition of units of a semaphore.

    Several requests may be under way, so it asks before it stands in the queue.
    """

    asks_beside = True

    def __init__(
        self,
        ownership: PermitOwnership[UnitCommands, Context],
        task: Task,
        units: int,
        deadline: float | None,
        once: bool,
        lease_time: float | None,
    ) -> None:
        context, kind, name = ownership.context, ownership.kind, ownership.name
        queue = ownership.permit_queue
        super().__init__(context, kind, name, queue, task, deadline, once, lease_time)
        self._permits = ownership
        self._queue = queue
        self._units = units
        self._request: PermitRequest | None = None

    def _new_request(self) -> PermitRequest:
        return self._permits.new_request(self._units, self.lease_time, self.once, self.deadline)

    def _granted(self, request: PermitRequest) -> list[Hold]:
        """Return the holds of a granted request, or the one that it was passed."""
        self._permits.grants += 1
        if request.passed is not None:
            return [request.passed]
        return self._permits.granted(request, self.task, self.lease_time)

    def is_behind(self) -> bool:
        """Return whether tasks here, or other processes, come before a task that asks once."""
        return self._queue.is_ahead

    async def refuse(self) -> None:
        """Return if Redis answers; if not, raise that error."""
        permits = self._permits
        self._queue.absent = not await permits.exists()

    async def ask_beside(self) -> list[Hold] | None:
        """Ask, unless others come first."""
        queue, begun = self._queue, self.begun
        request = self._request = begun or self._new_request()
        request.fails_fast = self.once
        if begun is None and queue.take_yield(self.once):
            request.yields = 1
        if begun is None and not self.once and (queue.is_ahead or request.yields):
            return None
        limit = None if self.once else self.deadline
        answer = await waiting.acquire(request, self.context.bus, limit, once=True)
        return self._granted(request) if isinstance(answer, Granted) else None

    def _renewed(self) -> PermitRequest:
        """Return the request for the queue: another one, if the first was undone."""
        request = self._request
        assert request is not None
        if request.undone:
            # A duplicate may come late, so the undo made Redis refuse its owner.
            heard_busy_at = request.heard_busy_at
            request = self._request = self._new_request()
            request.heard_busy_at = heard_busy_at
        return request

    def _waiter(self) -> PermitWaiter:
        passable = self._permits.commands.passes and self.lease_time is None
        return PermitWaiter(reference(self.task), passable, self._renewed())

    def goes_first(self) -> None:
        """Be the head of the queue, to which permits may be passed."""
        self._queue.head = self._waiter()

    def join(self) -> Waiter:
        """Join the queue at its end."""
        return self._queue.join(self._waiter())

    def probe(self) -> None:
        """Make Redis answer something soon."""
        self._permits.way.probe()

    def left_queue(self) -> None:
        """Undo the request: the head can be cancelled before it has taken what it was passed."""
        if self._request is not None:
            self._request.undo()

    async def was_busy(self, waiter: Waiter) -> bool:
        """Return whether it was busy, for a task whose time is up in the queue."""
        assert self._request is not None
        assert self.deadline is not None
        heard_busy_at = self._request.heard_busy_at
        busy = self._queue.is_busy(waiter) or is_fresh(heard_busy_at, self.deadline)
        return busy and await self._permits.way.answered_at(self.deadline)

    def no_answer(self) -> ConnectionLostError:
        """Return the error if Redis did not answer."""
        return self._permits.no_answer()

    def fail_together(self) -> None:
        """Fail the waiters without a timeout, if Redis did not answer the head."""
        if self.deadline is None and not self.once:
            self._permits.fail_together()

    async def ask(self, waiter: Waiter | None, wait: Wait) -> list[Hold] | None:
        """Ask as the head until units are granted or passed, or until time is up."""
        if self.once:
            return await self.ask_beside()
        queue, request = self._queue, self._request
        assert request is not None
        request.heard_busy_at = max(queue.busy_at, request.heard_busy_at)
        if request.passed is not None and request.passed.valid:
            request.leave_server()
            return self._granted(request)
        request.listen_first(None if queue.head_start is None else queue.take_head_start())
        granted = await waiting.acquire(request, request, self.deadline) is not None
        if granted and request.passed is None and request.registers:
            # The server took this client out of the queue with the grant.
            queue.joined = None
        if granted and request.head_start and not request.head_start.taken:
            queue.head_start_not_taken()
        passed = request.passed is not None and request.passed.valid
        return self._granted(request) if granted or passed else None

    def is_good(self, grant: list[Hold]) -> bool:
        """Return whether all that was granted or passed is in force."""
        return all(hold.valid for hold in grant)

    def take(self, grant: list[Hold], waited: float) -> list[Permit]:
        """Give what was granted or passed to the task."""
        present = now()
        return [
            self._permits.take(hold, self.task, self.lease_time, present, waited) for hold in grant
        ]

    def give_back(self, grant: list[Hold]) -> None:
        """Pass on or release what was over before it could be used."""
        for hold in grant:
            self._permits.give_back(hold)

    def loss(self, grant: list[Hold]) -> LeaseLostError:
        """Return the error of what was over before it could be used."""
        held_for = now() - grant[0].granted_at
        reason: Reason = "expired" if self.lease_time is None else "ended"
        return lost_error(self._permits, grant[0].owner, held_for, reason)
