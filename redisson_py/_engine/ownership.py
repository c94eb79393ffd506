"""A client's holds on one name, from the grant to the end: changed leases, release and loss.

Acquiring is in `_engine/acquiring.py`; what a kind gives it, and re-entry, in
`_engine/task_ownership.py` for tasks and in `semaphores/_ownership.py` for units of a semaphore.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

from redisson_py._answers import Change, Disagrees, RefusedError
from redisson_py._engine.client_queue import Together
from redisson_py._engine.context import Context
from redisson_py._engine.hold import (
    Hold,
    Lease,
    LeaseExtension,
    hold_of,
    lose_late,
    loss_of,
    release_failed,
    tell_released,
)
from redisson_py._engine.local_queue import LocalQueue, Waiter
from redisson_py._engine.request import AcquireRequest
from redisson_py._engine.server import Call, ClientQueue, Commands, Way, lease_from
from redisson_py._keys import Name
from redisson_py._loop import Future, running_loop
from redisson_py._options import OnLost, OnReleaseError
from redisson_py._owner import TaskRef
from redisson_py._time import now
from redisson_py.errors import (
    ClientClosedError,
    ConnectionLostError,
    ReleaseFailedError,
)

log = logging.getLogger("redisson_py")

#: Most waiting tasks that one warning names.
_MOST_NAMED_TASKS = 3

Begun = AcquireRequest | Waiter
"""An acquisition under way: its request, or its place in the queue."""


C = TypeVar("C", bound=Commands, covariant=True)
"""The commands of a kind."""
X = TypeVar("X", bound=Context, covariant=True)
"""The parts of a client."""


class Ownership(Generic[C, X]):
    """The holds of one client on one name.

    Args:
        context: The parts of the client.
        name: The name, as given.
        commands: The commands of this kind.
        queue: The queue of this client's waiting tasks; None: each task asks the server itself.

    Attributes:
        compares: The next request asks whether what this client names is what the server has.
    """

    __slots__ = ("commands", "compares", "context", "name", "queue")

    def __init__(self, context: X, name: Name, commands: C, queue: LocalQueue[Hold] | None) -> None:
        self.context: X = context
        self.name: Name = name
        self.commands: C = commands
        self.queue: LocalQueue[Hold] | None = queue
        self.compares: bool = False

    def __repr__(self) -> str:
        return f"{self.kind} {self.name!r}"

    def disagrees(self, answer: Disagrees) -> None:
        """Warn that the server has something else than this client names."""
        raise NotImplementedError

    @property
    def kind(self) -> str:
        """The kind, in words for messages."""
        return self.commands.kind

    @property
    def on_lost(self) -> OnLost:
        """What a loss does to a block."""
        return self.context.options.on_lost

    @property
    def acquire_timeout(self) -> float | None:
        """The timeout of an acquire that names none."""
        return self.context.options.acquire_timeout

    @property
    def on_release_error(self) -> OnReleaseError:
        """What a block does if its release gets no answer."""
        return self.context.options.on_release_error

    # Asking.

    @property
    def way(self) -> Way:
        """The way to the server of its key."""
        return self.context.executor.way_to(self.commands.key)

    def no_answer(self) -> ConnectionLostError:
        """Return the error of a task whose time ran out while the server did not answer."""
        return self.way.no_answer(maybe_held=False)

    def fail_together(self) -> None:
        """Fail the waiters without a timeout, because the server did not answer the head."""
        if self.queue is not None:
            self.queue.fail_together(self.no_answer)

    def forget(self, hold: Hold) -> None:
        """Remove a hold from its task."""

    def check_tasks_view(self, hold: Hold) -> None:
        """Raise `AssertionError` unless the tasks of this client see a hold as it is; for tests."""

    # Releasing.

    def begin_release(self, lease: Lease, future: Future[Any] | None = None) -> Release | None:
        """Send the release of one acquisition; return None if its hold was passed on here.

        `future` gets the answer, if the whole hold ends and nothing late can arrive for it; who
        gives one has seen that this is the client's event loop.

        Raises:
            LeaseLostError: It was lost before.
            ClientClosedError: The client is closed, or belongs to another event loop.
        """
        hold, context, queue = lease._hold, self.context, self.queue
        if not hold.units:
            # A permit of nothing is not on the server: it needs no client that may be used.
            hold.settle(lease)
            hold.end("released")
            return None
        if hold.state == "held":
            if future is None and running_loop() is not context.executor.loop:
                context.check()
            if hold.max_held:
                # Its end may have passed although the server still has it.
                context.watchdog.end_overdue(hold)
        was_lost = lease._state == "lost"
        count = hold.settle(lease)
        if hold.state != "held" or was_lost:
            self.reported(hold)
            raise loss_of(lease)
        let_go_at = now()
        if count:
            return PartRelease(self, hold, lease, let_go_at)
        if queue is not None and (queue.waiters or queue.asking) and self.pass_on(hold):
            if context.teller is not None:
                tell_released(lease, let_go_at)
            return None
        return WholeRelease(self, hold, lease, let_go_at, future)

    def reported(self, hold: Hold) -> None:
        """Forget a hold whose loss was reported, if no lease of it is left to report."""
        if hold.state != "held" and not hold.known_leases():
            self.forget(hold)

    def refusal(self, hold: Hold, lease: Lease, call: Call, error: RefusedError) -> Exception:
        """Return the error for a refusal, which may mean a loss."""
        if not error.means_gone:
            return call.refusal(error)
        if hold.state == "held":
            self.context.watchdog.lose(hold, "taken")
        elif lease._state == "released":
            return lose_late(lease, "taken")
        return loss_of(lease)

    def pass_on(self, hold: Hold) -> bool:
        """Pass a hold to the next waiting task if possible; return whether it was passed."""
        queue = self.queue
        if queue is None or not queue.waiters:
            return False
        options = self.context.options
        return queue.pass_on(hold, options.turn, options.lease_time / 2)

    def give_back(self, hold: Hold) -> None:
        """Pass on or release a hold that no task wants, without waiting."""
        if hold.state != "held" or self.pass_on(hold):
            return
        with suppress(ClientClosedError):
            WholeRelease(self, hold, None, now()).leave()

    def ended(self, reply: int | None, own_message: int) -> None:
        """End a final release; offer a head start if other clients may wait."""
        queue = self.queue
        if queue is None:
            return
        queue.releasing = False
        if reply and reply != self.commands.alone:
            others = self.commands.others(reply, own_message > 0)
            if others < 0:
                queue.called_next()
            elif others and (head_start := queue.offer_head_start(others, own_message)) is not None:
                queue.head_start = head_start
        if queue.waiters:
            queue.advance()

    def send_release(self, hold: Hold) -> Call:
        """Send the release of a hold of which something may arrive late, whatever its count."""
        options, parent = self.context.options, hold.parent
        keep = max(options.lease_time, hold.may_last_until - now())
        keeps_parent = hold.keeps_parent
        # Under a write hold the owner remains in use: its next read must not be refused as late.
        change = None if parent is None else parent.begin_read_change()
        late = parent is None and hold.uncertain
        call = self.context.executor.give_back(
            *(self.commands, hold, keep),
            late=late,
            change=change,
            taken=hold.stays_taken(now()),
        )
        if parent is not None:
            call.future.add_done_callback(lambda _: parent.end_change(call))
            if keeps_parent:
                parent.ownership.set_needed_lease(parent)
        return call

    def may_have_joined(self, name: bytes, clients: ClientQueue) -> None:
        """Note that this client is in the queue of clients under this name, or may be."""
        leave = partial(self.leave_clients, clients)
        if self.queue is not None:
            self.queue.join_clients(name, leave)
        elif (together := self.together) is not None:
            together.joined = leave

    @property
    def together(self) -> Together | None:
        """Who waits in the queue of clients beside the tasks of a local queue; None: nobody can."""
        return None

    def leave_clients(self, clients: ClientQueue, *, closing: bool = False) -> None:
        """Take this client out of a queue of clients, without waiting."""
        context = self.context
        with suppress(ClientClosedError):
            clients.leave(context.executor, context.owners.client_id, closing=closing)

    # While it is held.

    def lower(self, hold: Hold) -> Call:
        """Lower the hold count on the server to ours; shorten the lease to what is needed."""
        context, present = self.context, now()
        seconds = hold.lease_needed(context.options.lease_time, present)
        change = hold.begin_change(seconds)
        hold.lease_maybe_set(present, seconds)
        call = context.executor.lower(self.commands, hold, hold.count, seconds, seconds, change)

        def lowered(done: Future[int | None]) -> None:
            context.watchdog.end_overdue(hold)
            hold.end_change(call)
            if done.exception() is not None:
                return
            if done.result() is None:
                context.watchdog.lose(hold, "taken")
            elif hold.state == "held" and hold.is_last_change(change):
                hold.lease_set(lease_from(call, present), seconds)

        when_answered(call, lowered)
        return call

    async def extend(self, lease: Lease, lease_time: float) -> None:
        """Set when a lease ends; see `Lease.extend`."""
        self.context.check()
        await LeaseExtension(self, hold_of(lease), lease, lease_time).done()

    async def hand_over(self, lease: Lease, lease_time: float | None) -> str:
        """Give a hold to another process; see `Lease.hand_over`."""
        raise cannot_be_handed_over(self)

    def set_needed_lease(self, hold: Hold) -> None:
        """Set the lease on the server to what the hold's leases need, without waiting."""
        watchdog, present = self.context.watchdog, now()
        seconds = hold.lease_needed(self.context.options.lease_time, present)
        change = hold.begin_change(seconds)
        call = self.send_set_lease(hold, seconds, change)

        def answered(done: Future[int]) -> None:
            watchdog.end_overdue(hold)
            hold.end_change(call)
            if done.cancelled() or done.exception() is not None or hold.state != "held":
                return
            if not done.result():
                watchdog.lose(hold, "taken")
            elif hold.is_last_change(change):
                hold.lease_set(lease_from(call, present), seconds)

        call.future.add_done_callback(answered)

    def send_set_lease(self, hold: Hold, lease_time: float, change: Change) -> Call:
        """Set the lease of a hold on the server; the reply is 0 if it is not there any more."""
        return self.context.executor.set_lease(self.commands, hold, lease_time, change)

    def warn_of_long_waits(self, hold: Hold, present: float, long: float) -> None:
        """Warn, once for each wait, of tasks that have waited `long` seconds for a hold.

        Perhaps it is a deadlock: `async with lock: await gather(helper())` never ends if `helper`
        wants the same lock. asyncio does not say which task another waits for, so the warning can
        only name the tasks and the lock. It is made when a hold is renewed, so acquiring costs
        nothing more.
        """
        queue = self.queue
        if queue is None or not queue.waiters or queue.hold is not hold:
            return
        late: list[Waiter] = []
        for waiter in queue.waiters:
            if not waiter.warned and waiter.since <= present - long:
                waiter.warned = True
                late.append(waiter)
        if not late:
            return
        names = ", ".join(_name_of(waiter.task) for waiter in late[:_MOST_NAMED_TASKS])
        more = f" and {len(late) - _MOST_NAMED_TASKS} more" if len(late) > _MOST_NAMED_TASKS else ""
        holder = _name_of(hold.task)
        log.warning(
            "%s%s: waiting for %s %r for more than %.1f s, which %s of this client holds; if %s"
            " awaits one of them (gather, TaskGroup), both wait forever",
            *(names, more, self.kind, self.name, long, holder, holder),
        )

    # Its end.

    def lost(self, hold: Hold) -> None:
        """Remove from the server what a lost hold may leave, and let waiting tasks ask again."""
        with suppress(ClientClosedError):
            if hold.uncertain or hold.is_changing:
                # A late duplicate of its acquire must be refused, and its grant released; an
                # extension under way would keep it on the server with no task to release it.
                self.send_release(hold)
            elif hold.reads or self.context.executor.may_keep(self.commands, hold):
                self.send_release(hold)
            elif hold.stays_taken(now()) is not None:
                # The server may have it for a moment more, and then not long enough.
                self.send_release(hold)
        self.hold_ended(hold)
        queue = self.queue
        if hold.reason in ("taken", "forced"):
            # Perhaps no message announced it. Any other end is one that the server had named.
            table, clients = self.context.bus.table, self.commands.clients
            table.ended_early(self.commands.channel)
            if clients is not None:
                table.wake_first(clients.channel(self.context.owners.client_id))
        if queue is not None:
            if queue.hold is hold:
                queue.hold = None
            if queue.waiters:
                queue.advance()

    def undo_late(self, hold: Hold) -> None:
        """Release what was, or may still be, granted to a hold after its loss."""
        hold.became_uncertain()
        with suppress(ClientClosedError):
            self.send_release(hold)

    def hold_ended(self, hold: Hold) -> None:
        """Handle the end of a hold that was lost, or released while its owner still reads."""


class Release:
    """A release on its way, and what its answer means.

    It is carried out whether its caller waits or was cancelled. The answer may say that the hold
    was gone, or that the server refuses; `judge` decides what follows, and is called with the
    answer in any case. If nobody is left to raise an error to, it goes to the log.

    Attributes:
        call: The request.
    """

    __slots__ = ("_hold", "_lease", "_let_go_at", "_ownership", "_was_valid", "call")

    call: Call
    _ownership: Ownership[Any, Any]
    _hold: Hold
    _lease: Lease | None
    #: When its holder let go of it, and whether the holder could rely on it until then.
    _let_go_at: float
    _was_valid: bool

    async def wait(self) -> None:
        """Wait for the answer, and raise the error that it means."""
        answer, reply, error = self.call.future, None, None
        try:
            reply = await answer
        except BaseException as raised:
            if not answer.done() or answer.cancelled() or answer.exception() is not raised:
                self.leave()
                raise
            error = raised
        problem = self.judge(reply, error)
        if problem is not None:
            raise problem from problem.__cause__

    def leave(self) -> None:
        """Have its answer judged although nobody waits for it any more."""

        def answered(done: Future[Any]) -> None:
            error = done.exception()
            report(self.judge(None if error is not None else done.result(), error))

        self.call.unattended().add_done_callback(answered)

    def judge(self, reply: Any, error: BaseException | None) -> BaseException | None:
        """Record what the answer means; return the error to raise, if it is one."""
        raise NotImplementedError

    def _refused(self, lease: Lease, error: RefusedError) -> Exception:
        """Return the error of a release that the server refused."""
        release_failed(lease, f"the server refused its release: {error}")
        return self._ownership.refusal(self._hold, lease, self.call, error)

    def _unanswered(self, lease: Lease, error: ConnectionLostError) -> ReleaseFailedError:
        """Return the error of a release that got no answer."""
        return self._failed(
            lease,
            f"the release of {self._ownership!r} got no answer ({error}) and is repeated until the"
            " lease ends",
            held=True,
        )

    def _failed(self, lease: Lease, text: str, *, held: bool) -> ReleaseFailedError:
        """Return the error of a failed release, and record it for the next one."""
        release_failed(lease, text)
        return ReleaseFailedError(text, maybe_held=held)


class WholeRelease(Release):
    """Ends a hold and sends that.

    Args:
        ownership: Whose hold it is.
        hold: The hold.
        lease: Its last lease, which is settled; None: no task wants the hold.
        let_go_at: When its holder let go of it.
        future: Gets the answer, if nothing late can arrive for the hold.
    """

    __slots__ = ("_own_message",)

    def __init__(
        self,
        ownership: Ownership[Any, Any],
        hold: Hold,
        lease: Lease | None,
        let_go_at: float,
        future: Future[Any] | None = None,
    ) -> None:
        self._ownership = ownership
        self._hold = hold
        self._lease = lease
        self._let_go_at = let_go_at
        self._was_valid = let_go_at < hold.ends_at
        context, commands, queue = ownership.context, ownership.commands, ownership.queue
        bus, executor = context.bus, context.executor
        sent_at = executor.time()
        #: The number that its message has on the channel; 0: this client hears none.
        self._own_message = bus.own_message(commands.channel) if bus.table.channels else 0
        ownership.forget(hold)
        hold.end("released")
        if queue is not None:
            if queue.hold is hold:
                queue.hold = None
            queue.releasing = True
            queue.released_at = sent_at
        try:
            if hold.parent is not None or hold.uncertain:
                self.call = ownership.send_release(hold)
            else:
                keep = hold.may_last_until - let_go_at
                taken = None if not hold.taken_until else hold.stays_taken(let_go_at)
                self.call = executor.give_back(
                    commands, hold, keep, future=future, at=sent_at, taken=taken
                )
        except BaseException:
            if queue is not None:
                queue.releasing = False
            raise
        finally:
            if hold.reads:
                ownership.hold_ended(hold)

    def judge(self, reply: Any, error: BaseException | None) -> BaseException | None:
        """Record what the answer means; return the error to raise, if it is one."""
        ownership, lease, problem = self._ownership, self._lease, error
        ownership.ended(reply, self._own_message)
        if lease is None:
            return None
        if error is None:
            if not reply and ownership.commands.was_lost(reply):
                problem = self._found_gone(lease, reply)
        elif isinstance(error, RefusedError):
            problem = self._refused(lease, error)
        elif isinstance(error, ConnectionLostError) and self._was_valid:
            problem = self._unanswered(lease, error)
        elif isinstance(error, ConnectionLostError):
            problem = lose_late(lease)
        if ownership.context.teller is not None:
            tell_released(lease, self._let_go_at)
        return None if problem is None else caused_by(problem, error)

    def _found_gone(self, lease: Lease, reply: Any) -> Exception | None:
        """Return the error of a release that did not find its hold; None if an earlier copy did."""
        if not self._was_valid:
            # It was over by the clock when this was sent, so the reason is not "taken".
            return lose_late(lease)
        if reply is None and self.call.uncertain:
            return None
        if now() < self._hold.ends_at:
            return lose_late(lease, "taken")
        # The lease was in force when its holder let go of it, so that is no loss.
        return self._failed(
            lease,
            f"the server did not release {self._ownership!r} before its lease ended",
            held=False,
        )


class PartRelease(Release):
    """Releases one acquisition of several, or some units.

    Args:
        ownership: Whose hold it is.
        hold: The hold, from which they are taken already.
        lease: The lease that is, or was, theirs.
        let_go_at: When its holder let go of it.
    """

    __slots__ = ("_alone",)

    def __init__(
        self, ownership: Ownership[Any, Any], hold: Hold, lease: Lease, let_go_at: float
    ) -> None:
        self._ownership = ownership
        self._hold = hold
        self._lease = lease
        self._let_go_at = let_go_at
        self._was_valid = let_go_at < hold.ends_at
        # Asked now: who is cancelled has left its block when the answer comes.
        self._alone = lease._block is None and lease._composite is None
        self.call = ownership.lower(hold)

    def judge(self, reply: Any, error: BaseException | None) -> BaseException | None:
        """Record what the answer means; return the error to raise, if it is one."""
        lease, call, problem = self._lease, self.call, error
        assert lease is not None
        if isinstance(error, RefusedError):
            problem = self._refused(lease, error)
            if self._alone and not call.uncertain:
                self._hold.release_refused(lease)
        elif isinstance(error, ConnectionLostError):
            problem = self._unanswered(lease, error)
        elif error is None and reply is None and not self._ended_between():
            problem = lose_late(lease, "taken")
        tell_released(lease, self._let_go_at)
        return None if problem is None else caused_by(problem, error)

    def _ended_between(self) -> bool:
        """Whether it may have been sent twice, and the lease that it set ended in between."""
        return self.call.uncertain and self._was_valid and now() >= self._hold.ends_at


def _name_of(reference: TaskRef) -> str:
    task = reference()
    return "a task that has ended" if task is None else f"task {task.get_name()!r}"


def cannot_be_handed_over(ownership: object, why: str = "") -> RuntimeError:
    """Return the error for a lease that cannot go to another process."""
    why = why or "only locks, fenced locks and fair locks on Redis can"
    return RuntimeError(f"{ownership!r} cannot be handed over: {why}")


def when_answered(call: Call, decide: Callable[[Future[Any]], object]) -> None:
    """Call `decide` with the answer to a request, also if its caller is cancelled meanwhile."""

    def answered(done: Future[Any]) -> None:
        if done.cancelled():
            call.unattended().add_done_callback(decide)
        else:
            decide(done)

    call.future.add_done_callback(answered)


def report(problem: BaseException | None) -> None:
    """Log an error that nobody waits for."""
    if problem is not None and not isinstance(problem, ClientClosedError):
        log.warning("a release failed after its caller was cancelled: %s", problem)


def caused_by(problem: BaseException, cause: BaseException | None) -> BaseException:
    """Return an error with its cause, unless it is that itself."""
    if problem is not cause:
        problem.__cause__ = cause
    return problem
