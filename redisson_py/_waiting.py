"""Waiting for something a Redis script grants: ask, listen, ask again, leave cleanly.

Every blocking operation of this library is this loop. What differs between a lock, a permit
and a latch is the `Attempt`, never the loop.

The wait is bounded by the moment the server named, by the caller's deadline, and by a safety
poll: messages arrive at most once, so nobody relies on one for ever. On every way out the
attempt is told to undo what its last question may have left; because all travels on one
ordered stream, the undo cannot overtake the question.
"""

from __future__ import annotations

import random
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from redisson_py._loop import running_loop
from redisson_py._stream.call import LateReplyError
from redisson_py._wakeups.table import Wakes
from redisson_py.errors import AcquireTimeoutError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

#: Longest sleep without asking, in seconds, before jitter.
SAFETY_POLL = 5.0

#: Shortest sleep between two questions, so that a server that names no moment is not flooded.
_FLOOR = 0.05


@dataclass(frozen=True, slots=True)
class Granted(Generic[T_co]):
    """The script said yes."""

    value: T_co


@dataclass(frozen=True, slots=True)
class Busy:
    """The script said not yet.

    Attributes:
        retry_in: Seconds after which to ask again even if nobody wakes us; None: not known.
        queued: The server remembers us, so leaving must be announced.
    """

    retry_in: float | None
    queued: bool = False


@dataclass(slots=True)
class Turn:
    """Other processes' turn: those who waited when we released go first.

    Attributes:
        messages: We ask at once when more than this many have come on the channel.
        until: Before that, not before this loop time;
        patience: and later not before so many seconds after each wake-up.
        taken: Whether somebody used it when we last gave way: the messages came, or it was
            busy afterwards.
    """

    messages: int
    until: float
    patience: float
    taken: bool = False


class Attempt(Protocol[T_co]):
    """One caller's request for one thing."""

    @property
    def channel(self) -> bytes:
        """Where a chance to get it is announced."""
        ...

    @property
    def wakes(self) -> Wakes:
        """How many waiters a message is for."""
        ...

    @property
    def turn(self) -> Turn | None:
        """Whose turn it is before ours."""
        ...

    async def run(self, deadline: float | None) -> Granted[T_co] | Busy:
        """Ask once: one script, one round trip."""
        ...

    def undo(self) -> None:
        """Give back what the last question may have left. Does not wait; idempotent."""
        ...


class Waiter(Protocol):
    """A place to sleep until a wake-up."""

    def arm(self) -> None: ...
    async def wait(self, seconds: float | None) -> None: ...
    async def wait_for_messages(self, beyond: int, seconds: float) -> bool: ...


class Wakeups(Protocol):
    """Where to find such places."""

    def listen(self, channel: bytes, wakes: Wakes) -> AbstractContextManager[Waiter]: ...


async def acquire(
    attempt: Attempt[T], wakeups: Wakeups, deadline: float | None, *, once: bool = False
) -> T | None:
    """Return what `attempt` is granted, or None once `deadline` (in loop time) has passed.

    With `once`, ask a single time and wait for nothing but the answer. Uncontended this is
    one round trip and no subscription. However it ends, by cancellation of any kind too,
    nothing stays behind but what is returned.
    """
    outcome: Granted[T] | Busy | None = None
    try:
        turn = None if once else attempt.turn
        if turn is None:
            outcome = await attempt.run(deadline)
        if not (once or isinstance(outcome, Granted) or _passed(deadline)):
            with wakeups.listen(attempt.channel, attempt.wakes) as waiter:
                if turn is not None:
                    left = turn.until - running_loop().time()
                    turn.taken = await waiter.wait_for_messages(turn.messages, left)
                outcome = await _keep_asking(attempt, waiter, deadline)
    except LateReplyError as late:
        attempt.undo()
        if deadline is not None and running_loop().time() >= deadline:
            raise AcquireTimeoutError("Redis did not answer within the timeout") from late
        raise
    except BaseException:
        attempt.undo()
        raise
    if isinstance(outcome, Granted):
        return outcome.value
    if outcome is not None and outcome.queued:
        attempt.undo()
    return None


async def _keep_asking(
    attempt: Attempt[T], waiter: Waiter, deadline: float | None
) -> Granted[T] | Busy:
    while True:
        # Armed before asking: a release between our question and our sleep must wake us.
        waiter.arm()
        outcome = await attempt.run(deadline)
        if isinstance(outcome, Granted):
            return outcome
        if attempt.turn is not None:
            attempt.turn.taken = True
        await waiter.wait(_sleep(outcome.retry_in, deadline))
        if _passed(deadline):
            return outcome
        if attempt.turn is not None:
            # Whoever hears of a release first, by the order of subscriptions, would else get it.
            turn = attempt.turn
            turn.taken = await waiter.wait_for_messages(turn.messages, turn.patience)


def _passed(deadline: float | None) -> bool:
    return deadline is not None and running_loop().time() >= deadline


def _sleep(retry_in: float | None, deadline: float | None) -> float:
    poll = SAFETY_POLL * random.uniform(1.0, 1.5)
    if retry_in is not None:
        poll = min(poll, max(retry_in, _FLOOR))
    if deadline is not None:
        poll = min(poll, deadline - running_loop().time())
    return poll
