"""The worker processes of one run, and whose turn it is among them."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.harness import Table
from benchmarks.rivals import ON_STORES, OURS, OURS_UNSYNCED, OURS_UVLOOP, SIDES, Entry
from benchmarks.rivals.side import CannotError
from benchmarks.sizes import Size

_Any = TypeVar("_Any")

_ROOT = Path(__file__).parents[1]

_ENTRIES: dict[str, Entry] = dict(SIDES)
for _sides in ON_STORES.values():
    _ENTRIES |= _sides

#: Longest answer in bytes: a round's sections, one by one.
LONGEST = 1 << 28


class Worker:
    """One side in a process of its own (`worker.py`)."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def do(self, job: str, **arguments: Any) -> Any:
        """Have it do a job; return the result.

        Raises:
            CannotError: Its side cannot do this.
            RuntimeError: It died; its traceback is on stderr.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"job": job, **arguments}).encode() + b"\n")
        return await self.hear()

    async def hear(self) -> Any:
        """Return what it says next; errors as for `do`."""
        assert self._process.stdout is not None
        row = await self._process.stdout.readline()
        if not row:
            raise RuntimeError("a worker died; see its traceback above")
        heard = json.loads(row)
        if "cannot" in heard:
            raise CannotError(heard["cannot"])
        return heard["result"]

    async def end(self) -> None:
        """Have it disconnect and exit."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(10):
                await self._process.wait()
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """End it at once; what it holds stays held until its lease is over."""
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


async def start_worker(side: str, url: str) -> Worker:
    """Start a worker and wait until it is connected.

    Raises:
        CannotError: The side does not run here; the message says why.
    """
    entry = _ENTRIES[side]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.worker", entry.source, entry.loop, url),
        stdin=PIPE,
        stdout=PIPE,
        cwd=_ROOT,
        limit=LONGEST,
    )
    one = Worker(process)
    try:
        await one.hear()
    except BaseException:
        await one.kill()
        raise
    return one


@asynccontextmanager
async def worker(side: str, url: str) -> AsyncGenerator[Worker]:
    """Run a worker for the time of a block, and kill it: what it holds stays held."""
    one = await start_worker(side, url)
    try:
        yield one
    finally:
        await one.kill()


@dataclass
class Bench:
    """One run: its server, its size, and the workers of every side.

    Attributes:
        url: The server's address.
        kind: Which server, for scenarios that need one of their own.
        size: How much to measure.
        chosen: The sides that may take part.
        workers: Of each side that can take part, one or more.
        absent: The sides that cannot, with the reason.
        cold: The sides that were still getting faster when their time to warm up was over.
    """

    url: str
    kind: str | None
    size: Size
    chosen: list[str]
    workers: dict[str, list[Worker]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    cold: set[str] = field(default_factory=set)

    @asynccontextmanager
    async def crew(self, numbers: dict[str, int]) -> AsyncGenerator[None]:
        """Run so many workers of each side for the time of a block."""

        async def start(side: str, number: int) -> None:
            for _ in range(number):
                try:
                    one = await start_worker(side, self.url)
                except CannotError as reason:
                    self.absent[side] = str(reason)
                    return
                self.workers.setdefault(side, []).append(one)

        try:
            async with asyncio.TaskGroup() as starting:
                for side, number in numbers.items():
                    starting.create_task(start(side, number))
            # One after the other: a compiler at run time wants a processor of its own.
            for side, some in self.workers.items():
                for one in some:
                    if not await one.do("warm_up", seconds=self.size.warm_up):
                        self.cold.add(side)
            yield
        finally:
            await asyncio.gather(*[one.end() for some in self.workers.values() for one in some])

    def has(self, side: str) -> bool:
        """Whether a side may take part; what is ours always does, on a loop that does."""
        return (OURS if side == OURS_UNSYNCED else side) in self.chosen

    @property
    def ours(self) -> str:
        """The side that is ours, on asyncio if that takes part."""
        return OURS if OURS in self.workers else OURS_UVLOOP

    def sides(self, table: Table, *wanted: str) -> list[str]:
        """Return those of `wanted` that take part, in order; note what a reader must know."""
        table.absent |= {side: self.absent[side] for side in wanted if side in self.absent}
        table.notes += [
            f"{side}: was still getting faster after {self.size.warm_up:g} s of warming up."
            for side in wanted
            if side in self.cold
        ]
        return [side for side in wanted if side in self.workers]

    def alternation(self, sides: Iterable[str]) -> Iterator[str]:
        """Yield whose turn it is: all in every round, so that noise hits all alike."""
        for done, side in alternately(sides, self.size.rounds):
            if SIDES[side].counts or done < self.size.other_rounds:
                yield side


def alternately(some: Iterable[_Any], rounds: int) -> Iterator[tuple[int, _Any]]:
    """Yield A B C, C B A, ..., with the number of the round."""
    order = list(some)
    for done in range(rounds):
        for one in order:
            yield done, one
        order.reverse()
