"""Handing a lock from task to task inside this process, and yielding to other processes.

Tasks of one client that wait for one lock stand in one queue, first come first served; only
its head asks Redis. When the holder releases and somebody waits, the hold is passed: Redis goes
on naming this client's owner, only the local holder changes, and nothing is sent. That is lock
cohorting (Dice, Marathe, Shavit: "Lock Cohorting", PPoPP 2012), with the round trip in the part
of the remote cache miss.

Passing would starve other processes, so it ends with the turn: a while after Redis granted
the hold it is released for real. The process that releases is awake and would win again, so its
next request yields: it waits for one release message per other subscriber, or until
`YIELD_WAIT` has passed, after its own release and after each of theirs.

Invariants: while somebody waits in the queue, somebody asks, or a local hold or a release under
way keeps the queue waiting. A waiter leaves the queue exactly once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, cast

from redisson_py._engine.waiting import Turn, is_fresh
from redisson_py._loop import Future, Timer, call_later, fail, new_future, running_loop, wake
from redisson_py._options import LAST_LOOK
from redisson_py._owner import TaskRef
from redisson_py._time import PUNCTUAL, now
from redisson_py.errors import ConnectionLostError

if TYPE_CHECKING:
    from redisson_py._engine.lease import Lease

#: How long the turn of other processes is waited for if no message comes, in seconds.
YIELD_WAIT = 0.003

#: How long no turn is offered after one that nobody took, in seconds: a subscription outlives its
#: last waiter for a moment, so a subscriber need not be a waiter.
YIELD_BACK_OFF = 0.05

_ASK = object()
#: Tells a waiter to leave the queue: its time is up, or it need not wait any more.
LEAVE = object()


class Passable(Protocol):
    """A hold that can go from task to task: one in Redis, or one made of several."""

    @property
    def task(self) -> TaskRef: ...
    @property
    def state(self) -> str: ...

    @property
    def valid(self) -> bool:
        """Whether it can still be relied on, by the local clock."""
        ...

    def known_leases(self) -> Sequence[Lease]:
        """Return its leases that anybody refers to: held, or lost and not reported yet."""
        ...

    def may_pass(self, turn: float, least_left: float) -> bool:
        """Return whether it may go to another task here without Redis."""
        ...

    def pass_to(self, task: TaskRef) -> None:
        """Offer it to another task, which takes it."""
        ...

    def taken_by(self, task: TaskRef) -> None:
        """It belongs to this task from now on."""
        ...

    def give_back(self) -> None:
        """Nobody took it: pass it on or release it, without waiting."""
        ...


H = TypeVar("H", bound=Passable)


class Waiter:
    """One task that waits in the queue.

    Attributes:
        passable: It wants the watchdog's lease, so a hold can be passed to it.
        joined_at: When it came, in loop time, if it has a timeout. It then waits for as long as
            that allows, whether or not Redis answers.
        since: When it began to wait.
        told: It needs no warning that it waits long for a task of this client: that was given, or
            it has a timeout.
    """

    __slots__ = ("future", "joined_at", "passable", "since", "task", "told")

    def __init__(self, task: TaskRef, passable: bool) -> None:
        self.task: TaskRef = task
        self.passable: bool = passable
        self.joined_at: float = 0.0
        self.future: Future[object] = Future()
        self.since: float = now()
        self.told: bool = False


_NOBODY: OrderedDict[Waiter, None] = OrderedDict()


class LocalQueue(Generic[H]):
    """The tasks of one client that want one lock, and the hold that one of them has.

    Attributes:
        waiters: Those who wait, first come first.
        asking: The head has left the queue to ask Redis, and is not back.
        refused: Redis has told the head that it is busy.
        busy_at: When Redis last said so, in loop time.
        released_at: When a hold here was last released, likewise.
        head: The head, if it waited in the queue before.
        hold: The hold that a task of this client has on the lock, as far as is known.
        releasing: A release is under way; a request sent now would overtake the others.
        turn: The turn of other processes to which the next request yields.
        no_turn_until: Until when, in loop time, no turn is offered: the last one was not taken.
    """

    __slots__ = (
        "__weakref__",
        "asking",
        "busy_at",
        "head",
        "hold",
        "no_turn_until",
        "refused",
        "released_at",
        "releasing",
        "turn",
        "waiters",
    )

    def __init__(self) -> None:
        self.start_over()

    def start_over(self) -> None:
        """Be as new: an event loop was closed, and whatever it left here goes on no more."""
        # Its own with the first waiter: most names never have one.
        self.waiters: OrderedDict[Waiter, None] = _NOBODY
        self.asking: bool = False
        self.refused: bool = False
        self.busy_at: float = 0.0
        self.released_at: float = 0.0
        self.head: Waiter | None = None
        self.hold: H | None = None
        self.releasing: bool = False
        self.turn: Turn | None = None
        self.no_turn_until: float = 0.0

    def needed(self, present: float) -> bool:
        """Whether somebody waits here, holds, or must yield, at a loop time."""
        busy = self.waiters or self.asking or self.releasing or self.hold is not None
        return bool(busy) or self._owes_a_turn(present) or self.no_turn_until > present

    def _owes_a_turn(self, present: float) -> bool:
        return self.turn is not None and self.turn.until > present

    @property
    def waiting(self) -> int:
        """How many tasks wait, one that asks Redis included."""
        return len(self.waiters) + self.asking

    @property
    def is_ahead(self) -> bool:
        """Whether a task that does not want to wait has to: for others here, or their turn."""
        return (
            bool(self.waiters)
            or (self.asking and (self.refused or self.head is not None))
            or (self.turn is not None and self._owes_a_turn(running_loop().time()))
        )

    @property
    def _free(self) -> bool:
        return not (self.asking or self.releasing) and (self.hold is None or not self.hold.valid)

    def go_first(self) -> bool:
        """Ask Redis at once, if nobody is before us; return whether. Then `asked` must follow."""
        if self.waiters or self.asking or self.releasing:
            return False
        if self.hold is not None and self.hold.valid:
            return False
        self.asking = True
        return True

    def join(self, waiter: Waiter) -> Waiter:
        """Stand in the queue, as the last; `wait` must follow, or `abandon`."""
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
        """Wait in the queue; return a hold that was passed, True to ask Redis, False to leave.

        After True, `asked` must follow. Cancelled, the waiter leaves and what it was given goes
        to the next. Shortly before its time runs out, `probe` is called: what is known here is only
        true if Redis still answers.
        """
        timers: list[Timer] = []
        if deadline is not None:
            waiter.told = True
            waiter.joined_at = present = running_loop().time()
            left = max(0.0, deadline - present)
            timers = [
                call_later(left, lambda: wake(waiter.future, LEAVE)),
                call_later(max(0.0, left - LAST_LOOK), probe),
            ]
        try:
            while True:
                answer = await waiter.future
                if answer is _ASK or answer is LEAVE:
                    break
                passed = cast("H", answer)
                if passed.valid:
                    return passed
                # Lost between the pass and now: what comes next is ours, before all others.
                if deadline is not None and running_loop().time() >= deadline - PUNCTUAL:
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
        self.waiters.pop(waiter, None)
        return False

    def is_busy(self, waiter: Waiter) -> bool:
        """Return whether it is busy as far as is known, for one that has waited until now."""
        if self.refused or (self.hold is not None and self.hold.valid):
            return True
        known_at = max(self.busy_at, self.released_at)
        return known_at >= waiter.joined_at or is_fresh(known_at, running_loop().time())

    def known_busy_at(self, waiter: Waiter | None) -> float:
        """Return when it was last known to be busy, for the head, which may have waited here."""
        if waiter is not None and self.released_at >= waiter.joined_at > 0:
            # A task here had it meanwhile.
            return max(self.busy_at, self.released_at)
        return self.busy_at

    def fail_together(self, error: Callable[[], ConnectionLostError]) -> None:
        """Redis did not answer the head in time: fail all who wait without a timeout."""
        for waiter in list(self.waiters):
            if not waiter.joined_at:
                fail(waiter.future, error())

    def asked(self) -> None:
        """Redis has answered, or will not; the next one may ask, unless there is a hold."""
        self.asking = False
        self.refused = False
        self.head = None
        if self.waiters:
            self.advance()

    def pass_on(self, hold: H, turn: float, least_left: float) -> bool:
        """Make the next in the queue the holder of `hold`, if it may be passed; return whether."""
        for waiter in self.waiters:
            # One that was cancelled, or whose time is up, takes itself out.
            if not waiter.future.done():
                break
        else:
            return False
        if not waiter.passable or hold is not self.hold or not hold.may_pass(turn, least_left):
            return False
        del self.waiters[waiter]
        hold.pass_to(waiter.task)
        waiter.future.set_result(hold)
        return True

    def advance(self) -> None:
        """Have the head ask Redis if nothing here keeps it waiting."""
        while self.waiters and self._free:
            # One that cannot be woken was cancelled, or its time is up: it has gone.
            head, _ = self.waiters.popitem(last=False)
            self.asking = wake(head.future, _ASK)
            self.head = head if self.asking else None

    def close(self, error: BaseException) -> None:
        """Send everybody away."""
        for waiter in list(self.waiters):
            fail(waiter.future, error)

    def heard_busy(self) -> None:
        """Redis has told the head that it is busy."""
        self.refused = True
        self.busy_at = running_loop().time()

    def take_turn(self) -> Turn | None:
        """Return the turn of others to which the next request yields; it yields once."""
        turn, self.turn = self.turn, None
        if turn is not None and turn.until > running_loop().time():
            return turn
        return None

    def offer_turn(self, others: int, own_message: int) -> Turn | None:
        """Return the turn of this many other subscribers, unless the last one was not taken."""
        present = running_loop().time()
        if others <= 0 or present < self.no_turn_until:
            return None
        return Turn(own_message + others - 1, present + YIELD_WAIT, YIELD_WAIT)

    def turn_not_taken(self) -> None:
        """Nobody used the turn that was offered: offer none for a while."""
        self.no_turn_until = running_loop().time() + YIELD_BACK_OFF

    def abandon(self, waiter: Waiter) -> None:
        """A waiting task was cancelled, perhaps just after it was given something."""
        future = waiter.future
        given = None
        if future.done() and not future.cancelled() and future.exception() is None:
            given = future.result()
        if given is _ASK:
            self.asked()
        elif given is None or given is LEAVE:
            self.waiters.pop(waiter, None)
        else:
            cast("H", given).give_back()

    def check(self) -> None:
        """Raise `AssertionError` if an invariant does not hold; for tests."""
        if any(not waiter.future.done() for waiter in self.waiters):
            held = self.hold is not None and self.hold.state == "held"
            assert self.asking or self.releasing or held, "somebody waits, and nobody will call"
