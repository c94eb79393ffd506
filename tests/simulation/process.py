"""One process of a universe: a host, its clients, and its tasks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from redisson_py import ClientClosedError, ConnectionLostError, QuorumError, Redisson
from tests.simulation.hosts import Host
from tests.simulation.meetings import MeetingWorker
from tests.simulation.worker import Worker

if TYPE_CHECKING:
    from tests.simulation.universe import Universe


class Process:
    """A host and what runs on it.

    Attributes:
        targets: What its tasks use, by side.
        last: All others have ended: nothing disturbs it.
        worked: Its tasks have done all their laps.
        closed: Its clients are closed.
        error: What went wrong in one of its tasks.
    """

    def __init__(self, universe: Universe, host: Host, tasks: int, *, last: bool) -> None:
        self.universe = universe
        self.host = host
        self.last = last
        self.targets: dict[str, Any] = {}
        self.worked = False
        self.closed = False
        self.error: BaseException | None = None
        self.clients: list[Redisson] = []
        self._tasks = tasks
        self._forcing: list[asyncio.Task[None]] = []
        self._may_close: asyncio.Future[None] = universe.loop.create_future()

    def __repr__(self) -> str:
        return repr(self.host)

    @property
    def alive(self) -> bool:
        """Whether it has not crashed."""
        return not self.host.crashed

    def start(self) -> None:
        """Begin."""
        self.universe.loop.start_on(self.host, self._run())

    def close(self) -> None:
        """Close its clients."""
        if not self._may_close.done():
            self._may_close.set_result(None)

    def force_release(self, level: float) -> None:
        """Free the lock by force, if that is a lock; `level` draws the side."""
        sides = list(self.targets)
        side = sides[int(level * len(sides))] if sides else ""
        if hasattr(self.targets.get(side), "force_release") and not self._may_close.done():
            work = self._force_release(side)
            self._forcing.append(self.universe.loop.start_on(self.host, work))

    async def _force_release(self, side: str) -> None:
        universe, target = self.universe, self.targets[side]
        before = universe.oracle.relied_on(self.host, side)
        try:
            freed = await target.force_release()
        except (ConnectionLostError, ClientClosedError, QuorumError) as error:
            universe.note(self.host, "could not free it:", type(error).__name__)
            return
        universe.note(self.host, "has freed it" if freed else "found it free")
        untold = [grip for grip in before if grip.lease.remaining > 0]
        if freed and universe.plan.undisturbed and untold:
            self.error = AssertionError(f"{self.host} freed it, and {untold} are not told")

    async def _run(self) -> None:
        try:
            await self._work()
        except Exception as error:
            self.error = error

    async def _work(self) -> None:
        universe, options = self.universe, self.universe.plan.options
        self.clients = [
            Redisson.from_url(f"redis://{host}:{port}", **options)
            for host, port in universe.network.nodes
        ]
        kind = universe.kind
        self.targets = {side: kind.make(self.clients, side) for side in kind.subject.sides}
        made = MeetingWorker if kind.is_meeting else Worker
        workers = [
            made(self, f"{self.host}.{number}", universe.chance(f"{self.host}.{number}"))
            for number in range(self._tasks)
        ]
        tasks = [asyncio.create_task(self._watched(each), name=each.name) for each in workers]
        for task in tasks:
            await task
        self.worked = True
        universe.note(self.host, "has done its work")
        await self._may_close
        for client in self.clients:
            await client.aclose()
        self.closed = True

    async def _watched(self, worker: Worker | MeetingWorker) -> None:
        try:
            await (worker.tidy() if self.last else worker.run())
        except Exception as error:
            self.error = error
