"""The base of read-write locks, on any store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from redisson_py._keys import Name
from redisson_py._process_bound import ProcessBound
from redisson_py._statistics import PrimitiveStatistics
from redisson_py.locks.lock_like import LockLike

R = TypeVar("R", bound=LockLike)
W = TypeVar("W", bound=LockLike)


class TwoSides(ProcessBound, Generic[R, W]):
    """Base of read-write locks: a read side and a write side with one name."""

    def __init__(self, read_lock: R, write_lock: W) -> None:
        self._read_lock = read_lock
        self._write_lock = write_lock

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    if not TYPE_CHECKING:

        def __aenter__(self, *_: object) -> NoReturn:
            raise TypeError(
                f"{type(self).__name__} is not a context manager: write"
                " `async with lock.read_lock():` or `async with lock.write_lock():`"
            )

        __aexit__ = __enter__ = __exit__ = __aenter__

    @property
    def name(self) -> Name:
        """The resource name, as given."""
        return self._read_lock.name

    @property
    def key(self) -> bytes:
        """The key on the server."""
        return self._read_lock.key

    def read_lock(self) -> R:
        """Return the side that any number of tasks hold together."""
        return self._read_lock

    def write_lock(self) -> W:
        """Return the side that one task holds alone."""
        return self._write_lock

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for both sides together. No I/O. Decide nothing from them."""
        sides = self._read_lock.statistics(), self._write_lock.statistics()
        return PrimitiveStatistics(
            waiters=sum(side.waiters for side in sides),
            held_leases=sum(side.held_leases for side in sides),
        )
