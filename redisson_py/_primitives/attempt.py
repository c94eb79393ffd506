"""One question for a hold, and its undo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from redisson_py._primitives.context import Context
from redisson_py._stream.call import Call, ReplyError
from redisson_py._time import milliseconds, now
from redisson_py._waiting import Busy, Granted, Turn
from redisson_py._wakeups.table import Wakes
from redisson_py.errors import BackendError, ClientClosedError


class Asked(Protocol):
    """What can be asked for a hold: a lock, or the units of a semaphore."""

    @property
    def channel(self) -> bytes: ...
    @property
    def _wakes(self) -> Wakes:
        """How many waiters a message is for."""
        ...

    def _send_acquire(self, owner: str, holds: int, lease_ms: int, deadline: float | None) -> Call:
        """Ask Redis for a hold count."""
        ...

    def _read(self, reply: Any) -> Granted[int] | int:
        """Return the grant; or milliseconds left, or a code below zero."""
        ...

    def _undo(self, owner: str, lease_time: float) -> None:
        """Give back what an abandoned question may have got; refuse it if it comes late."""
        ...


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

    __slots__ = (
        "_call",
        "_context",
        "_given_up",
        "_holds",
        "_lease_time",
        "_lock",
        "asked_at",
        "doubtful",
        "fall_back",
        "owner",
        "turn",
        "undone",
    )

    def __init__(
        self,
        context: Context,
        lock: Asked,
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
        """How many waiters a message is for."""
        return self._lock._wakes

    async def run(self, deadline: float | None) -> Granted[int] | Busy:
        """Ask once."""
        self.ask(deadline)
        return await self.answer()

    def ask(self, deadline: float | None) -> None:
        """Send the question; `answer` must follow, or `undo`."""
        self.asked_at = now()
        self._call = self._send(deadline)
        self._context.asking[self] = None

    async def answer(self) -> Granted[int] | Busy:
        """Return what Redis says to the last question."""
        call = self._call
        assert call is not None
        try:
            reply = await call.future
        except ReplyError as error:
            self._answered()
            raise call.refusal(error) from error
        finally:
            if call.doubtful:
                self.doubtful = True
        self._answered()
        if self._given_up is not None:
            # The answer came, but the undo was on its way before anybody looked at it.
            raise self._given_up
        answer = self._lock._read(reply)
        if isinstance(answer, Granted):
            return answer
        if answer == -3:
            raise BackendError(f"{self._lock!r}: this request was given up already")
        return self._busy(answer)

    def _send(self, deadline: float | None) -> Call:
        lease_ms = milliseconds(self._lease_time)
        return self._lock._send_acquire(self.owner, self._holds, lease_ms, deadline)

    def _busy(self, answer: int) -> Busy:
        """Return what to make of milliseconds left, or of a code below zero."""
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
                self._undo_all()
        except ClientClosedError:
            # The closing client has undone it already, or the lease will.
            return

    def _undo_all(self) -> None:
        self._lock._undo(self.owner, self._lease_time)

    def give_up(self, error: BaseException) -> None:
        """The client closes: undo, and have the caller learn why."""
        call = self._call
        self._given_up = error
        self.undo()
        if call is not None:
            call.fail(error)

    def _answered(self) -> None:
        self._call = None
        self._context.asking.pop(self, None)
