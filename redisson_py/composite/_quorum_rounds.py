"""Asking several independent servers for one lock, round by round.

A round asks all of them at once, each with a short deadline of its own. A quorum of grants is
the lock, without waiting for the rest: who says yes later joins. Less than a quorum is given
back, also where no answer came. Between two rounds the caller sleeps
until so many servers have told of a release, or have a lease that ends, that together with
those that said yes they could be a quorum: a holder's release wakes it once and not once a
server, and its own undo does not wake it at all.

A round in which some said yes and too few was a split vote, or looks like one: several asked
at the same time and each got a part. All hear of each other's undo at the same moment, so
each waits for a random while before it asks again, up to twice as long as the last time.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Self

from redisson_py._handoff import take_turn
from redisson_py._lease.lease import Lease
from redisson_py._loop import Future, call_later, new_future, running_loop, wake
from redisson_py._options import PATIENCE
from redisson_py._primitives.attempt import HoldAttempt
from redisson_py._primitives.context import Mine
from redisson_py._primitives.hold_lock import HoldLock
from redisson_py._primitives.joint import database_of
from redisson_py._primitives.joint_hold import JointHold, NotGrantedError, ask, release_all
from redisson_py._primitives.silence import doubt, is_silent
from redisson_py._primitives.together import Together
from redisson_py._stream.stream import Stream
from redisson_py._waiting import Busy, Granted, Turn
from redisson_py._wakeups.bus import Waiter
from redisson_py._wakeups.table import Wakes, lock_wakes
from redisson_py.errors import (
    AcquireTimeoutError,
    BackendError,
    ClientClosedError,
    ConnectionLostError,
    LeaseLostError,
)

#: How long one server is waited for: a share of the lease, as Redis' page on Redlock has it
#: (50 ms of 10 s); not less than what a busy but healthy server or event loop may take; not
#: so long that a person notices; and never so long that the others' grants are half over.
_SHARE, _LEAST, _MOST = 1 / 200, 0.1, 0.5

#: How often to look, in seconds, while too many servers are silent.
_SILENT_POLL = 0.25

#: Within what random time to ask again after a split vote, in seconds: two rounds of two
#: callers on one machine are apart by then. It doubles with each, up to the longest, after
#: which even hundreds of callers are spread over enough rounds.
_SPREAD, _LONGEST_SPREAD = 0.002, 0.25


def answer_time(locks: Sequence[HoldLock], lease_time: float | None) -> float:
    """Return for how many seconds one server's answer is waited for."""
    if lease_time is None:
        lease_time = min(lock._context.options.lease_time for lock in locks)
    return min(max(lease_time * _SHARE, _LEAST), _MOST, lease_time / 2)


class Rounds:
    """One caller's request for a lock on several servers: what it asks, and where it sleeps.

    Args:
        locks: The lock on each server.
        needed: How many must grant it.
        mines: What the current task holds with each server's client.
        lease_time: Seconds; None for the watchdog's.
        inner: Whether the task holds the whole already.
        turns: Whether to let other processes have their turn first.

    Attributes:
        turn: Whose turn it is before ours.
        answers: What each server said last, by its address.
    """

    def __init__(
        self,
        locks: Sequence[HoldLock],
        needed: int,
        mines: Sequence[Mine],
        lease_time: float | None,
        *,
        inner: bool,
        turns: bool,
    ) -> None:
        self._locks = locks
        self._needed = needed
        self._mines = mines
        self._lease_time = lease_time
        self._inner = inner
        self._answer_time = answer_time(locks, lease_time)
        self._asked: list[int] = []
        self._round: Together[Lease] | None = None
        self._pending: dict[HoldLock, HoldAttempt] = {}
        self._willing: set[int] = set()
        self._ears: list[_Ear] = []
        self._asleep: Future[None] | None = None
        self._heard_at = running_loop().time()
        self._deadline: float | None = None
        self._hurried = False
        self._splits = 0
        self._spread = 0.0
        self.answers: dict[str, str] = {}
        self.turn: Turn | None = None
        self._turn_of = 0
        if turns:
            self._take_turns()

    @property
    def channel(self) -> bytes:
        """None of its own: it listens on each server's."""
        return b""

    @property
    def wakes(self) -> Wakes:
        """A release wakes one waiter."""
        return lock_wakes

    # Asking.

    async def run(self, deadline: float | None) -> Granted[list[Lease]] | Busy:
        """Ask every server that is not known to be silent: one round."""
        self._deadline = deadline
        began = running_loop().time()
        limit = began + self._answer_time
        self._hurried = deadline is not None and deadline < limit
        if deadline is not None:
            limit = min(limit, deadline)
        self._pending = {}
        self._asked = [number for number in range(len(self._locks)) if not self._left_out(number)]
        answered = self._round = Together(
            ask(self._locks[number], self._mines[number], self._lease_time, limit, self._pending)
            for number in self._asked
        )
        await answered.wait(None if self._inner else self._needed)
        if len(answered.results) >= self._needed:
            return Granted(list(answered.results.values()))
        outcome = self._look(answered)
        self.undo()
        took = running_loop().time() - began
        self._splits = self._splits + 1 if self._willing else 0
        self._spread = min(max(_SPREAD, 2 * took) * 2.0 ** min(self._splits, 8), _LONGEST_SPREAD)
        return outcome

    def undo(self) -> None:
        """Give back what the last round may have got, on every server. Does not wait."""
        last, self._round = self._round, None
        if last is not None:
            last.cancel()
            release_all(list(last.results.values()))

    def hand_over(self, hold: JointHold) -> None:
        """Have what was granted be a hold's, and also what is granted from now on."""
        answered = self._round
        assert answered is not None
        hold.pending = self._pending

        def ended(number: int) -> None:
            if not answered.left:
                # A hold in a circle could not be abandoned.
                hold.late = answered.on_end = None
            if (lease := answered.results.get(number)) is not None:
                hold.join(lease)
            elif isinstance(answered.errors[number], ConnectionLostError):
                self._doubt(self._asked[number])

        if answered.left:
            hold.late, answered.on_end = answered, ended

    def _doubt(self, number: int) -> None:
        """A server gave no answer; was it asked for long enough, it counts as silent."""
        if not self._hurried:
            doubt(stream_of(self._locks[number]))

    def _left_out(self, number: int) -> bool:
        """Whether a server is not asked: waiting for it would be in vain."""
        stream = stream_of(self._locks[number])
        if is_silent(stream):
            self.answers[self._server(number)] = "no answer, not even to an earlier question"
            return True
        if stream.full:
            self.answers[self._server(number)] = "not asked: too much is unanswered"
            return True
        return False

    def _look(self, answered: Together[Lease]) -> Busy:
        """Return when to ask again after a round in vain; raise what speaks against it."""
        frees: list[float] = []
        refusals: list[BackendError] = []
        self._willing = {self._asked[number] for number in answered.results}
        for number in self._willing:
            self.answers[self._server(number)] = "granted, and given back"
        heard = len(self._asked)
        for place, error in sorted(answered.errors.items()):
            number = self._asked[place]
            text = str(error)
            if isinstance(error, NotGrantedError):
                frees.append(math.inf if error.retry_in is None else error.retry_in)
            elif isinstance(error, ConnectionLostError | AcquireTimeoutError):
                heard -= 1
                self._doubt(number)
            elif isinstance(error, BackendError):
                refusals.append(error)
            elif isinstance(error, LeaseLostError):
                # Held by this task until now: the next round asks for it anew.
                frees.append(0.0)
            else:
                raise error
            self.answers[self._server(number)] = text
        if len(self._locks) - len(refusals) < self._needed:
            raise refusals[0]
        self._check_patience(heard)
        missing = self._needed - len(self._willing)
        if len(frees) < missing:
            return Busy(_SILENT_POLL)
        retry_in = sorted(frees)[missing - 1]
        return Busy(None if math.isinf(retry_in) else retry_in)

    def _check_patience(self, heard: int) -> None:
        present = running_loop().time()
        if heard >= self._needed:
            self._heard_at = present
        elif self._deadline is None and present - self._heard_at >= PATIENCE:
            told = "; ".join(f"{server}: {answer}" for server, answer in self.answers.items())
            raise ConnectionLostError(
                f"fewer than {self._needed} servers answered for {PATIENCE:g} s ({told})",
                maybe_held=False,
            )

    def _server(self, number: int) -> str:
        return database_of(self._locks[number])

    def _take_turns(self) -> None:
        """Respect the turn of others that one of the servers told of."""
        for number, lock in enumerate(self._locks):
            line = lock._context.lines.find(lock._line_key)
            if line is not None and line.turn is not None:
                turn = take_turn(line)
                if turn is not None and self.turn is None:
                    self.turn, self._turn_of = turn, number

    # Sleeping.

    @contextmanager
    def listen(self, channel: bytes, wakes: Wakes) -> Generator[Self]:
        """Hold a seat on the lock's channel of every server."""
        self._ears = [_Ear(self) for _ in self._locks]
        with ExitStack() as stack:
            for lock, ear in zip(self._locks, self._ears, strict=True):
                listening = lock._context.bus.listen(lock.channel, lock._wakes, ear)
                stack.enter_context(listening)
            yield self

    def arm(self) -> None:
        """Forget earlier wake-ups, just before asking."""
        for ear in self._ears:
            ear.arm()

    async def wait(self, seconds: float | None) -> None:
        """Sleep until a quorum may be free, or for `seconds`; then, after a split vote, a bit."""
        if not self._worth_asking():
            self._asleep = new_future()
            await _sleep(seconds, self._asleep)
        if self._splits:
            pause = random.uniform(0, self._spread)
            if self._deadline is not None:
                pause = min(pause, self._deadline - running_loop().time())
            await _sleep(pause, new_future())

    async def wait_for_messages(self, beyond: int, seconds: float) -> bool:
        """Sleep until others have had their turn, or for `seconds`; return whether."""
        return await self._ears[self._turn_of].wait_for_messages(beyond, seconds)

    def hear(self) -> None:
        """One of the servers told of a release, or its connection is new, or its client closed."""
        if self._worth_asking():
            wake(self._asleep)

    def _worth_asking(self) -> bool:
        """Whether a quorum may be free, or asking will raise."""
        told = sum(
            ear.seat is not None and ear.seat.woken and number not in self._willing
            for number, ear in enumerate(self._ears)
        )
        return len(self._willing) + told >= self._needed or self._any_closed()

    def _any_closed(self) -> bool:
        try:
            for lock in self._locks:
                lock._context.check()
        except ClientClosedError:
            return True
        return False


class _Ear(Waiter):
    """A seat on one server's channel."""

    def __init__(self, rounds: Rounds) -> None:
        super().__init__()
        self._rounds = rounds

    def rouse(self) -> None:
        """A message came on this channel, or a sleep on it alone is over."""
        super().rouse()
        self._rounds.hear()


def stream_of(lock: HoldLock) -> Stream:
    """Return the stream to the server of a lock."""
    return lock._context.executor.router.stream_for(lock.key)


async def _sleep(seconds: float | None, woken: Future[None]) -> None:
    timer = None if seconds is None else call_later(max(0.0, seconds), lambda: wake(woken))
    try:
        await woken
    finally:
        if timer is not None:
            timer.cancel()
