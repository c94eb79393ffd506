"""One proxied connection: two lanes, and what the current faults do to their frames.

Faults work on whole frames. Bytes of an incomplete frame wait in the framer, so a connection
is never left in the middle of a command and goes on cleanly once the fault is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, final

from ._lane import CUT, END, Direction, Lane, Pace, Traffic
from ._resp_frames import Frame, FrameError, RespFramer
from ._rules import Correspondence, Rule

_LINGER_NOT: Final = struct.pack("ii", 1, 0)


@final
@dataclass(slots=True)
class Faults:
    """What is wrong with the network at the moment; the connections only read it.

    Attributes:
        swallowed: Directions in which everything disappears.
        holding: Whether commands are kept back.
        rules: What to do to the replies of some commands.
        pace: How slow each direction is.
    """

    swallowed: frozenset[Direction] = frozenset()
    holding: bool = False
    rules: list[Rule] = field(default_factory=list[Rule])
    pace: dict[Direction, Pace] = field(default_factory=lambda: {"up": Pace(), "down": Pace()})


@final
@dataclass(slots=True)
class Book:
    """What the connections report to the proxy.

    Attributes:
        traffic: Counters of each direction.
        triggered: Replies spoilt by rules.
        changed: Called after anything that somebody may wait for.
    """

    changed: Callable[[], object]
    traffic: dict[Direction, Traffic] = field(
        default_factory=lambda: {"up": Traffic(), "down": Traffic()}
    )
    triggered: int = 0


@final
class Link:
    """A client's connection and ours to the server."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        faults: Faults,
        book: Book,
        *,
        raw: bool,
    ) -> None:
        """Take over a client's connection; nothing is read before `start`."""
        self._client: Final = (reader, writer)
        self._writers: Final = [writer]
        self._faults: Final = faults
        self._book: Final = book
        self._framers: Final[dict[Direction, RespFramer]] = {
            "up": RespFramer(commands=True),
            "down": RespFramer(),
        }
        self._lanes: Final[dict[Direction, Lane]] = {}
        self._replies: Final = Correspondence()
        self._held: Final[list[Frame | None]] = []  # None is the end of the stream
        self._lost_ends: Final[set[Direction]] = set()
        self._task: asyncio.Task[None] | None = None
        self._raw = raw  # not RESP: no frames, no rules
        self._cut = False  # nothing more is taken; what is queued before the cut still goes
        self._broken = False

    @property
    def broken(self) -> bool:
        """Whether `reset` has been called, by the proxy or by a rule."""
        return self._broken

    @property
    def held(self) -> int:
        """How many commands are kept back."""
        return sum(frame is not None for frame in self._held)

    def start(self, host: str, port: int) -> asyncio.Task[None]:
        """Connect to the server and pass on, until both sides have ended."""
        self._task = asyncio.create_task(self._run(host, port), name="fault proxy connection")
        return self._task

    def reset(self) -> None:
        """Break both connections (RST) and drop what is under way."""
        if self._broken:
            return
        self._abort()
        if self._task is not None:
            self._task.cancel()

    def release(self) -> None:
        """Send the commands kept back, in one write."""
        held, self._held[:] = list(self._held), []
        self._send_up([frame for frame in held if frame is not None])
        if None in held:
            self._lanes["up"].put(END)

    def heal(self) -> None:
        """Pass on the ends of streams that were swallowed, where that is over."""
        for direction in self._lost_ends - self._faults.swallowed:
            self._lost_ends.discard(direction)
            self._lanes[direction].put(END)

    async def _run(self, host: str, port: int) -> None:
        try:
            reader, writer = await asyncio.open_connection(host, port)
        except OSError:
            self._abort()  # a client sees a server that is not there as a broken connection
            return
        self._writers.append(writer)
        self._lanes["up"] = self._lane("up", self._client[0], writer)
        self._lanes["down"] = self._lane("down", reader, self._client[1])
        try:
            async with asyncio.TaskGroup() as tasks:
                for direction, lane in self._lanes.items():
                    tasks.create_task(lane.read(self._receiver(direction)))
                    tasks.create_task(lane.write())
        finally:
            for writer in self._writers:
                writer.close()
            # asyncio logs errors of connections that nobody awaits, so all are awaited.
            await asyncio.gather(*map(_closed, self._writers))

    def _abort(self) -> None:
        self._cut = self._broken = True
        for writer in self._writers:
            abort(writer)

    def _lane(
        self, direction: Direction, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Lane:
        traffic = self._book.traffic[direction]
        return Lane(reader, writer, self._faults.pace[direction], traffic, self.reset)

    def _receiver(self, direction: Direction) -> Callable[[bytes], None]:
        take = self._take_up if direction == "up" else self._take_down

        def receive(chunk: bytes) -> None:
            if self._cut:
                return
            if chunk:
                frames = self._frames(direction, chunk)
                self._book.traffic[direction].frames += len(frames)
                take(frames)
            else:
                self._end(direction)
            self._book.changed()

        return receive

    def _frames(self, direction: Direction, chunk: bytes) -> list[Frame]:
        if not self._raw:
            try:
                return self._framers[direction].feed(chunk)
            except FrameError:
                self._raw = True
                chunk = self._framers[direction].pending
                other: Direction = "down" if direction == "up" else "up"
                if begun := self._framers[other].pending:
                    self._lanes[other].put(begun)
        return [Frame(chunk, "raw")]

    def _take_up(self, frames: list[Frame]) -> None:
        if "up" in self._faults.swallowed:
            return
        if self._faults.holding:
            self._held[len(self._held) :] = frames
        else:
            self._send_up(frames)

    def _send_up(self, frames: list[Frame]) -> None:
        if not self._raw:
            for frame in frames:
                self._replies.ask(frame, self._faults.rules)
        if frames:
            self._lanes["up"].put(b"".join(frame.data for frame in frames))

    def _take_down(self, frames: list[Frame]) -> None:
        passed: list[bytes] = []
        for frame in frames:
            verdict, ended = ("forward", True) if self._raw else self._replies.answer(frame)
            if verdict == "cut" or (verdict == "swallow" and ended):
                self._book.triggered += 1
            if verdict == "cut":
                self._cut = True
                break
            if verdict == "forward" and "down" not in self._faults.swallowed:
                passed.append(frame.data)
        if passed:
            self._lanes["down"].put(b"".join(passed))
        if self._cut:
            # In the queue, so that the replies before it still arrive.
            self._lanes["down"].put(CUT)

    def _end(self, direction: Direction) -> None:
        if direction in self._faults.swallowed:
            self._lost_ends.add(direction)
        elif direction == "up" and self._faults.holding:
            self._held.append(None)
        else:
            self._lanes[direction].put(END)


async def _closed(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def abort(writer: asyncio.StreamWriter) -> None:
    """Close a connection at once, so that the other side sees a reset."""
    connection = writer.get_extra_info("socket")
    # uvloop has no socket to show any more once the connection is closed; asyncio raises.
    with contextlib.suppress(OSError, AttributeError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
    writer.transport.abort()
