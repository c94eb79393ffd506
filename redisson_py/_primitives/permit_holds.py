"""Units of a semaphore that this client has: giving back, passing on, keeping, losing.

Who holds a lock is a task; units of a semaphore belong to whoever has the permit, and any task
of the client may give them back. So they are found by the line of the semaphore, not by task.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from typing import Any

from redisson_py import _keys
from redisson_py._handoff import COURTESY
from redisson_py._keys import Name
from redisson_py._lease.hold import Hold
from redisson_py._lease.lease import Lease
from redisson_py._loop import running_loop
from redisson_py._options import PATIENCE
from redisson_py._primitives.context import Context
from redisson_py._primitives.decorating import Decorator
from redisson_py._primitives.extension import Extension
from redisson_py._primitives.looking import local_statistics
from redisson_py._primitives.permit import Permit
from redisson_py._primitives.permit_line import PermitLine, permit_wakes
from redisson_py._primitives.receipts import Receipts
from redisson_py._scripts import source
from redisson_py._scripts.source import Script
from redisson_py._statistics import PrimitiveStatistics
from redisson_py._stream.call import Call, ReplyError
from redisson_py._time import milliseconds, now
from redisson_py._waiting import Granted, Turn
from redisson_py._wakeups.table import Wakes
from redisson_py.errors import ClientClosedError

RENEW = source.load("permit.renew")
SET_LEASE = source.load("permit.set_lease")

#: Permits of dead holders that one script gives back.
RECLAIMS = 100

#: Where whole numbers stop being exact in Lua.
TOO_MANY = 1 << 53

_GRANTED = Granted(0)

#: A release under way: the call, the count of messages that includes its own, and whether it
#: was held for sure when it was sent.
Leaving = tuple[Call, int, bool]


def check_units(value: object, name: str = "n", least: int = 1) -> int:
    """Return a number of units.

    Raises:
        TypeError: It is no int.
        ValueError: It is below `least`, or too great to be exact in Redis.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be int, not {type(value).__name__}")
    if not least <= value < TOO_MANY:
        raise ValueError(f"{name} must be at least {least} and below 2**53, not {value}")
    return value


class PermitHolds(Decorator):
    """Base of the semaphores: a counter in Redis, and beside it who has which units until when.

    Subclasses say what to ask Redis, and what a grant brings.
    """

    kind = "semaphore"
    _renewal: Script = RENEW
    _cut_by_others = False
    _passes = True
    """Whether a hold may go from task to task here without Redis."""

    def __init__(self, context: Context, name: Name, permits: int | None) -> None:
        self._context = context
        self._name = name
        self._key = context.options.names.key(name)
        self._line_key = self._hold_key = self.kind.encode() + b":" + self._key
        self._permits = permits
        self._start_units = -1 if permits is None else check_units(permits, "permits", 0)
        self._made = permits is None
        self._receipts = Receipts(context, self._key)
        self._tombstones = _keys.tombstone(self._key, "")
        self.channel = _keys.prefixed(b"redisson_sc", self._key)

    @property
    def _wakes(self) -> Wakes:
        """How many waiters a message is for."""
        return permit_wakes

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r}>"

    @property
    def name(self) -> Name:
        """The resource name, as it was given."""
        return self._name

    @property
    def key(self) -> bytes:
        """The key in Redis: Redisson's counter."""
        return self._key

    @property
    @abstractmethod
    def _lease_key(self) -> bytes:
        """The key that keeps the leases in Redis."""

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for this name. No I/O; nothing is decided from them."""
        return local_statistics(self._context, self._line_key, self._hold_key)

    # What subclasses ask.

    @abstractmethod
    def _send_acquire(self, owner: str, holds: int, lease_ms: int, deadline: float | None) -> Call:
        """Ask Redis for so many units."""

    @staticmethod
    def _read(reply: Any) -> Granted[int] | int:
        """Return the grant; or milliseconds until a lease is over, or a code below zero."""
        return _GRANTED if reply is None else int(reply)

    @abstractmethod
    def _send_release(self, hold: Hold, deadline: float) -> Call:
        """Give a hold back; the reply is None if it is not there."""

    @abstractmethod
    def _undo_units(self, owner: str, units: int, lease_time: float) -> None:
        """Give back what an abandoned question may have got; refuse it if it comes late."""

    def _undo(self, owner: str, lease_time: float) -> None:
        self._undo_units(owner, 1, lease_time)

    @abstractmethod
    def _permit_id(self, hold: Hold) -> str:
        """Return what users call a permit."""

    @property
    def _line(self) -> PermitLine:
        # Not kept: the line is forgotten when nobody needs it.
        return self._context.lines.open_as(self._line_key, PermitLine)

    # Releasing.

    async def _release_lease(self, lease: Lease) -> None:
        """Give back one acquisition; see `Lease.release`."""
        assert isinstance(lease, Permit)
        await self._settle(lease, self._begin_release(lease))

    def _begin_release(self, permit: Permit) -> Leaving | None:
        """Send a permit back, or pass it on; return what is to be settled, if anything."""
        hold = permit._hold
        if hold.state == "held":
            self._context.check()
        permit._end()
        hold.drop(permit)
        self._line.permits.pop(permit.id, None)
        was_held = hold.held
        if hold.state != "held" or self._pass_on(hold):
            return None
        return (*self._let_go(hold), was_held)

    async def _settle(self, permit: Permit, leaving: Leaving | None) -> None:
        """Wait for the end of a release; raise if the permit was lost before."""
        if leaving is not None:
            call, echo, was_held = leaving
            reply: int | None = None
            try:
                reply = await call.future
            except ReplyError as error:
                raise call.refusal(error) from error
            finally:
                self._left(reply, echo)
            if not reply and not (reply is None and call.doubtful and was_held):
                permit._lose_late()
                self._context.watchdog.losses += 1
        if permit._state == "lost":
            raise permit._loss()

    def _give_back(self, hold: Hold) -> None:
        """Nobody wants this hold: pass it on or release it, without waiting."""
        if hold.state != "held" or self._pass_on(hold):
            return
        with suppress(ClientClosedError):
            call, echo = self._let_go(hold)
            call.future.add_done_callback(
                lambda done: self._left(
                    None if done.cancelled() or done.exception() else done.result(), echo
                )
            )

    def _pass_on(self, hold: Hold) -> bool:
        """Hand the hold to the next task in line here, if that may be; return whether."""
        first = self._line.first
        if first is None or not first.passable or first.attempt.units != hold.count:
            return False
        options, present = self._context.options, now()
        if (
            hold.doubtful
            or not hold.watched
            or hold.state != "held"
            or hold.ends_at - present < options.lease_time / 2
            or present - hold.granted_at >= options.turn
        ):
            return False
        if not first.attempt.take(hold):
            return False
        hold.task = first.task
        return True

    def _let_go(self, hold: Hold) -> tuple[Call, int]:
        """Send a final release; return it and the count of messages that includes our own."""
        context = self._context
        echo = context.bus.echo(self.channel)
        context.watchdog.remove(hold)
        hold.state = "released"
        self._forget(hold)
        return self._send_release(hold, self._until(PATIENCE)), echo

    def _until(self, longest: float) -> float:
        """Return until when to try to give something back that its lease ends anyway."""
        patience = min(max(1.0, self._context.options.lease_time), longest)
        return running_loop().time() + patience

    def _left(self, reply: int | None, echo: int) -> None:
        """A final release was answered, or nobody waits for its answer: who else listened?"""
        told_others = (reply or 1) - 1 - (1 if echo else 0)
        if told_others <= 0:
            return
        line, present = self._line, running_loop().time()
        if present < line.no_turn_until:
            return
        turn = Turn(echo + told_others - 1, present + COURTESY, COURTESY)
        first = line.first
        if first is not None and first.attempt.listens:
            # It is about to be woken by our own message.
            first.attempt.turn = turn
        else:
            line.turn = turn

    # While it is held.

    async def _set_lease(self, lease: Lease, lease_time: float) -> None:
        """Set when a permit ends; see `Lease.extend`."""
        self._context.check()
        extension = Extension(self._context, self, lease, lease_time)
        extension.send()
        await extension.answer
        if lease._hold.state != "held":
            raise lease._loss()

    def _send_lease(self, hold: Hold, lease_time: float) -> Call:
        mark = hold.mark if isinstance(hold.mark, bytes) else hold.mark.encode()
        args = SET_LEASE.bind(permits=self._lease_key, mark=mark, lease_ms=milliseconds(lease_time))
        return self._context.executor.start(SET_LEASE, self._key, args, must=True)

    def _hold_ended(self, hold: Hold) -> None:
        """A hold was lost."""
        self._forget(hold)
        if hold.doubtful:
            # A late duplicate of its acquire must be refused, and what it brought given back.
            with suppress(ClientClosedError):
                self._undo(hold.owner, self._context.options.lease_time)

    def _forget(self, hold: Hold) -> None:
        permits = self._line.permits
        for lease in hold.all_leases():
            if isinstance(lease, Permit):
                permits.pop(lease.id, None)
