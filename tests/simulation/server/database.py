"""One numbered database: keys, their values and when they expire."""

from __future__ import annotations

from typing import TypeVar

from tests.simulation.server.channels import Channels
from tests.simulation.server.replies import WRONG_TYPE, ErrorReply
from tests.simulation.server.sorted_set import SortedSet


class Hash(dict[bytes, bytes]):
    """Fields and their values, in the order in which they came."""


class List(list[bytes]):
    """Items, first to last."""


#: A string, or something with entries.
Value = bytes | Hash | List | SortedSet
Found = TypeVar("Found", bytes, Hash, List, SortedSet)


class Database:
    """The keys of one database, seen at the moment of one command or script.

    A key that has expired is removed by the first look at it, and never seen. A hash, a list and
    a sorted set go with their last entry: who removes an entry calls `tidy`.

    Args:
        channels: What is published goes to these.

    Attributes:
        now_us: The server's clock in microseconds; it stands still while a script runs.
        now_ms: The same in milliseconds.
    """

    def __init__(self, channels: Channels) -> None:
        self.channels = channels
        self.now_us = self.now_ms = 0
        self._values: dict[bytes, Value] = {}
        self._ends: dict[bytes, int] = {}

    def at(self, now_us: int) -> None:
        """Begin a command at this moment of the server's clock."""
        self.now_us, self.now_ms = now_us, now_us // 1000

    def find(self, key: bytes) -> Value | None:
        """Return the value of a key; None if there is none, or no longer."""
        value = self._values.get(key)
        if value is not None and key in self._ends and self.now_ms > self._ends[key]:
            self.delete(key)
            return None
        return value

    def typed(self, key: bytes, kind: type[Found]) -> Found | None:
        """Return the value of a key, if it has one."""
        value = self.find(key)
        if value is None or type(value) is kind:
            return value
        raise ErrorReply(WRONG_TYPE)

    def made(self, key: bytes, kind: type[Found]) -> Found:
        """Return the value of a key, which is empty and there from now on if there was none."""
        value = self.typed(key, kind)
        if value is None:
            value = kind()
            self._values[key] = value
        return value

    def put(self, key: bytes, value: bytes) -> None:
        """Set a string; when it expires stays as it is."""
        self._values[key] = value

    def tidy(self, key: bytes) -> None:
        """Remove a key whose last entry is gone."""
        value = self._values.get(key)
        if value is not None and type(value) is not bytes and len(value) == 0:
            self.delete(key)

    def delete(self, key: bytes) -> None:
        """Remove a key that is there."""
        del self._values[key]
        self._ends.pop(key, None)

    def clear(self) -> None:
        """Remove all keys."""
        self._values.clear()
        self._ends.clear()

    def expire(self, key: bytes, at_ms: int) -> None:
        """Have a key that is there expire after this moment: at once, if it is not to come."""
        if at_ms <= self.now_ms:
            self.delete(key)
        else:
            self._ends[key] = at_ms

    def persist(self, key: bytes) -> bool:
        """Have a key never expire; return whether it would have."""
        return self._ends.pop(key, None) is not None

    def left_ms(self, key: bytes) -> int:
        """Return for how many milliseconds a key is there: -1 for ever, -2 if it is not."""
        if self.find(key) is None:
            return -2
        return self._ends[key] - self.now_ms if key in self._ends else -1

    def keys(self) -> list[bytes]:
        """Return the keys that are there, in the order in which they came."""
        return [key for key in [*self._values] if self.find(key) is not None]
