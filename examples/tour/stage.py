"""Where a scene is played: its processes, what it says, and what it checks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.text import Text

from examples.console import labelled
from examples.tour.actor import Actor, TourError, until
from examples.tour.process import Settings
from redisson_py import Redisson

#: What the watchdog of a process that will be killed or stopped keeps things for, in seconds:
#: short, so that a crash passes quickly.
LEASE_TIME = 1.5
#: That of the others: the library's default, which is better outside of a demonstration.
_LONG_LEASE_TIME = 30.0

#: How much earlier than due a lease may seem to end, in seconds: clocks are not the same.
CLOCK_ERROR = 0.1
#: Seconds after the end of a lease until that shows, unless the machine is busy.
_LATE = 0.5

Part = Callable[..., Awaitable[None]]
"""What a process does: an async function of a module, whose first parameter is a `Me`."""


class WrongError(Exception):
    """Raised when something did not go as it must; its text says how it went."""


@dataclass(frozen=True, slots=True)
class House:
    """What all scenes have in common.

    Attributes:
        url: The server.
        prefix: What stands before all names in Redis.
        directory: Where files go.
        patience: Seconds after which something that is to happen counts as missing.
        console: Where it is told.
        apart: Give each process names of its own, so that it meets nobody: all must go wrong.
    """

    url: str
    prefix: str
    directory: Path
    patience: float
    console: Console
    apart: bool = False


class Stage:
    """What one scene has; leaving the block ends its processes, however it is left.

    Attributes:
        client: The tour's own client, among the same names as those of the processes.
        directory: Where the scene's files are.
        shown: How many checks held.
    """

    def __init__(self, house: House, scene: str) -> None:
        self._house = house
        self._prefix = f"{house.prefix}{scene}:"
        self._actors: list[Actor] = []
        self._stack = AsyncExitStack()
        self._began_at = time.monotonic()
        self.shown = 0
        self.directory = house.directory / scene
        self.client = Redisson.from_url(house.url, prefix=self._prefix, client_name="tour")

    async def __aenter__(self) -> Self:
        self.directory.mkdir()
        await self._stack.enter_async_context(self.client)
        self._stack.push_async_callback(self._end_all)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        async with self._stack:
            if error is None:
                for actor in self._actors:
                    await actor.leaves()

    async def start(
        self, part: Part, *names: str, struck: str = "", **arguments: Any
    ) -> list[Actor]:
        """Start processes that run `part`; return when all are ready.

        Args:
            part: What they do.
            names: A name for each.
            struck: The one whose lease is short, as it will be killed or stopped.
            arguments: What `part` takes besides a `Me`.
        """
        actors = []
        for name in names:
            settings = Settings(
                name=name,
                module=part.__module__,
                function=part.__qualname__,
                arguments=arguments,
                url=self._house.url,
                prefix=f"{self._prefix}{name}:" if self._house.apart else self._prefix,
                lease_time=LEASE_TIME if name == struck else _LONG_LEASE_TIME,
                directory=str(self.directory),
            )
            actors.append(await Actor.start(settings, self._house.patience))
            self._actors.append(actors[-1])
        for actor in actors:
            await actor.says("ready")
        return actors

    async def _end_all(self) -> None:
        for actor in self._actors:
            actor.end()
        for actor in self._actors:
            await actor.gone()

    def say(self, text: str) -> None:
        """Tell what happens."""
        self._print(Text(f"{time.monotonic() - self._began_at:.1f} s", "dim"), text)

    def add(self, text: str) -> None:
        """Tell more of what happens."""
        self._print("", text)

    def check(self, claim: str, holds: bool, found: str) -> None:
        """Tell what this shows, if it does, and what was found.

        Raises:
            WrongError: It does not.
        """
        if not holds:
            raise WrongError(f"expected: {claim}; found: {found}")
        self.shown += 1
        self._print(Text("ok", "bold green"), f"{claim}: {found}")

    def check_lease(
        self,
        claim: str,
        after: float,
        since: str,
        *,
        whole: bool = False,
        lease_time: float = LEASE_TIME,
    ) -> None:
        """Tell that something came when a lease was over. To come late is not wrong.

        Args:
            claim: What came.
            after: Seconds after which it came.
            since: Since when.
            whole: Whether all of the lease was left then.
            lease_time: Seconds for which the lease was.

        Raises:
            WrongError: It came too early.
        """
        late = "; this machine is busy" if after > lease_time + _LATE else ""
        least = lease_time - CLOCK_ERROR if whole else 0.0
        self.check(claim, after > least, f"{after:.2f} s after {since}{late}")

    def _print(self, label: str | Text, text: str) -> None:
        self._house.console.print(labelled(label, text))

    async def until(self, condition: Callable[[], Awaitable[bool]], failure: str) -> None:
        """Return when a condition of the server's holds: one that can only be polled.

        Raises:
            TourError: It did not in time.
        """
        deadline = time.monotonic() + self._house.patience
        while not await condition():
            if time.monotonic() > deadline:
                raise TourError(f"{failure} (waited for {self._house.patience:g} s)")
            await asyncio.sleep(0.01)

    async def somebody(self, actors: Iterable[Actor], what: str) -> Actor:
        """Return one that has said this.

        Raises:
            TourError: Nobody did.
        """
        found: list[Actor] = []

        def looked() -> bool:
            found[:] = [actor for actor in actors if actor.all(what)]
            return bool(found)

        await until(looked, self._house.patience, f"nobody said {what!r}")
        return found[0]


def stays(actors: Iterable[Actor], begin: str, end: str) -> list[tuple[float, float]]:
    """Return when each stay inside began and ended: a process has one at a time, each told."""
    return sorted(
        (begun.at, ended.at)
        for actor in actors
        for begun, ended in zip(actor.all(begin), actor.all(end), strict=True)
    )


def most_at_once(stays: Iterable[tuple[float, float]]) -> int:
    """Return the greatest number of stays that overlapped."""
    moves = sorted(move for begin, end in stays for move in ((begin, 1), (end, -1)))
    inside = most = 0
    for _, change in moves:
        inside += change
        most = max(most, inside)
    return most
