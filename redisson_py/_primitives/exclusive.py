"""Locks that one owner has at a time: the line of tasks here, passing, turns.

RLock, FencedLock and the write side of a read-write lock differ in what they ask Redis and in
what a grant brings; all else is here and in `hold_lock.py`.
"""

from __future__ import annotations

from redisson_py._handoff import COURTESY, DISCOURTESY, Line, Place, take_turn
from redisson_py._lease.hold import Hold
from redisson_py._lease.lease import Lease
from redisson_py._loop import running_loop
from redisson_py._owner import TaskRef
from redisson_py._primitives.attempt import HoldAttempt
from redisson_py._primitives.context import Mine
from redisson_py._primitives.hold_lock import HoldLock
from redisson_py._stream.call import Call
from redisson_py._waiting import Turn
from redisson_py.errors import ClientClosedError


class ExclusiveLock(HoldLock):
    """A lock that one owner has at a time, passed from task to task in this process."""

    _tokens = 0
    """How many fencing tokens a grant brings."""

    async def _new_hold(
        self, mine: Mine, deadline: float | None, once: bool, lease_time: float | None
    ) -> Hold | None:
        line = self._context.lines.open(self._line_key)
        if not (once or line.go_first()):
            passed = await line.stand(Place(mine.task, lease_time is None), deadline)
            if passed is not True:
                return passed or None
        turn = None if once or line.turn is None else take_turn(line)
        try:
            hold = await self._ask(mine, deadline, once, lease_time, turn)
            if hold is not None and turn is not None and not turn.taken:
                line.no_turn_until = running_loop().time() + DISCOURTESY
            return hold
        finally:
            if not once:
                line.asked()

    def _granted(
        self, attempt: HoldAttempt, task: TaskRef, lease_time: float | None, granted: int
    ) -> Hold:
        hold = super()._granted(attempt, task, lease_time, granted)
        self._context.lines.open(self._line_key).hold = hold
        if self._tokens:
            hold.next_token = granted
            hold.tokens_end = granted + self._tokens - 1
        return hold

    async def _release_last(self, hold: Hold, lease: Lease) -> None:
        line = self._context.lines.open(self._line_key)
        if line.places and self._pass_on(line, hold):
            return
        was_held = hold.held
        call, echo = self._leave(hold, line)
        reply = None
        try:
            reply = await self._answer(call)
        finally:
            self._left(line, reply, echo)
        self._settle(call, hold, lease, reply, was_held)

    def _pass_on(self, line: Line, hold: Hold) -> bool:
        """Hand the hold to the next task in line here, if that may be; return whether."""
        options = self._context.options
        return line.pass_on(hold, options.turn, options.lease_time / 2)

    def _give_back(self, hold: Hold) -> None:
        """Nobody wants this hold: pass it on or release it, without waiting."""
        if hold.state != "held":
            return
        line = self._context.lines.open(self._line_key)
        if self._pass_on(line, hold):
            return
        try:
            call, echo = self._leave(hold, line)
        except ClientClosedError:
            return
        call.future.add_done_callback(
            lambda done: self._left(
                line, None if done.cancelled() or done.exception() else done.result(), echo
            )
        )

    def _leave(self, hold: Hold, line: Line) -> tuple[Call, int]:
        """Send the final release; return it and the count of messages that includes our own."""
        echo = self._context.bus.echo(self.channel)
        if line.hold is hold:
            line.hold = None
        line.releasing = True
        try:
            return self._let_go(hold), echo
        except BaseException:
            line.releasing = False
            raise

    def _left(self, line: Line, reply: int | None, echo: int) -> None:
        """The final release was answered, or nobody waits for its answer."""
        line.releasing = False
        told_others = (reply or 1) - 1 - (1 if echo else 0)
        if told_others > 0 and (present := running_loop().time()) >= line.no_turn_until:
            line.turn = Turn(echo + told_others - 1, present + COURTESY, COURTESY)
        if line.places:
            line.advance()

    def _hold_ended(self, hold: Hold) -> None:
        """A hold was lost: whoever waits here must ask Redis."""
        super()._hold_ended(hold)
        line = self._context.lines.find(self._line_key)
        if line is not None:
            if line.hold is hold:
                line.hold = None
            line.advance()
