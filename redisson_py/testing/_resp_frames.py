"""Cuts a byte stream into whole RESP frames without interpreting them.

Sans-IO: bytes in, complete frames out. The framer only looks for the end of a frame. Its state
is a scan position and, for every aggregate still open, how many children it misses; a frame
that arrives in a thousand pieces is scanned once, not a thousand times.

An attribute (`|`) comes before the value it describes, so it counts as one more level whose
last child is that value: the two leave as one frame, of the value's kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

_SIMPLE_TYPES: Final = b"+-:_#,("
_BLOBS: Final = b"$!="
_CHILDREN_PER_ITEM: Final = {b"*": 1, b"~": 1, b">": 1, b"%": 2, b"|": 2}
_ATTRIBUTE: Final = "|"
_INLINE: Final = "inline"
_LONGEST_HEAD_BYTES: Final = 64 * 1024  # the servers' own limit for an inline command
_PUBSUB_KINDS: Final = frozenset(
    prefix + verb for prefix in (b"", b"p", b"s") for verb in (b"subscribe", b"unsubscribe")
)
_MESSAGE_KINDS: Final = frozenset({b"message", b"pmessage", b"smessage"})


@final
class FrameError(ValueError):
    """Raised when the stream is not RESP. The framer cannot go on."""


@final
@dataclass(frozen=True, slots=True)
class Frame:
    """One complete RESP value, as on the wire.

    Attributes:
        data: The bytes, with any attributes in front of the value.
        kind: The type byte of the value (`"+"`, `"*"`, `">"`, ...) or `"inline"`.
        value_at: Where in `data` the value starts; zero without attributes.
    """

    data: bytes
    kind: str
    value_at: int = 0

    @property
    def is_push(self) -> bool:
        """Whether this is an out-of-band RESP3 push."""
        return self.kind == ">"

    @property
    def word(self) -> bytes:
        """The first word in lower case: the command's name, or the sort of a pub/sub message."""
        if self.kind == _INLINE:
            return next(iter(self.data.split()), b"").lower()
        if self.kind not in {"*", ">"}:
            return b""
        # header, length of the first item, first item, the rest
        parts = self.data[self.value_at :].split(b"\r\n", 3)
        return parts[2].lower() if len(parts) > 3 and parts[1][:1] == b"$" else b""

    @property
    def items(self) -> int:
        """Number of arguments, including the command's name."""
        if self.kind == _INLINE:
            return len(self.data.split())
        if self.kind not in {"*", ">"}:
            return 1
        header_end = self.data.index(b"\r\n", self.value_at)
        return max(0, int(self.data[self.value_at + 1 : header_end]))

    @property
    def confirms_subscription(self) -> bool:
        """Whether this is the server's answer to (un)subscribing one channel."""
        return self.word in _PUBSUB_KINDS

    @property
    def is_message(self) -> bool:
        """Whether this is a message of pub/sub; in RESP2 it looks like any other array."""
        return self.word in _MESSAGE_KINDS


@final
class RespFramer:
    """Incremental framer for one direction of one connection.

    Handles every type of RESP2 and RESP3 (`+ - : $ * _ # , ( ! = % ~ > |`). Streamed strings
    and aggregates (`$?`, `*?`), which no server sends, are a `FrameError`.
    """

    def __init__(self, *, commands: bool = False) -> None:
        """Make a framer.

        Args:
            commands: Frame what a client sends: arrays and inline commands only.
        """
        self._commands = commands
        self._buffer = bytearray()
        self._scanned = 0
        self._missing: list[int] = []  # children still to come, outermost aggregate first
        self._kind = ""  # of the frame being scanned; empty between frames
        self._value_at = 0

    @property
    def pending(self) -> bytes:
        """The bytes of the incomplete frame."""
        return bytes(self._buffer)

    def feed(self, data: bytes) -> list[Frame]:
        """Take bytes, return the frames they complete.

        Raises:
            FrameError: What follows the last frame is not RESP; `pending` has it. If there were
                frames before it in `data`, they are returned and the next call raises.
        """
        self._buffer += data
        frames: list[Frame] = []
        try:
            while self._scan_one():
                if not self._missing:
                    frames.append(self._take())
        except FrameError:
            if not frames:
                raise
        return frames

    def _take(self) -> Frame:
        frame = Frame(bytes(self._buffer[: self._scanned]), self._kind, self._value_at)
        del self._buffer[: self._scanned]
        self._scanned, self._kind, self._value_at = 0, "", 0
        return frame

    def _scan_one(self) -> bool:
        """Scan one value or one aggregate's header; return False if it is not all there."""
        if self._scanned >= len(self._buffer):
            return False
        marker = bytes(self._buffer[self._scanned : self._scanned + 1])
        if self._commands and not self._missing and marker != b"*":
            return self._scan_inline(marker)
        end = self._buffer.find(b"\r\n", self._scanned)
        if end < 0:
            return self._head_may_still_end()
        if marker in _SIMPLE_TYPES:
            return self._scanned_to(end + 2, marker)
        if marker in _BLOBS:
            return self._scan_blob(marker, end)
        if marker in _CHILDREN_PER_ITEM:
            return self._scan_aggregate(marker, end)
        raise FrameError(f"{marker!r} does not start a RESP value")

    def _scan_inline(self, marker: bytes) -> bool:
        if not (marker.isalpha() or marker.isspace()):
            raise FrameError(f"{marker!r} does not start a command")
        end = self._buffer.find(b"\n", self._scanned)
        if end < 0:
            return self._head_may_still_end()
        self._kind, self._scanned = _INLINE, end + 1
        return True

    def _head_may_still_end(self) -> bool:
        if self._scanned + _LONGEST_HEAD_BYTES < len(self._buffer):
            raise FrameError("a line has no end")
        return False

    def _scan_blob(self, marker: bytes, end: int) -> bool:
        length = self._count(end)
        stop = end + 2 if length < 0 else end + 2 + length + 2
        return stop <= len(self._buffer) and self._scanned_to(stop, marker)

    def _scan_aggregate(self, marker: bytes, end: int) -> bool:
        children = max(0, self._count(end)) * _CHILDREN_PER_ITEM[marker]
        if marker == b"|":
            children += 1  # the value it describes
        if not children:
            return self._scanned_to(end + 2, marker)
        self._note_kind(marker)
        self._scanned = end + 2
        self._missing.append(children)
        return True

    def _count(self, end: int) -> int:
        digits = bytes(self._buffer[self._scanned + 1 : end])
        if digits != b"-1" and not digits.isdigit():
            raise FrameError(f"{digits!r} is not a length")
        return int(digits)

    def _scanned_to(self, stop: int, marker: bytes) -> bool:
        """Note the end of a complete value, and of the aggregates that end with it."""
        self._note_kind(marker)
        self._scanned = stop
        while self._missing:
            self._missing[-1] -= 1
            if self._missing[-1]:
                break
            self._missing.pop()
        return True

    def _note_kind(self, marker: bytes) -> None:
        # The value an attribute describes is the last child of every level above it.
        described = self._kind == _ATTRIBUTE and all(left == 1 for left in self._missing)
        if not self._kind or described:
            self._kind, self._value_at = marker.decode(), self._scanned
