"""One direction of a proxied connection: from a reader, through the faults, to a writer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, final

Direction = Literal["up", "down"]
END: Final = b""
CUT: Final[None] = None
_CHUNK: Final = 256 * 1024


@final
@dataclass(slots=True)
class Traffic:
    """Traffic in one direction, over all connections so far.

    Attributes:
        bytes_in: Bytes received.
        chunks: Number of reads; about the number of writes of the sending side.
        frames: Commands (up) or replies and pushes (down) received whole.
        bytes_out: Bytes passed on.
        writes: Number of writes.
    """

    bytes_in: int = 0
    chunks: int = 0
    frames: int = 0
    bytes_out: int = 0
    writes: int = 0


@final
@dataclass(slots=True)
class Pace:
    """How slowly one direction passes on what it has.

    Attributes:
        delay: Seconds every chunk is late.
        piece: Bytes to write at a time; zero for all.
        gap: Seconds between two pieces.
    """

    delay: float = 0.0
    piece: int = 0
    gap: float = 0.0


@final
class Lane:
    """Reads chunks, and writes what it is given, in order and at a given pace.

    Reading and writing are separate so that a delay is latency, not a lower throughput.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        pace: Pace,
        traffic: Traffic,
        cut: Callable[[], object],
    ) -> None:
        """Join a reader to the other side's writer.

        Args:
            reader: Where the bytes come from.
            writer: Where they go.
            pace: How slowly; may change at any time.
            traffic: What to count in.
            cut: How to end the whole connection.
        """
        self._reader = reader
        self._writer = writer
        self._pace = pace
        self._traffic = traffic
        self._cut = cut
        self._queue: asyncio.Queue[tuple[float, bytes | None]] = asyncio.Queue()

    def put(self, data: bytes | None) -> None:
        """Pass on `data` when the pace allows; `END` ends the stream, `CUT` the connection."""
        due = asyncio.get_running_loop().time() + self._pace.delay
        self._queue.put_nowait((due, data))

    async def read(self, receive: Callable[[bytes], None]) -> None:
        """Give every chunk to `receive`, and `END` at the end, however it comes."""
        chunk = b"?"
        while chunk:
            try:
                chunk = await self._reader.read(_CHUNK)
            except OSError:
                chunk = END
            if chunk:
                self._traffic.bytes_in += len(chunk)
                self._traffic.chunks += 1
            receive(chunk)

    async def write(self) -> None:
        """Write what was put, until its end."""
        while True:
            due, data = await self._queue.get()
            left = due - asyncio.get_running_loop().time()
            if left > 0:
                await asyncio.sleep(left)
            if data is None:
                self._cut()
                return
            # A side that is gone takes no more; the end of the other side is still to be passed on.
            with contextlib.suppress(OSError):
                await self._write_in_pieces(data)
            if data == END:
                return

    async def _write_in_pieces(self, data: bytes) -> None:
        if data == END and not self._writer.is_closing():
            self._writer.write_eof()
        while data and not self._writer.is_closing():
            piece = self._pace.piece or len(data)
            self._writer.write(data[:piece])
            self._traffic.writes += 1
            self._traffic.bytes_out += len(data[:piece])
            data = data[piece:]
            await self._writer.drain()
            if data:
                await asyncio.sleep(self._pace.gap)
