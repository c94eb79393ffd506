"""One party's wait at a barrier, and its leaving."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redisson_py._loop import current_task, running_loop, wait_until
from redisson_py._primitives.context import Context
from redisson_py._primitives.receipts import RECEIPT_MS
from redisson_py._scripts import source
from redisson_py._stream.call import Call, ReplyError
from redisson_py._time import milliseconds, now
from redisson_py._waiting import Busy, Granted
from redisson_py._wakeups.table import ALL, Wakes
from redisson_py.errors import BackendError, BrokenBarrierError, ClientClosedError

if TYPE_CHECKING:
    from redisson_py._primitives.barrier import CyclicBarrier

LEAVE = source.load("barrier.leave")
WAIT = source.load("barrier.wait")

#: How long a wait whose time is up goes on to learn whether it was released at the last moment.
_LAST_WORD = 0.5

_RELEASED, _WAITING, _BROKEN, _OTHER_PARTIES = 1, 0, -1, -2


def wakes_everybody(message: int) -> int:
    """Return how many seats a message wakes: all parties look again."""
    return ALL


class Arrival:
    """One wait: arrives with its first question and looks again with every further one.

    Until it is over it is among what a closing client must take back, asleep or not: Redis
    counts on it.

    Attributes:
        owner: Under which it arrives; new for every wait.
        task: The name of its task.
    """

    turn = None

    def __init__(self, barrier: CyclicBarrier, context: Context) -> None:
        self._barrier = barrier
        self._context = context
        self._lease_time = context.options.lease_time
        self._generation = b"0"
        self._call: Call | None = None
        self._counted_on = False
        self._leaving: Call | None = None
        self.owner = context.owners.new_owner()
        self.task = current_task().get_name()

    @property
    def channel(self) -> bytes:
        """Where releases and breaks are announced."""
        return self._barrier.channel

    @property
    def wakes(self) -> Wakes:
        """Whatever has happened, it is for all parties."""
        return wakes_everybody

    async def run(self, deadline: float | None) -> Granted[int] | Busy:
        """Arrive, or look again."""
        self._call = call = self._send(deadline)
        first = self._generation == b"0"
        self._counted_on = True
        self._context.asking[self] = None
        try:
            state, position, generation, other_ms = await call.future
        except ReplyError as error:
            # A refused question changed nothing, unless it was asked before that too.
            self._counted_on = call.doubtful or not first
            raise call.refusal(error) from error
        if state == _WAITING:
            self._generation = b"%d" % generation
            look_in = self._lease_time / 3
            return Busy(look_in if other_ms < 0 else min(look_in, other_ms / 1000), queued=True)
        # Where it never arrived, a late duplicate still could.
        self._counted_on = call.doubtful and first and state != _RELEASED
        if state == _RELEASED:
            self._over()
            return Granted(position)
        if state == _BROKEN:
            raise BrokenBarrierError(
                f"barrier {self._barrier.name!r} is broken: a party left it or died,"
                " or it was aborted or reset"
            )
        if state == _OTHER_PARTIES:
            raise ValueError(
                f"barrier {self._barrier.name!r} is in use for {position} parties,"
                f" not for {self._barrier.parties}"
            )
        raise BackendError(f"{self._barrier!r}: this wait was given up already")

    def _send(self, deadline: float | None) -> Call:
        barrier = self._barrier
        owner = self.owner.encode()
        args = WAIT.bind(
            barrier=barrier._key,
            arrivals=barrier._arrivals,
            released=barrier._released,
            arrival=barrier._arrival + owner,
            owner=owner,
            parties=barrier._parties,
            generation=self._generation,
            lease_ms=milliseconds(self._lease_time),
            receipt_ms=RECEIPT_MS,
            channel=barrier.channel,
        )
        call = self._context.executor.start(WAIT, barrier._key, args, deadline)
        self._context.describe(now())
        return call

    def undo(self) -> None:
        """Leave the barrier, if Redis may count on this party. Does not wait; idempotent."""
        call = self._call
        self._over()
        if not self._counted_on or call is None:
            return
        self._counted_on = False
        if call.sends == 0 and not call.wanted and self._generation == b"0":
            # It never set out.
            return
        try:
            self._leaving = self._leave()
        except ClientClosedError:
            # The closing client has left for it already, or its arrival will end.
            return

    def _leave(self) -> Call:
        barrier, owner = self._barrier, self.owner.encode()
        args = LEAVE.bind(
            barrier=barrier._key,
            arrivals=barrier._arrivals,
            released=barrier._released,
            arrival=barrier._arrival + owner,
            owner=owner,
            channel=barrier.channel,
            receipt_ms=RECEIPT_MS,
        )
        # After one lease there is nothing to leave.
        deadline = running_loop().time() + max(1.0, self._lease_time)
        return self._context.executor.start(LEAVE, barrier._key, args, deadline, must=True)

    async def last_word(self) -> int | None:
        """Return the position if it was released although its time was up."""
        if self._leaving is None:
            return None
        answer = self._leaving.future
        if not (answer.done() or await wait_until(answer, _LAST_WORD)) or answer.exception():
            return None
        position: int = answer.result()
        return position if position >= 0 else None

    def give_up(self, error: BaseException) -> None:
        """The client closes: leave, and have the caller learn why."""
        call = self._call
        self.undo()
        if call is not None:
            call.fail(error)

    def _over(self) -> None:
        self._context.asking.pop(self, None)
