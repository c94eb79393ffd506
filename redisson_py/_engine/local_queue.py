"""Handing a lock from task to task inside this process, and yielding to other processes.

Tasks of one client that wait for one lock stand in one queue, first come first served; only
its head asks the server. When the holder releases while tasks wait, the hold is passed: the server
keeps the same owner, only the local holder changes, and nothing is sent. This is lock cohorting
(Dice, Marathe, Shavit: "Lock Cohorting", PPoPP 2012), with a round trip in place of the remote
cache miss.

Passing would starve other processes, so it ends with the turn: a fixed time after the server
granted the hold, the next release goes to the server. The releasing process is awake and would win
again, so its next request yields: it waits for one release message per other listener, or until
`YIELD_SECONDS` has passed, after its own release and after each of theirs.

Invariants: while a task waits in the queue, the head is asking the server, or a local hold or a
release under way keeps the queue waiting. A waiter leaves the queue exactly once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from redisson_py._engine.waiting import HeadStart, is_fresh
from redisson_py._loop import Future, Timer, call_later, fail, loop_time, new_future, wake
from redisson_py._options import LAST_LOOK_SECONDS
from redisson_py._owner import TaskRef
from redisson_py._time import PUNCTUAL_SECONDS, now
from redisson_py.errors import ConnectionLostError

if TYPE_CHECKING:
    from redisson_py._engine.hold import TaskHold
    from redisson_py._engine.hold_watch import HoldWatch

#: Longest wait in seconds for the head start of other processes if no message comes.
YIELD_SECONDS = 0.003

#: Seconds without an offer after a head start that no process used: a client still listens for a
#: moment after its last waiter left, so a listener need not be a waiter.
YIELD_BACK_OFF_SECONDS = 0.05

_ASK = object()
#: Makes a waiter leave the queue: its time is up, or it need not wait any more.
LEAVE = object()


H = TypeVar("H", bound="TaskHold[Any]")


class Waiter:
    """One task that waits in the queue.

    Attributes:
        passable: It wants the watchdog's lease, so a hold can be passed to it.
        joined_at: The loop time at which it joined, if it has a timeout; else 0. With a timeout it
            waits until that ends, whether or not the server answers.
        since: The time at which it began to wait.
        warned: It needs no warning about a long wait: it had one, or it has a timeout.
    """

    __slots__ = ("future", "joined_at", "passable", "since", "task", "warned")

    def __init__(self, task: TaskRef, passable: bool) -> None:
        self.task: TaskRef = task
        self.passable: bool = passable
        self.joined_at: float = 0.0
        self.future: Future[object] = Future()
        self.since: float = now()
        self.warned: bool = False


_NOBODY: OrderedDict[Waiter, None] = OrderedDict()


class LocalQueue(Generic[H]):
    """The tasks of one client that wait for one lock, and the hold that one of them has.

    Attributes:
        waiters: The waiting tasks, in order of arrival.
        asking: The head has left the queue to ask the server, and has no answer yet.
        refused: The server has answered the head that the lock is busy.
        busy_at: The loop time at which the server last said so.
        released_at: The loop time of the last release of a hold by this client.
        head: The head, if it waited in the queue before.
        hold: The hold that a task of this client has on the lock, as far as is known.
        releasing: A release is under way; a request sent now would overtake the other waiters.
        head_start: The head start of other processes to which the next request yields.
        no_head_start_until: None is offered before this loop time, as the last one was not taken.
        joined: Takes the client out of the queue of clients on the server, if it is or may be
            there; else None. It is not there when nobody waits here.
        joined_as: The name that it has there.
        yields_until: A request before this loop time lets the first of that queue go first: this
            client has released to it; or 0.
        watch: Notices that the hold was released by force while tasks wait, or None.
    """

    __slots__ = (
        "__weakref__",
        "asking",
        "busy_at",
        "head",
        "head_start",
        "hold",
        "joined",
        "joined_as",
        "no_head_start_until",
        "refused",
        "released_at",
        "releasing",
        "waiters",
        "watch",
        "yields_until",
    )

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Reset everything after the event loop was closed: nothing in it continues."""
        # A dictionary is made for the first waiter: most names never have one.
        self.waiters: OrderedDict[Waiter, None] = _NOBODY
        self.asking: bool = False
        self.refused: bool = False
        self.busy_at: float = 0.0
        self.released_at: float = 0.0
        self.head: Waiter | None = None
        self.hold: H | None = None
        self.releasing: bool = False
        self.head_start: HeadStart | None = None
        self.no_head_start_until: float = 0.0
        self.joined: Callable[..., object] | None = None
        self.joined_as: bytes = b""
        self.yields_until: float = 0.0
        self.watch: HoldWatch | None = None

    def needed(self, present: float) -> bool:
        """Whether tasks wait, hold or must yield at the loop time `present`."""
        busy = self.hold is not None or self.waiters or self.asking or self.releasing
        return (
            bool(busy)
            or self._owes_a_head_start(present)
            or max(self.no_head_start_until, self.yields_until) > present
        )

    def _owes_a_head_start(self, present: float) -> bool:
        return self.head_start is not None and self.head_start.until > present

    @property
    def waiting(self) -> int:
        """The number of waiting tasks, including one that asks the server."""
        return len(self.waiters) + self.asking

    @property
    def is_ahead(self) -> bool:
        """Whether other tasks here, or a head start of others, come before a new task."""
        return (
            bool(self.waiters)
            or (self.asking and (self.refused or self.head is not None))
            or (self.head_start is not None and self._owes_a_head_start(loop_time()))
        )

    @property
    def _free(self) -> bool:
        return not (self.asking or self.releasing) and (self.hold is None or not self.hold.valid)

    def go_first(self) -> bool:
        """Return whether a new task may ask the server at once. If so, `asked` must follow."""
        if self.waiters or self.asking or self.releasing:
            return False
        if self.hold is not None and self.hold.valid:
            return False
        self.asking = True
        return True

    def join(self, waiter: Waiter) -> Waiter:
        """Join the queue at its end; `wait` or `abandon` must follow."""
        if self.waiters is _NOBODY:
            self.waiters = OrderedDict()
        self.waiters[waiter] = None
        return waiter

    async def wait(
        self,
        waiter: Waiter,
        deadline: float | None,
        probe: Callable[[], object] = lambda: None,
    ) -> H | bool:
        """Wait in the queue; return a hold that was passed, True to ask the server, False to leave.

        After True, `asked` must follow. If cancelled, the waiter leaves, and what it was given goes
        to the next. `probe` is called shortly before its time runs out: the local state is only
        reliable if the server still answers.
        """
        timers: list[Timer] = []
        if deadline is not None:
            waiter.warned = True
            waiter.joined_at = present = loop_time()
            left = max(0.0, deadline - present)
            timers = [
                call_later(left, lambda: wake(waiter.future, LEAVE)),
                call_later(max(0.0, left - LAST_LOOK_SECONDS), probe),
            ]
        try:
            while True:
                answer = await waiter.future
                if answer is _ASK or answer is LEAVE:
                    break
                passed = cast("H", answer)
                if passed.valid:
                    return passed
                # Lost since it was passed: this waiter is the head again.
                if deadline is not None and loop_time() >= deadline - PUNCTUAL_SECONDS:
                    return False
                waiter.future = new_future()
                self.waiters[waiter] = None
                self.waiters.move_to_end(waiter, last=False)
                self.advance()
        except BaseException:
            self.abandon(waiter)
            raise
        finally:
            for timer in timers:
                timer.cancel()
        if answer is _ASK:
            return True
        self._left(waiter)
        return False

    def is_busy(self, waiter: Waiter) -> bool:
        """Return whether the lock is known to be busy, for a waiter whose time is up."""
        if self.refused or (self.hold is not None and self.hold.valid):
            return True
        known_at = max(self.busy_at, self.released_at)
        return known_at >= waiter.joined_at or is_fresh(known_at, loop_time())

    def known_busy_at(self, waiter: Waiter | None) -> float:
        """Return when it was last known to be busy; `waiter` is the head if it waited here."""
        if waiter is not None and self.released_at >= waiter.joined_at > 0:
            # A task of this client held it meanwhile.
            return max(self.busy_at, self.released_at)
        return self.busy_at

    def fail_together(self, error: Callable[[], ConnectionLostError]) -> None:
        """Fail all waiters without a timeout: the server did not answer the head in time."""
        for waiter in list(self.waiters):
            if not waiter.joined_at:
                fail(waiter.future, error())

    def asked(self) -> None:
        """End the head's request; the next waiter may ask, unless there is a hold."""
        self.asking = False
        self.refused = False
        self.head = None
        self.advance()
        if not self.waiting:
            self._leave_clients()

    def join_clients(self, name: bytes, leave: Callable[..., object]) -> None:
        """Note that the client joins the queue of clients, where it has one name at a time."""
        if self.joined_as != name:
            self._leave_clients()
        self.joined, self.joined_as = leave, name

    def _leave_clients(self, *, closing: bool = False) -> None:
        leave, self.joined = self.joined, None
        if leave is not None:
            leave(closing=closing)

    def pass_on(self, hold: H, longest: float, least_left: float) -> bool:
        """Pass `hold` to the next waiter if that is possible; return whether it was passed."""
        for waiter in self.waiters:
            # A waiter that was cancelled, or whose time is up, removes itself.
            if not waiter.future.done():
                break
        else:
            return False
        if not waiter.passable or hold is not self.hold or not hold.may_pass(longest, least_left):
            return False
        self._remove(waiter)
        if self.joined is not None and not self.waiting:
            self._leave_clients()
        hold.pass_to(waiter.task)
        waiter.future.set_result(hold)
        return True

    def advance(self) -> None:
        """Make the head ask the server if nothing here keeps it waiting."""
        while self.waiters and self._free:
            # A waiter that cannot be woken was cancelled, or its time is up.
            head = next(iter(self.waiters))
            self._remove(head)
            self.asking = wake(head.future, _ASK)
            self.head = head if self.asking else None

    def _left(self, waiter: Waiter) -> None:
        """Remove a waiter that waits no more; with the last one the client leaves its queue."""
        self._remove(waiter)
        if not self.waiting:
            self._leave_clients()

    def _remove(self, waiter: Waiter) -> None:
        waiters, watch = self.waiters, self.watch
        waiters.pop(waiter, None)
        if watch is not None and watch.seat is not None and not waiters:
            self.end_watch()

    def end_watch(self) -> None:
        """Stop watching the hold, because nobody waits for it."""
        watch, self.watch = self.watch, None
        if watch is not None:
            watch.end()

    def close(self, error: BaseException) -> None:
        """Raise `error` in all waiters."""
        self.end_watch()
        self._leave_clients(closing=True)
        for waiter in list(self.waiters):
            fail(waiter.future, error)

    def heard_busy(self) -> None:
        """Record that the server answered the head that the lock is busy."""
        self.refused = True
        self.busy_at = loop_time()

    def take_head_start(self) -> HeadStart | None:
        """Return the head start to which the next request yields, and forget it: it counts once."""
        head_start, self.head_start = self.head_start, None
        if head_start is not None and head_start.until > loop_time():
            return head_start
        return None

    def offer_head_start(self, others: int, own_message: int) -> HeadStart | None:
        """Return a head start for `others` listeners, unless the last one was not taken."""
        present = loop_time()
        if others <= 0 or present < self.no_head_start_until:
            return None
        return HeadStart(own_message + others - 1, present + YIELD_SECONDS, YIELD_SECONDS)

    def take_yield(self, once: bool) -> bool:
        """Return whether the next request lets the first client of the queue go first; once."""
        yields = self.yields_until > 0 and self.yields_until > loop_time()
        if not once:
            self.yields_until = 0.0
        return yields

    def called_next(self) -> None:
        """Let the client go first that our release has called."""
        self.yields_until = loop_time() + YIELD_BACK_OFF_SECONDS

    def head_start_not_taken(self) -> None:
        """Offer no head start for a while, because no process used the last one."""
        self.no_head_start_until = loop_time() + YIELD_BACK_OFF_SECONDS

    def abandon(self, waiter: Waiter) -> None:
        """Remove a cancelled waiter; pass on what it was just given."""
        future = waiter.future
        given = None
        if future.done() and not future.cancelled() and future.exception() is None:
            given = future.result()
        if given is _ASK:
            self.asked()
        elif given is None or given is LEAVE:
            self._left(waiter)
        else:
            cast("H", given).give_back()

    def check(self) -> None:
        """Raise `AssertionError` if an invariant does not hold; for tests."""
        if any(not waiter.future.done() for waiter in self.waiters):
            held = self.hold is not None and self.hold.state == "held"
            assert self.asking or self.releasing or held, "somebody waits, and nobody will call"
        elif self.joined:
            assert self.asking, "nobody waits, and the client is in the queue of clients"
