"""One direction of a connection: what is put in comes out later, in order."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.loop import SimulatedLoop


@dataclass
class Road:
    """What happens to everything that travels in one direction between a host and a server.

    Attributes:
        delay: The least seconds that a chunk takes.
        spread: How many more it takes, at most, for nearly all of them.
        tail: How many it takes in rare cases.
        closed: Nothing arrives; it does when the road is open again, as TCP sends again.
        piece: Chunks arrive in pieces of so many bytes; 0: whole.
    """

    chance: random.Random
    delay: float = 0.0001
    spread: float = 0.0004
    tail: float = 0.02
    closed: bool = False
    piece: int = 0
    stalled: list[Pipe] = field(default_factory=list)

    def draw(self) -> float:
        """Return how long the next chunk takes."""
        draw = self.chance.random()
        if draw > 0.98:
            return self.delay + self.tail * self.chance.random()
        return self.delay + self.spread * draw

    def close(self) -> None:
        """Let nothing arrive any more."""
        self.closed = True

    def open(self) -> None:
        """Let everything arrive, also what was sent meanwhile."""
        self.closed = False
        stalled, self.stalled = self.stalled, []
        for pipe in stalled:
            pipe.resume()


class Pipe:
    """Chunks on their way, each behind the one before.

    Args:
        loop: Its time.
        road: What it belongs to.
        arrive: Called with each chunk when it comes out.
    """

    def __init__(self, loop: SimulatedLoop, road: Road, arrive: Callable[[object], None]) -> None:
        self._loop = loop
        self._road = road
        self._arrive = arrive
        self._chunks: deque[tuple[float, object]] = deque()
        self._last = 0.0

    @property
    def empty(self) -> bool:
        """Whether nothing is on its way."""
        return not self._chunks

    def put(self, chunk: object) -> None:
        """Send a chunk."""
        piece = self._road.piece
        if piece and isinstance(chunk, bytes):
            for start in range(0, len(chunk), piece):
                self._send(chunk[start : start + piece])
        else:
            self._send(chunk)

    def drop(self) -> None:
        """Lose what is on its way."""
        if self._chunks:
            first = self._chunks[0][0]
            self._chunks.clear()
            # The event of the first one is still to come.
            self._chunks.append((first, b""))

    def hold_up(self, seconds: float) -> None:
        """Have everything that is on its way take longer."""
        self._chunks = deque((when + seconds, chunk) for when, chunk in self._chunks)
        self._last += seconds

    def resume(self) -> None:
        """Go on after the road was closed."""
        self._loop.at(self._loop.time() + self._road.draw(), self._first_is_due)

    def _send(self, chunk: object) -> None:
        self._last = max(self._last, self._loop.time() + self._road.draw())
        self._chunks.append((self._last, chunk))
        if len(self._chunks) == 1:
            self._loop.at(self._last, self._first_is_due)

    def _first_is_due(self) -> None:
        when, chunk = self._chunks[0]
        if self._road.closed:
            self._road.stalled.append(self)
            return
        if when > self._loop.time():
            self._loop.at(when, self._first_is_due)
            return
        self._chunks.popleft()
        if self._chunks:
            self._loop.at(max(self._chunks[0][0], self._loop.time()), self._first_is_due)
        self._arrive(chunk)
