"""Says who may be inside together, for the mixed crowd, and counts how often that changes hands.

The resource is one number, here and not in Redis. A worker has a connection of its own, tells
one line a step and waits for the answer before it goes on:

    hello LANGUAGE PROCESS   who it is          -> ok, when all workers are there
    enter MODE [TOKEN]       it has the lock and goes in              -> the number
    leave NUMBER             it goes out, and gives back the lock after it -> ok, or closed
    rest                     it comes again after another one only -> ok, when one has come

MODE says with whom it can be inside: `alone` with nobody, `shared` with others that are shared,
`permit` with as many as there are permits. Who is alone leaves the number one greater. A worker
whose connection breaks inside is out at once: its process is dead. Parties of a latch tell

    arrive ROUND             before they count down                        -> ok
    pass ROUND               after they have waited                        -> ok
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

from tests.support.waiting import until


class Inside(NamedTuple):
    """A section under way."""

    mode: str
    value: int


class Referee:
    """Keeps the number, and serves workers on a port of the loopback interface.

    Attributes:
        faults: What was against the rules, in words.
        value: The number.
        sections: How many sections each process has begun.
        crossed: How often the one who went in was of another language than the one before.
        changed: How often it was another worker.
        together: The most that were inside at once.
        mixed: How often somebody came to one of another language who was inside.
        deaths: How many sections were ended by the death of their process.
        closed: Workers are told to come no more.
        on_step: Called with the process and the first word of every step, before the answer.

    Args:
        workers: How many workers there will be; they begin together.
        permits: How many of them can have one at once.
        pauses: One of these, in seconds, every section lasts at least.
    """

    def __init__(self, workers: int, permits: int = 0, pauses: Sequence[float] = (0,)) -> None:
        self.faults: list[str] = []
        self.value = 0
        self.sections: Counter[str] = Counter()
        self.crossed = self.changed = self.together = self.mixed = self.deaths = 0
        self.closed = False
        self.on_step: Callable[[str, str], object] | None = None
        self._expected = workers
        self._permits = permits
        self.pauses = pauses
        self._inside: dict[Worker, Inside] = {}
        self._last: Worker | None = None
        self._token = 0
        self._arrived: Counter[str] = Counter()
        self._workers: set[Worker] = set()
        self._greeted: list[Worker] = []
        self._resting: list[Worker] = []

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Worker(self), "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for worker in self._workers:
            worker.transport.abort()
        await until(lambda: not self._workers)

    def connected(self, worker: Worker) -> None:
        """A worker has come."""
        self._workers.add(worker)

    def gone(self, worker: Worker) -> None:
        """A worker has ended, or is dead."""
        self._workers.discard(worker)
        self.deaths += self._inside.pop(worker, None) is not None
        self._wake()

    def answer(self, worker: Worker, row: str) -> str | None:
        """Judge a step; return what to tell the worker now."""
        match row.split():
            case ["hello", language, process]:
                worker.language, worker.process = language, process
                self._greeted.append(worker)
                if len(self._greeted) == self._expected:
                    for each in self._greeted:
                        each.tell("ok")
                return None
            case ["enter", mode, *token]:
                return self._enter(worker, mode, token)
            case ["leave", number]:
                return self._leave(worker, int(number))
            case ["rest"]:
                if self._last is not worker or len(self._workers) == 1:
                    return "ok"
                self._resting.append(worker)
                return None
            case ["arrive", number]:
                self._arrived[number] += 1
                return "ok"
            case ["pass", number]:
                self._count(worker)
                if self._arrived[number] != self._expected:
                    self._fault(
                        worker, f"passed round {number}: {self._arrived[number]} were there"
                    )
                return "ok"
        raise ValueError(f"not a step of a section: {row!r}")

    def _enter(self, worker: Worker, mode: str, token: list[str]) -> str:
        others = [section.mode for section in self._inside.values()]
        if mode == "permit":
            allowed = others.count("permit") == len(others) < self._permits
        else:
            allowed = not others or (mode == "shared" and "alone" not in others)
        if not allowed:
            self._fault(worker, f"{mode}, came in to {others}")
        if token:
            if int(token[0]) <= self._token:
                self._fault(worker, f"came with token {token[0]} after {self._token}")
            self._token = int(token[0])
        self.mixed += any(other.language != worker.language for other in self._inside)
        self._inside[worker] = Inside(mode, self.value)
        self.together = max(self.together, len(self._inside))
        self._count(worker)
        return str(self.value)

    def _leave(self, worker: Worker, number: int) -> str:
        section = self._inside.pop(worker)
        if section.mode == "alone":
            if number != self.value + 1:
                self._fault(worker, f"makes it {number}, but it is {self.value}")
            self.value = number
        return "closed" if self.closed else "ok"

    def _count(self, worker: Worker) -> None:
        self.sections[worker.process] += 1
        if self._last is not None:
            self.changed += self._last is not worker
            self.crossed += self._last.language != worker.language
        self._last = worker
        self._wake()

    def _wake(self) -> None:
        """Tell those who rest that another one has come, or will not."""
        resting, self._resting = self._resting, []
        for worker in resting:
            worker.tell("ok")

    def _fault(self, worker: Worker, what: str) -> None:
        self.faults.append(f"{worker.language} {worker.process} {what}")


class Worker(asyncio.Protocol):
    """The connection of a worker; it asks one question at a time."""

    transport: asyncio.Transport
    language = process = ""

    def __init__(self, referee: Referee) -> None:
        self._referee = referee
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not an isinstance check: uvloop's transports have no base class in asyncio.
        self.transport = transport  # type: ignore[assignment]
        self._referee.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._referee.gone(self)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._received.endswith(b"\n"):
            return
        row, self._received = self._received.decode(), b""
        reply = self._referee.answer(self, row)
        if self._referee.on_step is not None:
            self._referee.on_step(self.process, row.split()[0])
        if reply is not None and row.startswith("enter"):
            pause = random.choice(self._referee.pauses)
            asyncio.get_running_loop().call_later(pause, self.tell, reply)
        elif reply is not None:
            self.tell(reply)

    def tell(self, words: str) -> None:
        """Answer the last step, if the worker still lives."""
        self.transport.write(words.encode() + b"\n")
