"""The handle of one acquisition."""

from __future__ import annotations

import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from redisson_py._arguments import explained
from redisson_py._engine.awaiting import AsyncOnly
from redisson_py._engine.block import Block
from redisson_py._engine.hold import Hold, Reason, State, lease_for, lost_error, tell_lost
from redisson_py._engine.releasing import give_back
from redisson_py._keys import Name
from redisson_py._listener import AcquiredEvent, ReleasedEvent, Teller, new_acquisition
from redisson_py._loop import Future, current_task, fail, new_future, wake
from redisson_py._time import KEPT_LESS, Duration, check_lease_time, now
from redisson_py.errors import LeaseLostError, NotHeldError

if TYPE_CHECKING:
    from redisson_py._engine.ownership import LastRelease
    from redisson_py._options import OnLost, OnReleaseError

#: Seconds for which the server keeps a lease beyond its `max_hold`, so that the reason of its end
#: is "ended" and not "expired".
_BEYOND = 0.001


class Released(Protocol):
    """Releases an acquisition and sets its lease."""

    def begin_last_release(
        self, loop: object, lease: Lease, future: Future[Any] | None = None
    ) -> LastRelease | None: ...
    async def release(self, lease: Lease) -> None: ...
    async def extend(self, lease: Lease, lease_time: float) -> None: ...

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> Name: ...
    @property
    def on_lost(self) -> OnLost: ...
    @property
    def on_release_error(self) -> OnReleaseError: ...


class Composed(Protocol):
    """A lease made of member leases, which refer to it weakly so that it can be abandoned."""

    @property
    def _hold(self) -> Abandonable: ...
    @property
    def _block(self) -> Block | None: ...
    def _member_lost(self) -> None: ...


class Abandonable(Protocol):
    """Can detect that it can no longer be released."""

    def is_abandoned(self) -> bool: ...


class Lease(AsyncOnly):
    """A time-limited right, from one acquisition to its release or its loss.

    Use it as `async with lock as lease`, or keep it and call `release` yourself, from any
    task. It is always true, so that `if await lock.try_acquire():` works; `lost` says whether you
    can no longer rely on it.

    When the lease is lost inside an `async with` block, the body is cancelled and the block raises
    `LeaseLostError`, once. An exception of the body is never masked: it propagates with the loss
    as a note. With `on_lost="raise"` the body runs on and the error is raised at its end.

    Not promised: that no code of the body runs after the loss. A body that blocks the event
    loop, or that was about to resume, notices at its next await; `check()` raises at once. Only
    the fencing token, checked by the protected resource, is safe against a paused body.
    """

    __slots__ = (
        "__weakref__",
        "_acquisition",
        "_block",
        "_composite",
        "_ended_at",
        "_granted_at",
        "_hold",
        "_limit",
        "_lost_waiters",
        "_reason",
        "_renewed",
        "_state",
        "_token",
        "_told",
        "_unreleased",
        "_wanted",
    )

    #: Whether its losses are counted. Those of composites are not; their members' are.
    _counts: ClassVar[bool] = True

    def __init__(
        self, hold: Hold, limit: float | None, token: int | None, granted_at: float
    ) -> None:
        self._hold = hold
        #: The moment at which it ends by itself, or None.
        self._limit = limit
        #: It is renewed until that moment: it has a `max_hold`.
        self._renewed = False
        #: The moment at which it will end once the server confirms the extension under way.
        self._wanted: float | None = None
        self._granted_at = granted_at
        self._state: State = "held"
        self._reason: Reason = "taken"
        #: It was released, or its loss was reported: no call may use it any more.
        self._told = False
        self._unreleased = ""  # why its release failed, if it did
        self._ended_at: float | None = None
        self._lost_waiters: list[Future[None]] | None = None
        #: The `async with` block that it belongs to.
        self._block: Block | None = None
        #: The composite lease of which this is a member; it learns of a loss at once.
        self._composite: weakref.ref[Composed] | None = None
        self._token = token
        #: Its number for a listener; 0 until one is needed.
        self._acquisition = 0

    def __repr__(self) -> str:
        state = f"{self.remaining:.3f} s left" if self._state == "held" else self._state
        return f"<{type(self).__name__} of {self._hold.ownership.kind} {self.name!r}: {state}>"

    def __bool__(self) -> bool:
        return True

    @property
    def name(self) -> Name:
        """The resource name."""
        return self._hold.ownership.name

    @property
    def owner(self) -> str:
        """The owner on the server: the client's id and a number."""
        return self._hold.owner

    @property
    def token(self) -> int | None:
        """The fencing token of a fenced lock, else None. No I/O."""
        return self._token

    @property
    def _ends_at(self) -> float:
        """The moment, by the library's clock, until which the holder may rely on it."""
        if self._limit is None:
            return self._hold.ends_at
        return min(self._limit, self._hold.ends_at)

    @property
    def remaining(self) -> float:
        """Seconds for which the holder may still rely on it; 0.0 once lost or released. No I/O.

        By the local monotonic clock, counted from before the last granting request was sent.
        """
        return max(0.0, self._ends_at - now()) if self._state == "held" else 0.0

    @property
    def lost(self) -> bool:
        """Whether it ended before its release. No I/O."""
        return self._state == "lost" or (self._state == "held" and now() >= self._ends_at)

    def check(self) -> None:
        """Raise `LeaseLostError` if it is lost, and nothing after a release. No I/O.

        Raises:
            LeaseLostError: The holder can no longer rely on it.
        """
        if self.lost:
            raise self._loss()

    async def wait_lost(self) -> None:
        """Return when the lease is lost; wait forever if it is released. Cancelling is harmless.

        Raises:
            ClientClosedError: The client was closed.
        """
        if self.lost:
            return
        if self._lost_waiters is None:
            self._lost_waiters = []
        future = new_future()
        self._lost_waiters.append(future)
        try:
            await future
        finally:
            self._lost_waiters.remove(future)
            # A traceback must not keep the future alive.
            del future

    @explained
    async def extend(self, lease_time: Duration) -> None:
        """Set the lease to end `lease_time` seconds from now.

        The watchdog then stops renewing it, and a `max_hold` no longer applies: the new end may be
        before or after it. A cancelled call is still carried out.

        Raises:
            LeaseLostError: The lease was already lost.
            NotHeldError: The lease was released.
            ConnectionLostError: The server did not answer; the old or the new lease is in force.
            ValueError: `lease_time` is not a positive, finite time.
        """
        seconds = check_lease_time(lease_time)
        if self._state == "released":
            raise NotHeldError(f"{self._hold.ownership!r} was already released")
        self.check()
        await self._hold.ownership.extend(self, seconds)

    async def release(self) -> None:
        """Release this acquisition. A cancelled release is still carried out.

        If its end has passed but the server still has it, the release may succeed without an error.

        Raises:
            NotHeldError: It was already released, or its release failed: the text says which.
            LeaseLostError: It was already lost; nothing is held.
            ReleaseFailedError: The server did not answer for `command_timeout`. The release is
                repeated until the lease has run out.
        """
        if self._told:
            raise self._over()
        await give_back(self)

    async def __aenter__(self) -> Self:
        if self._told:
            raise self._over()
        self.check()
        Block(None).begin(self, current_task())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        block = self._block
        if block is None or block.is_of_source:
            # No block was entered with it, but this exit must release it.
            if self._told:
                return
            block = Block(None)
            block.begin(self, current_task())
        await block.exit(kind, error, trace)

    # For the library.

    def _over(self) -> NotHeldError:
        """Return the error of a call that needs it, after its release or its reported loss."""
        text = "was lost, as reported before" if self._state == "lost" else "was already released"
        if self._unreleased:
            text = f"cannot be released again: {self._unreleased}"
        return NotHeldError(f"{self._hold.ownership.kind} {self.name!r} {text}")

    def _release_failed(self, why: str) -> None:
        """Record that the server refused its release, or did not answer it."""
        self._unreleased = why

    def _lose(self, reason: Reason) -> bool:
        """Mark it lost and cancel its block; return whether it was held."""
        if self._state != "held":
            return False
        self._lost(reason)
        if self._block is not None and self._hold.ownership.on_lost == "cancel":
            self._block.cancel(f"{self._hold.ownership.kind} {self.name!r} was lost ({reason})")
        return True

    def _lose_late(self, reason: Reason) -> None:
        """Mark it lost because its release found it gone."""
        self._lost(reason)

    def _lost(self, reason: Reason) -> None:
        is_new = self._state != "lost"
        self._state = "lost"
        self._reason = reason
        self._ended_at = present = now()
        if is_new:
            context = self._hold.ownership.context
            if self._counts:
                context.counts.losses[reason] += 1
            if context.teller is not None:
                held_for = present - self._granted_at
                number = self._acquisition
                tell_lost(context.teller, self._hold, self.token, held_for, reason, number)
        for waiter in self._lost_waiters or ():
            wake(waiter)
        if self._composite is not None and (composite := self._composite()) is not None:
            composite._member_lost()

    def _settle(self) -> None:
        """Mark it released, or its loss reported; a lost lease stays lost."""
        self._told = True
        if self._state == "held":
            self._state = "released"

    def _unsettle(self) -> None:
        self._state, self._told, self._unreleased = "held", False, ""

    def _close(self, error: BaseException) -> None:
        """End it because its client closes, and stop its block."""
        for waiter in self._lost_waiters or ():
            fail(waiter, error)
        self._lose("forced")

    def _number(self) -> int:
        """Return the number of this acquisition, unique in this process."""
        if not self._acquisition:
            self._acquisition = new_acquisition()
        return self._acquisition

    def _tell_released(self, moment: float) -> None:
        """Call the listener: it was released at `moment`, unless it was lost by then."""
        hold = self._hold
        teller = hold.ownership.context.teller
        if teller is not None and self._state == "released" and hold.units:
            name, kind = self.name, hold.ownership.kind
            held_for = moment - self._granted_at
            number = self._acquisition
            event = ReleasedEvent(name, kind, self.owner, self.token, held_for, number)
            teller.tell("released", event)

    def _set_limit(
        self, limit: float | None, wanted: float | None = None, *, renewed: bool = False
    ) -> None:
        """Set its end, its end once the server confirms an extension, and whether it is renewed."""
        self._limit = limit
        self._wanted = wanted
        self._renewed = renewed

    def _keep_for(self, max_hold: float) -> None:
        """Have it renewed until at most `max_hold` seconds after its grant."""
        self._hold.limit_renewals(max_hold, self)

    def _keep_until(self, moment: float) -> None:
        """Have it renewed until `moment`, at which it ends."""
        self._hold.keep_until(moment, self)

    @property
    def _is_renewed(self) -> bool:
        """Whether the watchdog renews it, with an end or without one."""
        return self._limit is None or self._renewed

    def _need(self, renewing: float, present: float) -> float:
        """Return the seconds of lease that it needs; a renewed one needs `renewing` seconds."""
        if self._limit is None:
            return renewing
        if self._renewed:
            return min(renewing, lease_for(self._limit + _BEYOND, present))
        return lease_for(self._wanted_until, present)

    @property
    def _wanted_until(self) -> float:
        """The moment until which the server must keep a lease that has a limit."""
        return max(self._limit or 0.0, self._wanted or 0.0)

    @property
    def _left_to_block(self) -> bool:
        """Whether a block will release it: its own, or that of its composite."""
        composite = None if self._composite is None else self._composite()
        return self._block is not None or (composite is not None and composite._block is not None)

    @property
    def _overdue_reason(self) -> Reason:
        """The reason of its loss when it is over by the clock."""
        if self._limit is None or (self._renewed and self._hold.ends_at + KEPT_LESS < self._limit):
            return "expired"
        return "ended"

    def _loss(self) -> LeaseLostError:
        """Return the error for its loss."""
        if self._state == "held":
            # It is over by the clock; the timer is late.
            self._reason = self._overdue_reason
        held_for = (self._ended_at or now()) - self._granted_at
        return lost_error(self._hold.ownership, self.owner, held_for, self._reason)


class FencedLease(Lease):
    """The lease of a `FencedLock`, with a fencing token."""

    __slots__ = ()

    @property
    def token(self) -> int:
        """The fencing token: greater than that of every earlier holder. No I/O."""
        assert self._token is not None
        return self._token


def tell_acquired(teller: Teller, lease: Lease, waited: float) -> None:
    """Tell a listener of a lease that a caller acquired after `waited` seconds."""
    ownership, name, token = lease._hold.ownership, lease.name, lease.token
    number, system = lease._number(), ownership.context.system
    event = AcquiredEvent(name, ownership.kind, lease.owner, token, waited, number, system)
    teller.tell("acquired", event)
