"""Bounds on what a server may send, so that none can take memory without end.

hiredis makes room for all elements of an array as soon as it has read their number: the bytes
`>2147483647` cost sixteen gigabytes, and so do two thousand `>999999`, each inside the one before.
It also collects a reply for as long as more of it comes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from re import Match
from typing import Any

#: The most bytes of one reply. The largest that is needed is the map of a cluster in which no two
#: neighbouring slots are on one node: about 5 MB.
MOST_BYTES = 1 << 24

#: The most elements of all arrays of one reply that have 10,000 or more each. Smaller ones are not
#: counted: hiredis refuses them when some hundred are inside each other.
MOST_ELEMENTS = 1_000_000

#: Finds what may begin an array of 10,000 elements or more, or may do so once the rest of the
#: number has come, or a push of -1 elements, which hiredis takes for nil. Nearly all chunks have
#: none of these.
maybe_huge: Callable[[bytes], Match[bytes] | None] = re.compile(
    rb"[*%~>|](?:\d{5}|\d{0,4}\Z)|[%~>|]-"
).search

#: The same, only where an array can begin: at the start of a chunk, or after a line.
_BEGIN = re.compile(
    rb"(?:\A\n?|\r\n)"
    rb"(?:[*%~>|](?:\d{7}|(?P<cut>\d{0,6}\Z)|(?P<number>\d{5,6}))|[%~>|]-)"
)


class TooLargeError(Exception):
    """Raised when a reply is larger than any that is asked for."""


class Pieces:
    """Cuts what comes so that a reader never reads the number of a huge array.

    Args:
        is_inside: Returns whether the reader is inside a text, in which anything may stand.

    Attributes:
        cut: The beginning of an array whose number is not complete yet, and not passed on.
    """

    def __init__(self, is_inside: Callable[[], bool]) -> None:
        self._is_inside = is_inside
        self._elements = 0
        self.cut: bytes = b""

    def of(self, data: bytes, *, goes_on: bool) -> Iterator[bytes]:
        """Yield what came, in pieces each of which is to be read before the next.

        Args:
            data: What came.
            goes_on: No reply was complete in what came before it.

        Raises:
            TooLargeError: More than `MOST_ELEMENTS` elements begin there, or fewer than none.
        """
        if not goes_on:
            self._elements = 0
        data, self.cut = self.cut + data, b""
        start = 0
        for found in _BEGIN.finditer(data):
            begin = found.start() + len(found[0]) - len(found[0].lstrip())
            if begin > start:
                yield data[start:begin]
                start = begin
            if found["cut"] is not None:
                self.cut = data[begin:]
                return
            if not self._is_inside():
                # Where no number of five or six digits stands, it is larger, or negative.
                self._elements += int(found["number"] or MOST_ELEMENTS + 1)
                if self._elements > MOST_ELEMENTS:
                    raise TooLargeError("a number of elements that no reply has")
        if start < len(data):
            yield data[start:]


class BoundedReader:
    """A reader of hiredis for single questions; what is too large raises `TooLargeError`.

    Args:
        reader: The reader.
        nothing: What it returns while a reply is not complete.
    """

    def __init__(self, reader: Any, nothing: object) -> None:
        self._reader = reader
        self._nothing = nothing
        self._pieces = Pieces(reader.has_data)
        self._waiting: list[Iterator[bytes]] = []
        self._unread = 0

    def feed(self, data: bytes) -> None:
        """Take what came."""
        goes_on = self._unread > 0
        self._unread += len(data)
        if self._unread > MOST_BYTES:
            raise TooLargeError(f"a reply of more than {MOST_BYTES} bytes")
        self._waiting.append(self._pieces.of(data, goes_on=goes_on))

    def gets(self, *args: Any) -> Any:
        """Return the next reply, if there is one."""
        while (reply := self._reader.gets(*args)) is self._nothing:
            piece = next(self._waiting[0], None) if self._waiting else None
            if piece is not None:
                self._reader.feed(piece)
            elif self._waiting:
                del self._waiting[0]
            else:
                return reply
        self._unread = 0
        return reply

    def has_data(self) -> bool:
        """Return whether there is something that was not read."""
        return bool(self._waiting or self._pieces.cut or self._reader.has_data())
