"""One question for a hold on an exclusive lock, and its undo."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from redisson_py import _keys
from redisson_py._primitives.context import Context
from redisson_py._scripts.executor import Executor
from redisson_py._stream.call import Call
from redisson_py._time import milliseconds, now
from redisson_py._waiting import Busy, Granted, Turn
from redisson_py._wakeups.table import Wakes, lock_wakes
from redisson_py.errors import BackendError, ClientClosedError, ScriptError

if TYPE_CHECKING:
    from redisson_py._primitives.exclusive import ExclusiveLock


class HoldAttempt:
    """Asks for a hold count under one owner.

    Args:
        context: The parts of the client.
        lock: What is asked for.
        owner: Under which owner.
        holds: The hold count to reach.
        lease_time: Seconds.
        turn: Whose turn it is before ours.

    Attributes:
        asked_at: Just before the granting question was first written.
        doubtful: A question may arrive twice or late.
        fall_back: How to undo a re-entry, whose owner goes on; None undoes the whole hold.
        undone: Whether an undo was sent.
    """

    def __init__(
        self,
        context: Context,
        lock: ExclusiveLock,
        owner: str,
        holds: int,
        lease_time: float,
        turn: Turn | None,
    ) -> None:
        self._context = context
        self._lock = lock
        self._holds = holds
        self._lease_time = lease_time
        self._call: Call | None = None
        self._given_up: BaseException | None = None
        self.owner = owner
        self.turn = turn
        self.asked_at = 0.0
        self.doubtful = False
        self.undone = False
        self.fall_back: Callable[[], object] | None = None

    @property
    def channel(self) -> bytes:
        """Where releases are announced."""
        return self._lock.channel

    @property
    def wakes(self) -> Wakes:
        """A release wakes one waiter."""
        return lock_wakes

    async def run(self, deadline: float | None) -> Granted[int] | Busy:
        """Ask once."""
        self.asked_at = now()
        self._call = call = self._send(deadline)
        self._context.asking[self] = None
        try:
            reply = await Executor.answer(call, str(self._lock._acquire_script))
        except ScriptError:
            self._answered()
            raise
        finally:
            self.doubtful = self.doubtful or call.doubtful
        self._answered()
        if self._given_up is not None:
            # The answer came, but the undo was on its way before anybody looked at it.
            raise self._given_up
        answer = self._lock._read(reply)
        if isinstance(answer, Granted):
            return answer
        if answer == -3:
            raise BackendError(f"{self._lock!r}: this request was given up already")
        return Busy(retry_in=answer / 1000 if answer >= 0 else None)

    def undo(self) -> None:
        """Give back what the last question may have got. Does not wait; idempotent."""
        call = self._call
        if call is None:
            return
        self._answered()
        if call.sends == 0 and not call.wanted:
            return
        self.undone = True
        try:
            if self.fall_back is not None:
                self.fall_back()
            else:
                self._lock._undo(self.owner, self._lease_time)
        except ClientClosedError:
            # The closing client has undone it already, or the lease will.
            return

    def give_up(self, error: BaseException) -> None:
        """The client closes: undo, and have the caller learn why."""
        call = self._call
        self._given_up = error
        self.undo()
        if call is not None:
            call.fail(error)

    def _send(self, deadline: float | None) -> Call:
        lock = self._lock
        return self._context.executor.start(
            lock._acquire_script,
            lock.key,
            deadline=deadline,
            must=False,
            lock=lock.key,
            tombstone=_keys.tombstone(lock.key, self.owner),
            owner=self.owner,
            holds=self._holds,
            lease_ms=milliseconds(self._lease_time),
            **lock._more_values,
        )

    def _answered(self) -> None:
        self._call = None
        self._context.asking.pop(self, None)
