"""The handle of one acquisition."""

from __future__ import annotations

import weakref
from types import TracebackType
from typing import Protocol, Self

from redisson_py._keys import Name
from redisson_py._lease.hold import Hold, State
from redisson_py._loop import Future, Strike, fail, new_future, wake
from redisson_py._options import OnLost
from redisson_py._time import Duration, check_lease_time, now
from redisson_py.errors import LeaseLostError, NotHeldError, RedissonError


class Whole(Protocol):
    """A lease that is made of leases; they know it weakly, so that it can be abandoned."""

    _hold: Hold

    def _part_lost(self) -> None: ...


class Lease:
    """A time-limited right, from one acquisition to its release or its loss.

    Use it as `async with lock as lease`, or keep it and call `release` yourself, from any
    task. It is always true, so that `if await lock.try_acquire():` reads well; whether it can
    still be relied on is what `lost` says.

    When the lease is lost inside an `async with` block, the body is cancelled and
    `LeaseLostError` is raised from the block, once. An exception of the body is never masked:
    it propagates with the loss as a note. With `on_lost="raise"` the body runs on and the
    error is raised at its end.

    Not promised: that no code of the body runs after the loss. A body that blocks the event
    loop, or that was about to be resumed, learns of it at its next await; `check()` tells at
    once. Only the fencing token, checked by the protected resource, is safe against a body
    that is paused.
    """

    __slots__ = (
        "__weakref__",
        "_ended",
        "_ended_at",
        "_granted_at",
        "_hold",
        "_limit",
        "_lost_future",
        "_on_lost",
        "_state",
        "_strike",
        "_whole",
        "token",
    )

    def __init__(
        self,
        hold: Hold,
        limit: float | None,
        token: int | None,
        on_lost: OnLost,
        granted_at: float,
    ) -> None:
        self._hold = hold
        self._limit = limit
        self._on_lost = on_lost
        self._state: State = "held"
        self._granted_at = granted_at
        self._ended = False
        self._ended_at: float | None = None
        self._lost_future: Future[None] | None = None
        self._strike: Strike | None = None
        #: The lease that is made of this and others: told of the loss, at once.
        self._whole: weakref.ref[Whole] | None = None
        self.token = token
        """The fencing token of a fenced lock, else None."""

    def __repr__(self) -> str:
        state = f"{self.remaining:.3f} s left" if self._state == "held" else self._state
        return f"<{type(self).__name__} of {self._hold.resource.kind} {self.name!r}: {state}>"

    def __bool__(self) -> bool:
        return True

    @property
    def name(self) -> Name:
        """The resource name."""
        return self._hold.resource.name

    @property
    def owner(self) -> str:
        """Who Redis says holds it: the client's id and a number."""
        return self._hold.owner

    @property
    def _ends_at(self) -> float:
        """The moment, by the library's clock, from which it must not be relied on."""
        if self._limit is None:
            return self._hold.ends_at
        return min(self._limit, self._hold.ends_at)

    @property
    def remaining(self) -> float:
        """Seconds the holder may still rely on; 0.0 once lost or released. No I/O.

        By the local monotonic clock, counted from before the last granting request was sent.
        """
        return max(0.0, self._ends_at - now()) if self._state == "held" else 0.0

    @property
    def lost(self) -> bool:
        """Whether it ended without our release. No I/O."""
        return self._state == "lost" or (self._state == "held" and now() >= self._ends_at)

    @property
    def _held_for(self) -> float:
        """Seconds from the grant to the end, or to now."""
        return (self._ended_at or now()) - self._granted_at

    def check(self) -> None:
        """Raise `LeaseLostError` if it is lost. Costs no I/O.

        Raises:
            LeaseLostError: It cannot be relied on any more.
        """
        if self.lost:
            raise self._loss()

    async def wait_lost(self) -> None:
        """Return when the lease is lost; never, if it is released. Cancelling is harmless.

        Raises:
            ClientClosedError: The client was closed meanwhile.
        """
        if self.lost:
            return
        if self._lost_future is None or self._lost_future.cancelled():
            self._lost_future = new_future()
        # Several tasks may wait; each gets a future of its own behind the shared one.
        mine = new_future()
        self._lost_future.add_done_callback(lambda done: _copy(done, mine))
        await mine

    async def extend(self, lease_time: Duration) -> None:
        """Set a new lease, of `lease_time` seconds from now; it then ends by itself.

        A lease that the watchdog renewed is not renewed any more afterwards. If cancelled, it
        is carried out all the same.

        Raises:
            LeaseLostError: The lease was gone already.
            NotHeldError: It was released.
            ConnectionLostError: Redis did not answer; the old or the new lease is in force.
            ValueError: `lease_time` is not a positive, finite time.
        """
        seconds = check_lease_time(lease_time)
        if self._state == "released":
            raise NotHeldError(f"{self!r} cannot be extended")
        self.check()
        await self._hold.resource._set_lease(self, seconds)

    async def release(self) -> None:
        """Give this acquisition back. A cancelled release is still carried out.

        Raises:
            NotHeldError: It was released already.
            LeaseLostError: It was lost before; nothing is held.
            ConnectionLostError: Redis did not answer; the lock is free after one lease at most.
        """
        if self._ended:
            raise NotHeldError(f"{self._hold.resource.kind} {self.name!r} was released already")
        await self._hold.resource._release_lease(self)

    async def __aenter__(self) -> Self:
        self._enter()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._leave(error)

    # For the library.

    def _enter(self) -> None:
        """Begin a block that a loss cancels."""
        if self._state == "released":
            raise NotHeldError(f"{self._hold.resource.kind} {self.name!r} was released already")
        self.check()
        self._strike = Strike()

    async def _leave(self, error: BaseException | None) -> None:
        """End the block: release, and raise what must come instead of `error`, if anything."""
        strike, self._strike = self._strike, None
        ours = strike is not None and strike.close(error)
        failure: RedissonError | None = self._loss() if ours else None
        try:
            if not self._ended:
                await self._hold.resource._release_lease(self)
        except RedissonError as problem:
            failure = problem
        if failure is None:
            return
        if error is None or ours:
            raise failure from None
        # What the body raised is what counts; the rest is told beside it.
        error.add_note(f"{type(failure).__name__}: {failure}")

    def _lose(self) -> bool:
        """Mark it lost and tell whoever relies on it; return whether it was held."""
        if self._state != "held":
            return False
        self._state = "lost"
        self._ended_at = now()
        wake(self._lost_future)
        if self._strike is not None and self._on_lost == "cancel":
            self._strike(f"{self._hold.resource.kind} {self.name!r} was lost")
        self._tell_whole()
        return True

    def _end(self, error: BaseException | None = None) -> None:
        """Its holder, or the closing client, is done with it; what was lost stays lost."""
        self._ended = True
        if self._state == "held":
            self._state = "released"
        if error is not None:
            fail(self._lost_future, error)

    def _lose_late(self) -> None:
        """Its release found it gone: it had been lost before."""
        self._state = "lost"
        self._ended_at = now()
        wake(self._lost_future)
        self._tell_whole()

    def _tell_whole(self) -> None:
        if self._whole is not None and (whole := self._whole()) is not None:
            whole._part_lost()

    def _set_limit(self, limit: float | None) -> None:
        """Set when it ends by itself."""
        self._limit = limit

    @property
    def _entered(self) -> bool:
        """Whether it is inside an `async with` block, or part of what may be."""
        return self._strike is not None or self._whole is not None

    def _loss(self) -> LeaseLostError:
        """Return the error that tells of its loss."""
        held_for = self._held_for
        return LeaseLostError(
            f"{self._hold.resource.kind} {self.name!r} was lost after {held_for:.3f} s",
            self.name,
            self.owner,
            held_for,
        )


def _copy(done: Future[None], mine: Future[None]) -> None:
    error = None if done.cancelled() else done.exception()
    if error is not None:
        fail(mine, error)
    else:
        wake(mine)
