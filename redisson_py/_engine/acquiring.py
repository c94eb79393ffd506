"""Acquiring, for every kind: stand behind those that came before, ask, keep what is granted.

This is the only place where it is written. A kind gives it an `Attempt`: the local queue, whether
asking now would overtake, how to ask, and what to do with a grant. A caller that does not wait asks
once, unless others come first. Any other goes first if the queue is empty, or waits in it until a
task here passes a hold on, or it is the head and asks. What was granted too late to be used is
given back, and the caller tries again a few times.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from redisson_py._engine.context import Context
from redisson_py._engine.local_queue import LocalQueue, Waiter
from redisson_py._engine.wait import Wait
from redisson_py._keys import Name
from redisson_py._loop import Task, loop_time
from redisson_py._time import PUNCTUAL_SECONDS
from redisson_py.errors import ConnectionLostError, LeaseLostError, QuorumError

#: Number of grants in a row that came too late to be used, after which `LeaseLostError` is raised.
STALE_GRANTS = 3

G = TypeVar("G")
"""What is granted or passed: a hold, or several."""
L = TypeVar("L")
"""What the caller gets: a lease, or several."""


class Attempt(Generic[G, L]):
    """One caller's acquisition of one thing.

    Args:
        context: The client that counts the wait.
        kind: The kind, in words for messages.
        name: The name.
        queue: The tasks of this client that wait for it; None: each asks for itself.
        task: The caller.
        deadline: The end of its wait, in loop time; None: it has none.
        once: It does not wait.
        lease_time: Seconds; None for a lease that is renewed.
    """

    #: It asks before it stands in the queue, as several may hold the thing.
    asks_beside = False
    #: It has asked already, or waits already: its request, or its place in the queue.
    begun: Any = None

    def __init__(
        self,
        context: Context,
        kind: str,
        name: Name,
        queue: LocalQueue[Any] | None,
        task: Task,
        deadline: float | None,
        once: bool,
        lease_time: float | None,
    ) -> None:
        self.context = context
        self.kind = kind
        self.name = name
        self.queue = queue
        self.task = task
        self.deadline = deadline
        self.once = once
        self.lease_time = lease_time

    # Before it asks.

    def is_behind(self) -> bool:
        """Return whether asking now would overtake: others here, or other processes, come first."""
        raise NotImplementedError

    async def refuse(self) -> None:
        """Return if it is busy, for a caller that is behind; raise if no server answers."""
        raise NotImplementedError

    async def ask_beside(self) -> G | None:
        """Ask before standing in the queue; return None if the caller must wait."""
        raise NotImplementedError

    def is_late(self) -> bool:
        """Return whether its time is up."""
        return self.deadline is not None and loop_time() >= self.deadline - PUNCTUAL_SECONDS

    def join(self) -> Waiter:
        """Join the queue at its end; return the place."""
        raise NotImplementedError

    def goes_first(self) -> None:
        """Note that the queue was empty."""

    def probe(self) -> None:
        """Make the servers answer something soon."""

    async def was_busy(self, waiter: Waiter) -> bool:
        """Return whether it was busy, for a caller whose time is up in the queue."""
        raise NotImplementedError

    def no_answer(self) -> Exception:
        """Return the error if it is not known whether it was busy."""
        raise NotImplementedError

    def passed(self, hold: Any) -> G:
        """Return what a task here has passed to the caller."""
        grant: G = hold
        return grant

    def left_queue(self) -> None:
        """Undo what the caller had begun: it left the queue with an error."""

    # Asking, and after it.

    async def ask(self, waiter: Waiter | None, wait: Wait) -> G | None:
        """Ask until it is granted, or until time is up; `waiter` was its place in the queue."""
        raise NotImplementedError

    def fail_together(self) -> None:
        """Fail the waiters without a timeout if the servers did not answer the head."""

    def is_good(self, grant: G) -> bool:
        """Return whether what was granted is still in force."""
        raise NotImplementedError

    def take(self, grant: G, waited: float) -> L:
        """Give what was granted or passed to the caller, after so many seconds."""
        raise NotImplementedError

    def give_back(self, grant: G) -> None:
        """Give back what was over before it could be used."""
        raise NotImplementedError

    def loss(self, grant: G) -> LeaseLostError:
        """Return the error of what was over before it could be used."""
        raise NotImplementedError


async def acquire(attempt: Attempt[G, L], outer: Wait | None = None) -> L | None:
    """Return what was acquired, or None when the deadline has passed (or it is busy, with `once`).

    If it is cancelled, nothing is held. `outer` is the wait of a composite that this is part of.
    """
    stale_grants = 0
    with Wait(attempt.context, attempt.kind, attempt.name, outer) as wait:
        while True:
            try:
                grant = await _grant(attempt, wait)
            except QuorumError as error:
                if error.quorum_answered:
                    wait.timed_out(attempt.once)
                raise
            attempt.begun = None
            if grant is None:
                wait.timed_out(attempt.once)
                return None
            if attempt.is_good(grant):
                return attempt.take(grant, wait.granted())
            loss = attempt.loss(grant)
            attempt.give_back(grant)
            stale_grants += 1
            if stale_grants == STALE_GRANTS:
                raise loss


async def _grant(attempt: Attempt[G, L], wait: Wait) -> G | None:
    """Return what a server grants or a task here passes on; None when time is up."""
    queue, begun, waiter = attempt.queue, attempt.begun, None
    if attempt.once:
        if attempt.is_behind():
            await attempt.refuse()
            return None
        queue = None
    elif attempt.asks_beside:
        grant = await attempt.ask_beside()
        if grant is not None or attempt.is_late():
            return grant
        wait.start()
        begun = None
    if queue is not None:
        if begun is None and queue.go_first():
            attempt.goes_first()
        elif begun is None or isinstance(begun, Waiter):
            waiter = begun or attempt.join()
            wait.start(waiter.since)
            passed = await _passed(attempt, queue, waiter)
            if passed is False:
                if await attempt.was_busy(waiter):
                    return None
                raise attempt.no_answer()
            if passed is not True:
                return attempt.passed(passed)
    try:
        return await attempt.ask(waiter, wait)
    except ConnectionLostError:
        attempt.fail_together()
        raise
    finally:
        if queue is not None:
            queue.asked()


async def _passed(attempt: Attempt[G, L], queue: LocalQueue[Any], waiter: Waiter) -> Any:
    """Return a hold that was passed, True to ask, or False when time is up."""
    try:
        return await queue.wait(waiter, attempt.deadline, attempt.probe)
    except BaseException:
        attempt.left_queue()
        raise
