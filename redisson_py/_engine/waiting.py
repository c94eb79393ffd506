"""Waiting for something that a server grants: ask, listen, ask again, leave cleanly.

Every operation that waits for the server uses this loop. Locks, permits and latches differ in their
`Request` only.

Each sleep ends at the moment that the server named, at the caller's deadline, or after a safety
poll: messages arrive at most once, so no task relies on one forever. A wait ends as "busy" only
if the server said so shortly before the deadline, so the loop asks once more before its end; if the
server does not answer then, `ConnectionLostError` is raised. On every other way out the request
undoes what it may have left on the server, which serves the undo after the request, or refuses
the request then.
"""

from __future__ import annotations

import random
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeGuard, TypeVar

from redisson_py._answers import Busy, Wakes
from redisson_py._engine.wait import Wait
from redisson_py._loop import loop_time, sleep
from redisson_py._options import LAST_LOOK_SECONDS, SHORTEST_WAIT_SECONDS, grace
from redisson_py._time import PUNCTUAL_SECONDS
from redisson_py.errors import ConnectionLostError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

#: Longest sleep without asking, in seconds, before jitter.
SAFETY_POLL_SECONDS = 5.0

#: Shortest sleep between two requests, so that a server that names no moment is not flooded.
_SHORTEST_SLEEP_SECONDS = 0.05


@dataclass(slots=True)
class HeadStart:
    """A head start for other processes: those that waited when we released go first.

    Attributes:
        messages: The next request is sent at once after more than this many messages on the
            channel.
        until: With fewer messages, the first request is not sent before this loop time.
        patience: Later ones are not sent before this many seconds after each wake-up.
        taken: Whether another process used it when we last yielded: the messages came, or
            the lock was busy afterwards.
    """

    messages: int
    until: float
    patience: float
    taken: bool = False


class Request(Protocol[T_co]):
    """One caller's request for one thing.

    Attributes:
        heard_busy_at: When the server last said "busy", in loop time.
    """

    heard_busy_at: float

    @property
    def channel(self) -> bytes:
        """The channel on which releases are announced."""
        ...

    @property
    def wakes(self) -> Wakes:
        """Says how many waiters a message wakes."""
        ...

    @property
    def head_start(self) -> HeadStart | None:
        """The head start of other processes that comes before this request."""
        ...

    @property
    def listens_first(self) -> bool:
        """Whether it listens before it asks for the first time."""
        ...

    async def run(self, deadline: float | None) -> T_co | Busy:
        """Ask once; any result but `Busy` ends the wait."""
        ...

    def undo(self) -> None:
        """Undo what the request may have left on the server. Does not wait; idempotent."""
        ...


class Sleeper(Protocol):
    """Sleeps until a wake-up."""

    def arm(self) -> None: ...
    async def wait(self, seconds: float | None) -> None: ...
    async def wait_for_messages(self, beyond: int, seconds: float) -> bool: ...


class Wakeups(Protocol):
    """Gives out sleepers."""

    def listen(self, channel: bytes, wakes: Wakes) -> AbstractContextManager[Sleeper]: ...


async def acquire(
    request: Request[T],
    wakeups: Wakeups,
    deadline: float | None,
    *,
    once: bool = False,
    wait: Wait | None = None,
) -> T | None:
    """Return the answer to `request`, or None if it was busy until `deadline` (loop time).

    With `once`, ask a single time and wait for nothing but the answer. `wait` is started when the
    caller has to wait. Uncontended this is one round trip, and nothing listens. However it ends,
    also by cancellation, only what is returned remains on the server.
    """
    outcome: T | Busy = _NOT_ASKED
    try:
        head_start = None if once else request.head_start
        # One that comes to ask when its time is up has no time to listen.
        if once or not request.listens_first or _passed(deadline):
            outcome = await request.run(deadline)
            if type(outcome) is Busy and not once:
                request.heard_busy_at = loop_time()
        if type(outcome) is Busy and not (once or _passed(deadline)):
            if wait is not None and (head_start is not None or outcome is not _NOT_ASKED):
                wait.start()
            with wakeups.listen(request.channel, request.wakes) as sleeper:
                if head_start is not None:
                    left = head_start.until - loop_time()
                    head_start.taken = await sleeper.wait_for_messages(head_start.messages, left)
                outcome = await _keep_asking(request, sleeper, deadline, wait)
        if not isinstance(outcome, Busy):
            return outcome
        if outcome.queued:
            request.undo()
        if deadline is not None and not once and (left := deadline - loop_time()) > 0:
            # A wake-up came too shortly before it to ask again.
            await sleep(left)
    except ConnectionLostError:
        request.undo()
        if not (_passed(deadline) and is_fresh(request.heard_busy_at, deadline)):
            raise
    except BaseException:
        request.undo()
        raise
    return None


_NOT_ASKED = Busy(None)


async def _keep_asking(
    request: Request[T], sleeper: Sleeper, deadline: float | None, wait: Wait | None
) -> T | Busy:
    late = False
    while True:
        # Armed before asking: a release between our request and our sleep must wake us.
        sleeper.arm()
        outcome = await request.run(deadline)
        if not isinstance(outcome, Busy):
            return outcome
        request.heard_busy_at = loop_time()
        if wait is not None:
            wait.start()
        if late:
            return outcome
        if request.head_start is not None:
            request.head_start.taken = True
        await sleeper.wait(_sleep(outcome.retry_in, deadline))
        if _passed(deadline):
            if is_fresh(request.heard_busy_at, deadline):
                return outcome
            # The event loop was blocked when it was time for the last look.
            present = loop_time()
            late, deadline = True, present + grace(present - deadline)
            continue
        if request.head_start is not None:
            # Otherwise who listened first would decide which process gets it.
            head_start = request.head_start
            head_start.taken = await sleeper.wait_for_messages(
                head_start.messages, head_start.patience
            )


def deadline_in(seconds: float | None) -> float | None:
    """Return the deadline of a call with this timeout, in loop time; None: it has none."""
    return None if seconds is None else loop_time() + max(seconds, SHORTEST_WAIT_SECONDS)


def is_fresh(heard_busy_at: float, deadline: float | None) -> bool:
    """Return whether a "busy" heard at that moment is recent enough for a deadline."""
    return deadline is not None and heard_busy_at >= deadline - LAST_LOOK_SECONDS - PUNCTUAL_SECONDS


def _passed(deadline: float | None) -> TypeGuard[float]:
    return deadline is not None and loop_time() >= deadline - PUNCTUAL_SECONDS


def _sleep(retry_in: float | None, deadline: float | None) -> float:
    poll = SAFETY_POLL_SECONDS * random.uniform(1.0, 1.5)
    if retry_in is not None:
        poll = min(poll, max(retry_in, _SHORTEST_SLEEP_SECONDS))
    if deadline is not None:
        left = deadline - loop_time()
        poll = min(
            poll, left - LAST_LOOK_SECONDS if left > LAST_LOOK_SECONDS + PUNCTUAL_SECONDS else left
        )
    return poll
