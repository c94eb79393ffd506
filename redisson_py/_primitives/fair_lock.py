"""FairLock: first come, first served, across processes and hosts."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any, Self, final

from redisson_py import _keys
from redisson_py._keys import Name
from redisson_py._loop import running_loop
from redisson_py._options import TOMBSTONE
from redisson_py._primitives.attempt import HoldAttempt
from redisson_py._primitives.context import Context
from redisson_py._primitives.hold_lock import HoldLock
from redisson_py._primitives.looking import LockSnapshot, _holder
from redisson_py._scripts import source
from redisson_py._stream.call import Call
from redisson_py._time import milliseconds
from redisson_py._waiting import Busy, Granted, Turn
from redisson_py.errors import ClientClosedError, ScriptError

ACQUIRE = source.load("fair_lock.acquire")
RELEASE = source.load("fair_lock.release")
FORCE_RELEASE = source.load("fair_lock.force_release")
INSPECT = source.load("fair_lock.inspect")

_GRANTED = Granted(0)

#: What Redisson takes for the wait of a caller that gave no timeout, in milliseconds.
_REDISSON_WAIT = 300_000

#: Longest wait in seconds that the queue is told of; one may wait longer.
_LONGEST_WAIT = 366 * 24 * 3600.0

#: Seconds for which a waiter counts as alive at least: the loop asks no oftener than 20 times
#: a second.
_LEAST_ALIVE = 0.3


@final
class FairLock(HoldLock):
    """A lock that one task holds at a time, given in the order in which they asked for it.

    Use it instead of `RLock` where the order of arrival matters between processes, or where
    nobody may starve. Otherwise prefer `RLock`: it hands over to a task of the same process
    without asking Redis, and needs no queue there.

    The holder is the current asyncio task: re-entry by the same task counts, and goes before
    the queue. With `reentrant=False` a second acquire by the holder raises `RuntimeError`.

    Promised: who began to wait earlier is served earlier, of whatever process, as Redis saw
    them come; waiters who give up, are cancelled or die do not change the order of the
    others. A waiter that died is passed over one `lease_time` of its client after it last
    asked. One that lives keeps its place for as long as it waits. A release tells the next in
    line and nobody else. In all else as `RLock`, exclusion and its limits included.

    Not promised: that a task of a client that could not reach Redis for a whole `lease_time`
    keeps its place when its turn came meanwhile (it is queued again, as the last); that a
    waiter of Redisson that died is found before Redisson's own five minutes; that
    `try_acquire()` gets a free lock for which somebody waits.

    Cost: uncontended one round trip, as `RLock`. Each waiting task has a subscription and a
    place in Redis of its own and says that it is alive by asking again, a small command every
    few seconds and at least three times a `lease_time` of the client. A hold much shorter than
    that costs one message more, so that the next in line knows when it ends. An acquire or a
    leave with many waiting takes Redis a time that grows with their number.

    Cancellation: a cancelled `acquire` leaves the queue and holds nothing; a cancelled
    `release` is carried out. Times are seconds. Errors: see `acquire` and `release`.

    Protocol: Redisson's RFairLock (a list of owners, a sorted set of the moments after which
    they count as dead, a channel for each), with its known faults repaired from our side:
    waiters tell that they live, none is forgotten while it does, and none asks without pause.
    """

    kind = "fair lock"

    _releasing = RELEASE
    _forcing = FORCE_RELEASE

    def __init__(self, context: Context, name: Name, *, reentrant: bool = True) -> None:
        super().__init__(context, name, reentrant=reentrant)
        self._queue = _keys.prefixed(b"redisson_lock_queue", self._key)
        self._timeouts = _keys.prefixed(b"redisson_lock_timeout", self._key)
        self._waiters = _keys.suffixed(self._key, b"redisson_py:waiters")

    def _named(self, name: Name) -> Self:
        return type(self)(self._context, name, reentrant=self._reentrant)

    @property
    def _alive(self) -> float:
        """For how many seconds a waiter counts as alive after it asked."""
        return max(self._context.options.lease_time, _LEAST_ALIVE)

    def _attempt(
        self,
        owner: str,
        holds: int,
        lease_time: float,
        turn: Turn | None,
        *,
        once: bool,
        deadline: float | None,
    ) -> HoldAttempt:
        wait_ms = _REDISSON_WAIT
        if deadline is not None and not once:
            left = min(deadline - running_loop().time(), _LONGEST_WAIT)
            wait_ms = max(1, math.ceil(left * 1000))
        return FairAttempt(self, owner, holds, lease_time, wait_ms, places=0 if once else 1)

    def _send_acquire(self, owner: str, holds: int, lease_ms: int, deadline: float | None) -> Call:
        return self._send_question(owner, holds, lease_ms, deadline, _REDISSON_WAIT, places=0)

    def _send_question(
        self,
        owner: str,
        holds: int,
        lease_ms: int,
        deadline: float | None,
        wait_ms: int,
        places: int,
    ) -> Call:
        name = owner.encode()
        args = ACQUIRE.bind(
            lock=self._key,
            tombstone=self._tombstones + name,
            queue=self._queue,
            timeouts=self._timeouts,
            waiters=self._waiters,
            owner=name,
            holds=holds,
            lease_ms=lease_ms,
            wait_ms=wait_ms,
            alive_ms=milliseconds(self._alive),
            places=places,
            channel=self.channel,
        )
        return self._context.executor.start(ACQUIRE, self._key, args, deadline)

    @staticmethod
    def _read(reply: Any) -> Granted[int] | int:
        return _GRANTED if reply is None else int(reply)

    def _release_args(
        self,
        mark: bytes,
        holds: int,
        lease_ms: int,
        tombstone_ms: int,
        wait_ms: int = _REDISSON_WAIT,
    ) -> bytes:
        return RELEASE.bind(
            lock=self._key,
            tombstone=self._tombstones + mark,
            queue=self._queue,
            timeouts=self._timeouts,
            waiters=self._waiters,
            owner=mark,
            holds=holds,
            lease_ms=lease_ms,
            wait_ms=wait_ms,
            channel=self.channel,
            tombstone_ms=tombstone_ms,
        )

    def _leave_queue(self, owner: str, lease_time: float, wait_ms: int) -> None:
        """Give back what an abandoned question may have got: a hold, or a place in the queue."""
        tombstone_ms = milliseconds(TOMBSTONE)
        args = self._release_args(
            owner.encode(), 0, milliseconds(lease_time), tombstone_ms, wait_ms
        )
        # Tried for as long as there can be anything to give back.
        deadline = running_loop().time() + max(1.0, lease_time, self._alive)
        self._context.executor.start(RELEASE, self._key, args, deadline, must=True)

    def _force_args(self, receipt: bytes) -> bytes:
        return FORCE_RELEASE.bind(
            lock=self._key,
            receipt=receipt,
            queue=self._queue,
            timeouts=self._timeouts,
            waiters=self._waiters,
            channel=self.channel,
            receipt_ms=milliseconds(TOMBSTONE),
        )

    async def inspect(self) -> LockSnapshot:
        """Return who holds it and who waits, in order. Nothing should be decided from it."""
        context = self._context
        context.check()
        left, words, *rest = await context.executor.run(
            INSPECT, self._key, lock=self._key, queue=self._queue
        )
        remaining = math.inf if left == -1 else max(0, left) / 1000
        fields, line = rest[:words], rest[words:]
        holders = [
            await _holder(context, owner.decode(), int(count), remaining)
            for owner, count in zip(fields[::2], fields[1::2], strict=True)
        ]
        keys = (self._key, self._queue, self._timeouts, self._waiters)
        return LockSnapshot(
            tuple(holders),
            tuple(owner.decode() for owner in line),
            tuple(key.decode(errors="replace") for key in keys),
        )


class FairAttempt(HoldAttempt):
    """Asks for a hold under one owner, and for a place in the queue while it is busy.

    As long as it has one, leaving must be announced: by whoever gives up, and by a client that
    is closed while this sleeps.
    """

    __slots__ = ("_fair_lock", "_places", "_queued", "_wait_ms")

    def __init__(
        self,
        lock: FairLock,
        owner: str,
        holds: int,
        lease_time: float,
        wait_ms: int,
        *,
        places: int,
    ) -> None:
        super().__init__(lock._context, lock, owner, holds, lease_time, None)
        self._fair_lock = lock
        self._wait_ms = wait_ms
        self._places = places
        self._queued = False

    @property
    def channel(self) -> bytes:
        """Where this waiter alone is told that it is the next."""
        return self._lock.channel + b":" + self.owner.encode()

    async def answer(self) -> Granted[int] | Busy:
        """Return what Redis says to the last question."""
        try:
            return await super().answer()
        except ScriptError:
            # Refused in the middle, for want of a permission: there may be a place all the same.
            self._queued = self._places > 0
            raise

    def _send(self, deadline: float | None) -> Call:
        return self._fair_lock._send_question(
            self.owner,
            self._holds,
            milliseconds(self._lease_time),
            deadline,
            self._wait_ms,
            self._places,
        )

    def _busy(self, answer: int) -> Busy:
        if not self._places:
            return super()._busy(answer)
        self._queued = True
        self._context.asking[self] = None
        # To ask is to live: never so late that somebody could take us for dead.
        retry_in = self._fair_lock._alive / 3
        if answer >= 0:
            retry_in = min(retry_in, answer / 1000)
        return Busy(retry_in, queued=True)

    def undo(self) -> None:
        """Give back what was got, a place too. Does not wait; idempotent."""
        if not self._queued:
            super().undo()
            return
        self._queued = False
        self._answered()
        self.undone = True
        # The closing client has undone it already, or nobody will hear of us any more.
        with suppress(ClientClosedError):
            self._undo_all()

    def _undo_all(self) -> None:
        self._fair_lock._leave_queue(self.owner, self._lease_time, self._wait_ms)
