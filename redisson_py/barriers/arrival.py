"""One party's wait at a barrier: arriving, looking again, leaving."""

from __future__ import annotations

from redisson_py._answers import Busy, RefusedError, Wakes, wakes_everybody
from redisson_py._engine.server import Call
from redisson_py._keys import Name
from redisson_py._loop import current_task, loop_time, wait_until
from redisson_py._process_bound import ProcessBound
from redisson_py._redis.commands import barrier as commands
from redisson_py._redis.commands.barrier import (
    BarrierCommands,
    Broken,
    OtherParties,
    Released,
    Void,
    Waiting,
)
from redisson_py._redis.context import RedisContext
from redisson_py._redis.receipts import receipt_time
from redisson_py._time import milliseconds, now
from redisson_py.errors import (
    BackendError,
    BrokenBarrierError,
    ClientClosedError,
    ConnectionLostError,
)

#: Shortest time in seconds for which an arrival counts: a waiting party looks again at most 20
#: times a second.
SHORTEST_ARRIVAL_SECONDS = 0.3

#: Seconds after its timeout for which a wait goes on, to learn whether it was released just before.
LEAVE_REPLY_SECONDS = 0.5


class Arrival(ProcessBound):
    """One wait: arrives with its first request and looks again with every further one.

    Until it is over, a closing client must undo it, even between requests, because Redis counts
    this party.

    Attributes:
        owner: Its owner; new for every wait.
        task: The name of its task.
        fails_fast: The first failed attempt to connect fails the wait.
    """

    head_start = None
    listens_first = False
    heard_busy_at: float = 0.0
    fails_fast = False

    def __init__(
        self, context: RedisContext, barrier: BarrierCommands, name: Name, parties: int
    ) -> None:
        self._context = context
        self._barrier = barrier
        self._name = name
        self._parties = parties
        self._lease_time = max(context.options.lease_time, SHORTEST_ARRIVAL_SECONDS)
        self._generation = 0
        self._position = -1
        self._call: Call | None = None
        self._counted_on = False
        self._leaving: Call | None = None
        self.owner: str = context.owners.new_owner()
        self.task: str = current_task().get_name()

    @property
    def channel(self) -> bytes:
        """The channel on which releases and breaks are announced."""
        return self._barrier.channel

    @property
    def wakes(self) -> Wakes:
        """Every message wakes all parties."""
        return wakes_everybody

    async def run(self, deadline: float | None) -> Released | Busy:
        """Arrive, or look again."""
        self._call = call = self._send(deadline)
        first = self._generation == 0
        self._counted_on = True
        self._context.pending[self] = None
        try:
            reply = commands.wait_reply(await call.future)
        except RefusedError as error:
            # A refused request changed nothing, unless an earlier one did.
            self._counted_on = call.uncertain or not first
            raise await self._context.executor.explain(call, error) from error
        # A party that never arrived may still do so by a late duplicate.
        refused = not isinstance(reply, Released | Waiting)
        self._counted_on = isinstance(reply, Waiting) or (refused and call.uncertain and first)
        match reply:
            case Waiting(generation, position, look_in):
                self._generation = generation
                self._keep(position)
                poll = self._lease_time / 3
                return Busy(poll if look_in is None else min(poll, look_in), queued=True)
            case Released(position):
                self._keep(position)
                self._ended()
                return Released(self._position)
            case Broken():
                raise BrokenBarrierError(
                    f"barrier {self._name!r} is broken: a party left or died,"
                    " or somebody called abort() or reset()"
                )
            case OtherParties(parties):
                raise ValueError(
                    f"barrier {self._name!r} is in use for {parties} parties,"
                    f" not for {self._parties}"
                )
            case Void():
                raise BackendError(f"barrier {self._name!r}: this wait was already given up")

    def _keep(self, position: int | None) -> None:
        if position is not None:
            self._position = position

    def _send(self, deadline: float | None) -> Call:
        args = self._barrier.wait(
            self.owner,
            self._parties,
            self._generation,
            milliseconds(self._lease_time),
            milliseconds(self._record_time(deadline)),
        )
        executor = self._context.executor
        call = executor.start(commands.WAIT, self._key, args, deadline)
        call.fails_fast = self.fails_fast
        self._context.describe(now())
        return call

    def _record_time(self, deadline: float | None) -> float:
        """Return the seconds for which Redis remembers the result of this owner.

        Only the first request needs it until its deadline: later ones name their generation.
        """
        first = self._generation == 0
        return max(2 * self._lease_time, receipt_time(deadline if first else None))

    @property
    def _key(self) -> bytes:
        return self._barrier.barrier

    def undo(self) -> None:
        """Leave the barrier, if Redis may count on this party. Does not wait; idempotent."""
        call = self._call
        self._ended()
        if not self._counted_on or call is None:
            return
        self._counted_on = False
        if call.sends == 0 and not call.wanted and self._generation == 0:
            # It was never sent.
            return
        try:
            self._leaving = self._leave()
        except ClientClosedError:
            # The closing client has undone it already, or its arrival expires.
            return

    def _leave(self) -> Call:
        args = self._barrier.leave(
            self.owner, milliseconds(self._lease_time), milliseconds(self._record_time(None))
        )
        # After one lease there is nothing to leave.
        until = loop_time() + max(1.0, self._lease_time)
        executor = self._context.executor
        return executor.start(commands.LEAVE, self._key, args, must=True, until=until)

    async def position_when_left(self) -> int | None:
        """Return the position if it was released before its timeout, else None.

        Raises:
            ConnectionLostError: Redis has not said which; or any other error of a call.
        """
        if self._leaving is None:
            return None
        answer = self._leaving.future
        if not (answer.done() or await wait_until(answer, LEAVE_REPLY_SECONDS)):
            raise ConnectionLostError(
                f"barrier {self._name!r}: timed out, and Redis did not confirm that this party"
                " left; it may have been released just before",
                maybe_held=True,
            )
        try:
            released = commands.leave_reply(answer.result())
        except RefusedError as error:
            executor = self._context.executor
            raise await executor.explain(self._leaving, error) from error
        return None if released is None else released.position

    def give_up(self, error: BaseException) -> None:
        """Leave because the client closes, and raise `error` in the caller."""
        call = self._call
        self.undo()
        if call is not None:
            call.fail(error)

    def _ended(self) -> None:
        self._context.pending.pop(self, None)
