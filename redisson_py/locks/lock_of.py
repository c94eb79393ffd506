"""Locks whose leases are of a subclass of `Lease`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Self, TypeVar

from redisson_py._engine.block import HoldBlock
from redisson_py._engine.hold import Lease
from redisson_py._time import Duration
from redisson_py.locks.lock_like import LockLike

L_co = TypeVar("L_co", bound=Lease, covariant=True)


class LockOf(LockLike, Generic[L_co]):
    """A lock whose leases are of one class: those of a `LockOf[FencedLease]` have a fencing token.

    It has the methods of every lock.
    """

    if TYPE_CHECKING:

        async def acquire(  # noqa: D102
            self,
            *,
            timeout: Duration | None = None,
            lease_time: Duration | None = None,
            max_hold: Duration | None = None,
        ) -> L_co: ...

        async def try_acquire(  # noqa: D102
            self,
            *,
            timeout: Duration | None = 0,
            lease_time: Duration | None = None,
            max_hold: Duration | None = None,
        ) -> L_co | None: ...

        def hold(  # noqa: D102
            self,
            *,
            timeout: Duration | None = None,
            lease_time: Duration | None = None,
            max_hold: Duration | None = None,
            min_hold: Duration | None = None,
        ) -> HoldBlock[Self, L_co]: ...

        async def __aenter__(self) -> L_co: ...
