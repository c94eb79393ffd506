"""The handle of one acquisition.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self, final

from redisson_py import FencedLease as AsyncFencedLease
from redisson_py import Leadership as AsyncLeadership
from redisson_py import Lease as AsyncLease
from redisson_py import Permit as AsyncPermit
from redisson_py._arguments import explained
from redisson_py._keys import Name
from redisson_py._time import Duration
from redisson_py.sync._waiting import until_lost
from redisson_py.sync._wrapping import LeaseWrapper, lease_kinds


class Lease(LeaseWrapper):
    """A time-limited right, from one acquisition to its release or its loss.

    Use it as `with lock as lease`, or keep it and call `release` yourself, from any thread. It
    is always true, so that `if lock.try_acquire():` works; `lost` says whether you can no
    longer rely on it.

    Nothing can interrupt a thread. When the lease is lost inside a `with` block, the body runs
    on, and the block raises `LeaseLostError` at its end, once. Call `check` before each step
    that needs the lock, look at `lost`, or give the client a function as `on_lost`. An
    exception of the body is never masked: it propagates with the loss as a note.

    Not promised: that no code of the body runs after the loss. The body notices the loss only
    when it asks. Only the fencing token, checked by the protected resource, is safe against a
    paused body.
    """

    def __bool__(self) -> bool:
        return True

    @property
    def name(self) -> Name:
        """The resource name."""
        value: Name = self._shape.name
        return value

    @property
    def owner(self) -> str:
        """The owner on the server: the client's id and a number."""
        value: str = self._shape.owner
        return value

    @property
    def token(self) -> int | None:
        """The fencing token of a fenced lock, else None. No I/O."""
        value: int | None = self._shape.token
        return value

    @property
    def remaining(self) -> float:
        """Seconds for which the holder may still rely on it; 0.0 once lost or released. No I/O.

        By the local monotonic clock, counted from before the last granting request was sent.
        """
        value: float = self._shape.remaining
        return value

    @property
    def lost(self) -> bool:
        """Whether it ended before its release. No I/O."""
        value: bool = self._shape.lost
        return value

    def check(self) -> None:
        """Raise `LeaseLostError` if it is lost, and nothing after a release. No I/O.

        Raises:
            LeaseLostError: The holder can no longer rely on it.
        """
        self._shape.check()

    def wait_lost(self, timeout: Duration | None = None) -> bool:
        """Wait until the lease is lost; return whether it is.

        For another thread than that of the body, such as one that stops a child process. A
        lease that is released is never lost: give a timeout where that may happen.

        Args:
            timeout: Seconds to wait. Default: waits forever.

        Raises:
            ClientClosedError: The client was closed meanwhile.
            TypeError: The timeout is neither a number nor a timedelta.
            ValueError: It is negative or NaN.
        """
        return self._call(lambda own: until_lost(own, timeout))

    @explained
    def extend(self, lease_time: Duration) -> None:
        """Set the lease to end `lease_time` seconds from now.

        The watchdog then stops renewing it, and a `max_hold` no longer applies: the new end may be
        before or after it. An interrupted call is still carried out.

        Raises:
            LeaseLostError: The lease was already lost.
            NotHeldError: The lease was released.
            ConnectionLostError: The server did not answer; the old or the new lease is in force.
            ValueError: `lease_time` is not a positive, finite time.
        """
        self._call(lambda own: own.extend(lease_time))

    @explained
    def hand_over(self, *, lease_time: Duration | None = None) -> str:
        """Give the hold to another process; return the token with which `client.adopt` takes it.

        This lease is over then: nothing here renews it, its block ends without releasing the name,
        and `release` raises `NotHeldError`. The name stays taken for `lease_time` seconds. Within
        these the first `adopt` gets the hold, with the same fencing token; if there is none, the
        name becomes free. Who has the token can take the hold: send it as you would a password.

        If this call is interrupted or raises an error, no token exists, and the lease goes on as
        before, except after `LeaseLostError` and `NotHeldError`.

        Not promised: that a token is adopted; that the adopter gets it in time. A caller that is
        interrupted, or dies, before it has passed the token on, leaves the name taken for
        `lease_time`.

        Args:
            lease_time: Seconds from now that the adopter has; never less than the lease has left.
                Default: the client's `lease_time`.

        Raises:
            LeaseLostError: The lease was already lost.
            NotHeldError: It was released, or handed over before.
            RuntimeError: It cannot be handed over: its thread has acquired it more than once, it
                has a `max_hold`, or a `min_hold` that is not over, it belongs to a `MultiLock` or
                `RedLock`, it is a permit or one side of a read-write lock, or the client is not one
                of Redis. It is still held.
            ConnectionLostError: The server did not answer. It is still held, and renewed.
            ValueError: `lease_time` is not a positive, finite time.
        """
        value: str = self._call(lambda own: own.hand_over(lease_time=lease_time))
        return value

    def release(self) -> None:
        """Release this acquisition. An interrupted release is still carried out.

        If its end has passed but the server still has it, the release may succeed without an error.

        Raises:
            NotHeldError: It was already released, or its release failed: the text says which.
            LeaseLostError: It was already lost; nothing is held.
            ReleaseFailedError: The server did not answer for `command_timeout`. The release is
                repeated until the lease has run out.
        """
        self._call(lambda own: own.release())

    def __enter__(self) -> Self:
        self._call(lambda own: own.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._call(lambda own: own.__aexit__(kind, error, trace))


class FencedLease(Lease):
    """The lease of a `FencedLock`, with a fencing token."""

    @property
    def token(self) -> int:
        """The fencing token: greater than that of every earlier holder. No I/O."""
        value: int = self._shape.token
        return value


@final
class Leadership(FencedLease):
    """The lease of a leader: from its election to the end of its block, or the loss.

    `token` is its fencing token, greater than that of every earlier leader.
    """

    def proclaim(self, value: str | bytes) -> None:
        """Publish another value without another election. One round trip.

        If it is interrupted or gets no answer, the value may be the new one or the old one:
        proclaim again. A request that arrives late changes neither a later value nor that of a
        later leader.

        Raises:
            LeaseLostError: It no longer leads; nothing changed.
            NotHeldError: It was released.
            ConnectionLostError: The server did not answer.
            BackendError: It refused, for example, in etcd, a value of more than 1.5 MiB.
            ClientClosedError: The client was closed.
            TypeError: The value is neither str nor bytes.
            ValueError: It is no valid text. Nothing was sent.
        """
        self._call(lambda own: own.proclaim(value))


@final
class Permit(Lease):
    """Units of a semaphore, from one acquisition to its release or its loss: a `Lease`.

    Use it as `with semaphore as permit`, or keep it and call `release` yourself, from any
    thread. Until then the watchdog renews it, unless it has a lease time. The permit of a dead
    process returns within one lease. So does a permit that can no longer be released, because
    its thread has ended, the `Permit` was garbage-collected, and its `id` was never read; a
    warning is logged.
    """

    @property
    def id(self) -> str:
        """The id of the permit in Redis.

        For a `PermitExpirableSemaphore`, 32 hex digits, with which any client, including Redisson,
        can release it; for a `Semaphore`, the same text as `owner`. After you read it, the permit
        is renewed until it is released, even if this object is gone.
        """
        value: str = self._shape.id
        return value

    @property
    def units(self) -> int:
        """The number of units it still holds; 0 once lost or released."""
        value: int = self._shape.units
        return value


lease_kinds.update(
    {
        AsyncLease: Lease,
        AsyncFencedLease: FencedLease,
        AsyncLeadership: Leadership,
        AsyncPermit: Permit,
    }
)
