"""What a store remembers of names and owners for some time, and no more than it may."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

MOST = 10_000


class Remembered(OrderedDict[K, V]):
    """A dictionary that forgets the oldest entry when there are more than `MOST`."""

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        if len(self) > MOST:
            self.popitem(last=False)
