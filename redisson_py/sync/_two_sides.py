"""The base of read-write locks.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from redisson_py import PrimitiveStatistics
from redisson_py._keys import Name
from redisson_py.sync._lock_like import LockLike
from redisson_py.sync._wrapping import Wrapper

Read = TypeVar("Read", bound=LockLike)
Write = TypeVar("Write", bound=LockLike)


class TwoSides(Wrapper, Generic[Read, Write]):
    """Base of read-write locks: a read side and a write side with one name."""

    _read_kind: type[Read]
    _write_kind: type[Write]

    @property
    def name(self) -> Name:
        """The resource name, as given."""
        value: Name = self._shape.name
        return value

    @property
    def key(self) -> bytes:
        """The key on the server."""
        value: bytes = self._shape.key
        return value

    def read_lock(self) -> Read:
        """Return the side that any number of threads hold together."""
        return self._read_kind(lambda of: of(self).read_lock())

    def write_lock(self) -> Write:
        """Return the side that one thread holds alone."""
        return self._write_kind(lambda of: of(self).write_lock())

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for both sides together. No I/O. Decide nothing from them."""
        value: PrimitiveStatistics = self._look(lambda own: own.statistics())
        return value

    if not TYPE_CHECKING:

        def __enter__(self, *_: object) -> NoReturn:
            raise TypeError(
                f"{type(self).__name__} is not a context manager: write"
                " `with lock.read_lock():` or `with lock.write_lock():`"
            )

        __exit__ = __enter__
