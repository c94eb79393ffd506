"""Locks whose leases are of a subclass of `Lease`.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from redisson_py._time import Duration
from redisson_py.sync._blocks import HoldBlock
from redisson_py.sync._leases import Lease
from redisson_py.sync._lock_like import LockLike

L_co = TypeVar("L_co", bound=Lease, covariant=True)


class LockOf(LockLike, Generic[L_co]):
    """A lock whose leases are of one class: those of a `LockOf[FencedLease]` have a fencing token.

    It has the methods of every lock.
    """

    if TYPE_CHECKING:

        def acquire(
            self,
            *,
            timeout: Duration | None = None,
            lease_time: Duration | None = None,
            max_hold: Duration | None = None,
        ) -> L_co: ...

        def try_acquire(
            self,
            *,
            timeout: Duration | None = 0,
            lease_time: Duration | None = None,
            max_hold: Duration | None = None,
        ) -> L_co | None: ...

        def hold(
            self,
            *,
            timeout: Duration | None = None,
            lease_time: Duration | None = None,
            max_hold: Duration | None = None,
            min_hold: Duration | None = None,
        ) -> HoldBlock[L_co]: ...

        def __enter__(self) -> L_co: ...
