"""Asking several independent servers for one lock, in rounds, until a quorum grants it.

A round asks all servers at once, each with a short deadline of its own. A quorum of grants is
the lock, without waiting for the rest: a later grant joins. Fewer grants are given back, also
on servers that did not answer. Between two rounds the caller sleeps until the servers that have
announced a release, or whose lease ends, could be a quorum together with those that granted: so a
holder's release wakes it once and not once a server, and its own undo does not wake it at all.

A round with some grants, but too few, is a split vote, or looks like one: several callers asked
at the same time and each got a part. They all hear of each other's undo at the same moment, so
each waits for a random time before it asks again, up to twice as long as the last time.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Self

from redisson_py._answers import Busy, Wakes
from redisson_py._engine.bus import Sleeper
from redisson_py._engine.hold import Lease
from redisson_py._engine.task_ownership import TaskOwnership
from redisson_py._engine.waiting import HeadStart, is_fresh
from redisson_py._loop import Future, Task, call_later, loop_time, new_future, wake
from redisson_py._redis.commands.wakes import lock_wakes
from redisson_py._redis.identity import open_way
from redisson_py.composite._gather import Gather
from redisson_py.composite._hold import CompositeHold
from redisson_py.composite._member import (
    NotGrantedError,
    Pending,
    ask,
    release_all,
)
from redisson_py.errors import (
    AcquireTimeoutError,
    BackendError,
    ClientClosedError,
    ConnectionLostError,
    LeaseLostError,
)

if TYPE_CHECKING:
    from redisson_py.composite.red_lock import QuorumOwnership

log = logging.getLogger("redisson_py")

#: How long to wait for one server: a share of the lease, as on Redis' page on Redlock (50 ms of
#: 10 s); at least as long as a busy but healthy server or event loop may take; not so long that a
#: person notices; and never so long that half of the others' leases has passed.
_ANSWER_SHARE, _SHORTEST_ANSWER_SECONDS, _LONGEST_ANSWER_SECONDS = 1 / 200, 0.1, 0.5

#: How often to ask, in seconds, while too many servers are unresponsive.
_UNRESPONSIVE_POLL_SECONDS = 0.25

#: Range of the random wait in seconds after a split vote: enough to separate the rounds of two
#: callers on one machine. It doubles with each split vote up to the longest, which spreads even
#: hundreds of callers over enough rounds.
_SHORTEST_SPREAD_SECONDS, _LONGEST_SPREAD_SECONDS = 0.002, 0.25


def answer_time(members: Sequence[TaskOwnership], lease_time: float | None) -> float:
    """Return the seconds to wait for one server's answer."""
    if lease_time is None:
        lease_time = min(member.context.options.lease_time for member in members)
    share = max(lease_time * _ANSWER_SHARE, _SHORTEST_ANSWER_SECONDS)
    return min(share, _LONGEST_ANSWER_SECONDS, lease_time / 2)


class QuorumRounds:
    """One caller's request for a lock on several servers: its rounds and its sleep.

    Args:
        composite: The lock that is requested.
        task: The task that wants it.
        lease_time: Seconds; None for the watchdog's.
        inner: The task holds the composite already.
        once: It does not wait, and does not yield to other processes.

    Attributes:
        head_start: That of other processes, which comes before this request.
        answers: What each server said last, by its address.
        heard_busy_at: The loop time at which the last failed round ended.
    """

    def __init__(
        self,
        composite: QuorumOwnership,
        task: Task,
        lease_time: float | None,
        *,
        inner: bool,
        once: bool,
    ) -> None:
        self._composite = composite
        self._members = composite.owners
        self._servers = composite.servers
        self._needed = composite.needed
        self._task = task
        self._lease_time = lease_time
        self._inner = inner
        self._once = once
        self._answer_time = composite.answer_time
        if lease_time is not None:
            self._answer_time = answer_time(self._members, lease_time)
        self._asked: list[int] = []
        self._round: Gather[Lease] | None = None
        self._pending: Pending = {}
        self._granted: set[int] = set()
        self._sleepers: list[_MemberSleeper] = []
        self._asleep: Future[None] | None = None
        self._answered_at = loop_time()
        self._deadline: float | None = None
        self._hurried = False
        self._splits = 0
        self._spread = 0.0
        self.answers: dict[str, str] = {}
        self.heard_busy_at: float = 0.0
        self._quorum_at: float | None = None
        self.head_start: HeadStart | None = None
        self._head_start_of = 0
        if not (inner or once):
            self._take_head_starts()

    @property
    def listens_first(self) -> bool:
        """Whether it listens before it asks for the first time."""
        return self.head_start is not None

    @property
    def channel(self) -> bytes:
        """Empty: it listens on the channel of each server."""
        return b""

    @property
    def wakes(self) -> Wakes:
        """A release wakes one waiter."""
        return lock_wakes

    def quorum_known(self, moment: float) -> None:
        """Record that a quorum of servers said busy at `moment`, before the first round."""
        self._quorum_at = moment or None

    @property
    def quorum_answered(self) -> bool:
        """Whether a quorum of servers answered, shortly before the time ran out."""
        if self._quorum_at is None:
            return False
        return self._deadline is None or is_fresh(self._quorum_at, self._deadline)

    # Asking.

    async def run(self, deadline: float | None) -> list[Lease] | Busy:
        """Ask every server that is not known to be unresponsive: one round."""
        self._deadline = deadline
        began = loop_time()
        limit = began + self._answer_time
        self._hurried = deadline is not None and deadline < limit
        if deadline is not None:
            limit = min(limit, deadline)
        self._pending = {}
        self._asked = self._choose()
        # One server may have several addresses, so wait for those that were never heard of.
        wait_for_all = not self._servers.ask(self._asked) or self._inner
        answered = self._round = Gather(
            [
                ask(
                    *(self._members[number], open_way(self._members[number]), self._task),
                    *(self._lease_time, limit, self._pending),
                    waits=bool(self._sleepers),
                )
                for number in self._asked
            ]
        )
        await answered.wait(None if wait_for_all else self._needed)
        self._servers.check()
        if len(answered.results) >= self._needed:
            return list(answered.results.values())
        outcome = self._look(answered)
        self.undo()
        took = loop_time() - began
        self._splits = self._splits + 1 if self._granted else 0
        spread = max(_SHORTEST_SPREAD_SECONDS, 2 * took) * 2.0 ** min(self._splits, 8)
        self._spread = min(spread, _LONGEST_SPREAD_SECONDS)
        return outcome

    def undo(self) -> None:
        """Undo what the last round may have been granted, on every server. Does not wait."""
        last, self._round = self._round, None
        if last is not None:
            last.cancel()
            release_all(list(last.results.values()))

    def hand_over(self, hold: CompositeHold) -> None:
        """Give the grants to a hold, including those that are still to come."""
        answered = self._round
        assert answered is not None

        def ended(number: int) -> None:
            if not answered.left:
                answered.on_end = None
                hold.all_answered()
            if (lease := answered.results.get(number)) is not None:
                self._join(hold, lease)
            elif isinstance(answered.errors[number], ConnectionLostError):
                self._probe(self._asked[number])

        hold.wait_for(self._pending, answered if answered.left else None)
        if answered.left:
            answered.on_end = ended

    def _join(self, hold: CompositeHold, lease: Lease) -> None:
        try:
            self._servers.check()
        except ValueError as error:
            log.error("%s", error)
            release_all([lease])
        else:
            hold.join(lease)

    def _probe(self, number: int) -> None:
        """Probe a server that gave no answer, if it had enough time."""
        if not self._hurried:
            self._servers.gave_no_answer(number)

    def _choose(self) -> list[int]:
        """Return the servers to ask."""
        unfit = self._servers.unfit()
        for number, why in unfit.items():
            self.answers[self._server(number)] = why
        return [number for number in range(len(self._members)) if number not in unfit]

    def _look(self, answered: Gather[Lease]) -> Busy:
        """Return when to ask again after a failed round; raise an error that prevents that."""
        frees: list[float] = []
        refusals: list[BackendError] = []
        self._granted = {self._asked[number] for number in answered.results}
        for number in self._granted:
            self.answers[self._server(number)] = "granted, then released"
        answers = len(self._asked)
        for position, error in sorted(answered.errors.items()):
            number = self._asked[position]
            text = str(error)
            if isinstance(error, NotGrantedError):
                frees.append(math.inf if error.retry_in is None else error.retry_in)
            elif isinstance(error, ConnectionLostError | AcquireTimeoutError):
                answers -= 1
                self._probe(number)
            elif isinstance(error, BackendError):
                refusals.append(error)
            elif isinstance(error, LeaseLostError):
                # Held by this task until now: the next round asks for it again.
                frees.append(0.0)
            else:
                raise error
            self.answers[self._server(number)] = text
        if len(self._members) - len(refusals) < self._needed:
            raise refusals[0]
        self._check_patience(answers)
        missing = self._needed - len(self._granted)
        if len(frees) < missing:
            return Busy(_UNRESPONSIVE_POLL_SECONDS)
        retry_in = sorted(frees)[missing - 1]
        return Busy(None if math.isinf(retry_in) else retry_in)

    def _check_patience(self, answers: int) -> None:
        present = loop_time()
        if answers >= self._needed:
            self._answered_at = self._quorum_at = present
            if not self._once:
                self._composite.heard_busy()
        elif present - self._answered_at >= self._composite.patience:
            if self._deadline is None:
                raise self.no_answer()
            if not (self._once or self._inner):
                self._composite.fail_together(self)

    def no_answer(self) -> ConnectionLostError:
        """Return the error of a caller without a timeout."""
        listed = "; ".join(f"{server}: {answer}" for server, answer in self.answers.items())
        patience = self._composite.patience
        return ConnectionLostError(
            f"fewer than {self._needed} servers answered for {patience:g} s ({listed})",
            maybe_held=False,
        )

    def _server(self, number: int) -> str:
        return self._members[number].context.database

    def _take_head_starts(self) -> None:
        """Take the head start of other processes that one of the members' queues owes."""
        for number, member in enumerate(self._members):
            queue = member.queue
            if queue is not None and queue.head_start is not None:
                head_start = queue.take_head_start()
                if head_start is not None and self.head_start is None:
                    self.head_start, self._head_start_of = head_start, number

    # Sleeping.

    @contextmanager
    def listen(self, channel: bytes, wakes: Wakes) -> Generator[Self]:
        """Hold a seat on the lock's channel of every server."""
        self._sleepers = [_MemberSleeper(self) for _ in self._members]
        with ExitStack() as stack:
            for member, sleeper in zip(self._members, self._sleepers, strict=True):
                commands = member.commands
                listening = member.context.bus.listen(commands.channel, commands.wakes, sleeper)
                stack.enter_context(listening)
            yield self

    def arm(self) -> None:
        """Forget earlier wake-ups, just before asking."""
        for sleeper in self._sleepers:
            sleeper.arm()

    async def wait(self, seconds: float | None) -> None:
        """Sleep until a quorum may be free, or for `seconds`; then, after a split vote, a bit."""
        if not self._worth_asking():
            self._asleep = new_future()
            await _sleep(seconds, self._asleep)
        if self._splits:
            pause = random.uniform(0, self._spread)
            if self._deadline is not None:
                pause = min(pause, self._deadline - loop_time())
            await _sleep(pause, new_future())

    async def wait_for_messages(self, beyond: int, seconds: float) -> bool:
        """Sleep until others have had their turn, or for `seconds`; return whether."""
        return await self._sleepers[self._head_start_of].wait_for_messages(beyond, seconds)

    def heard(self) -> None:
        """Handle a release on a server, a new connection, or a closed client."""
        if self._worth_asking():
            wake(self._asleep)

    def _worth_asking(self) -> bool:
        """Whether a quorum may be free, or asking will raise."""
        woken = sum(
            sleeper.seat is not None and sleeper.seat.woken and number not in self._granted
            for number, sleeper in enumerate(self._sleepers)
        )
        return len(self._granted) + woken >= self._needed or self._any_closed()

    def _any_closed(self) -> bool:
        try:
            for member in self._members:
                member.context.check()
        except ClientClosedError:
            return True
        return False


class _MemberSleeper(Sleeper):
    """A seat on one server's channel."""

    def __init__(self, rounds: QuorumRounds) -> None:
        super().__init__()
        self._rounds = rounds

    def rouse(self) -> None:
        """A message came on this channel, or a sleep on it alone is over."""
        super().rouse()
        self._rounds.heard()


async def _sleep(seconds: float | None, woken: Future[None]) -> None:
    timer = None if seconds is None else call_later(max(0.0, seconds), lambda: wake(woken))
    try:
        await woken
    finally:
        if timer is not None:
            timer.cancel()
