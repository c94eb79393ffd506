"""Bounds on what a server may send, so that none can take memory without end.

hiredis makes room for all elements of an array as soon as it has read their number: the bytes
`>2147483647` cost sixteen gigabytes, and so do two thousand `>999999`, each inside the one before.
It also collects a reply for as long as more of it comes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

#: The most bytes of one reply. The largest that is needed is the map of a cluster in which no two
#: neighbouring slots are on one node: about 5 MB.
MOST_REPLY_BYTES = 1 << 24

#: The most elements of all arrays of one reply that have 10,000 or more each. Smaller ones are not
#: counted: hiredis refuses them when some hundred are inside each other.
MOST_ELEMENTS = 1_000_000

#: The most bytes of a line whose end has not come. What may be longer is a text, whose length comes
#: first.
MOST_UNENDED_BYTES = 1 << 16

#: What a line begins with. Anything else is passed on at once, for the reader to refuse.
_TYPES = b"+-:,_#($=*%~>|"

#: The most bytes of a line that an error shows.
_SHOWN_BYTES = 60

#: What may begin an array of 10,000 elements or more, or a push of -1 elements, which hiredis takes
#: for nil.
_MAYBE_HUGE = re.compile(rb"[*%~>|](?:\d{5}|(?<!\*)-)")

#: Lines of that many bytes together begin none: most replies, which are nil or one digit.
NEVER_HUGE_BYTES = 4

#: The same, only where an array can begin: at the start of what comes, or after a line.
_BEGIN = re.compile(rb"(?:\A|\r\n)(?:[*%~>|](?:\d{7}|(?P<number>\d{5,6}))|[%~>|]-)")


class TooLargeError(Exception):
    """Raised when a reply is larger than any that is asked for."""


def maybe_huge(data: bytes) -> bool:
    """Return whether a huge array may begin in what came."""
    # Most of what comes has no array: to look for five bytes costs less than an expression.
    return (
        b"*" in data or b">" in data or b"%" in data or b"~" in data or b"|" in data
    ) and _MAYBE_HUGE.search(data) is not None


class Pieces:
    """Cuts what comes at the ends of lines, and where a huge array begins.

    A reader that is given a part of a line searches all of it for its end each time that more
    comes: 16 MB in pieces of 16 kB cost seconds. So a reader is given no line before its end.

    Args:
        is_inside: Returns whether the reader is inside a text, in which anything may stand.

    Attributes:
        cut: What came after the end of the last line, and is not passed on yet.
    """

    def __init__(self, is_inside: Callable[[], bool]) -> None:
        self._is_inside = is_inside
        self._elements = 0
        self.cut: bytearray = bytearray()

    def of(self, data: bytes, *, goes_on: bool) -> Iterator[bytes]:
        """Yield the lines that are complete, in pieces each of which is to be read before the next.

        Args:
            data: What came.
            goes_on: No reply was complete in what came before it.

        Raises:
            TooLargeError: More than `MOST_ELEMENTS` elements begin there, or fewer than none, or
                more than `MOST_UNENDED_BYTES` bytes came of a line.
        """
        if not goes_on:
            self._elements = 0
        cut = self.cut
        searched = max(0, len(cut) - 1)
        cut += data
        end = cut.rfind(b"\r\n", searched) + 2
        if end > 1:
            complete = bytes(cut[:end])
            del cut[:end]
            yield from self._of_complete(complete)
        if not cut or self._is_inside():
            return
        if cut[0] not in _TYPES:
            yield bytes(cut)
            cut.clear()
        elif len(cut) > MOST_UNENDED_BYTES:
            begin = bytes(cut[:_SHOWN_BYTES])
            raise TooLargeError(
                f"a line of more than {MOST_UNENDED_BYTES} bytes that begins with {begin!r}"
            )

    def _of_complete(self, complete: bytes) -> Iterator[bytes]:
        start = 0
        for found in _BEGIN.finditer(complete) if maybe_huge(complete) else ():
            begin = found.start() + len(found[0]) - len(found[0].lstrip())
            if begin > start:
                yield complete[start:begin]
                start = begin
            if not self._is_inside():
                # Where no number of five or six digits stands, it is larger, or negative.
                self._elements += int(found["number"] or MOST_ELEMENTS + 1)
                if self._elements > MOST_ELEMENTS:
                    raise TooLargeError(f"more than {MOST_ELEMENTS} elements")
        yield complete[start:]


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
        if self._unread > MOST_REPLY_BYTES:
            raise TooLargeError(f"a reply of more than {MOST_REPLY_BYTES} bytes")
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
