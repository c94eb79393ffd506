"""One phase: the crew works on fresh books, and is struck or left alone."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from examples.demo import faults, shocks
from examples.demo.cluster_store import key_store
from examples.demo.crew import Member, crew
from examples.demo.faults import Fault, Striker
from examples.demo.journal import Account, audit
from examples.demo.ledger import Book, FileStore
from examples.demo.shocks import Shaker, Shock
from examples.demo.table import Screen, View
from examples.demo.worker import LEASE_TIME, Settings
from redisson_py import Redisson, RedissonError, RLock
from redisson_py.testing import EmbeddedCluster


@dataclass(frozen=True, slots=True)
class Plan:
    """What a phase is.

    Attributes:
        title: Its name.
        locked: Whether the workers use the lock.
        faults: Whether one is killed and one stopped; in a cluster, whether that is shaken.
        pause: Seconds between reading and writing.
    """

    title: str
    locked: bool
    faults: bool
    pause: float = 0.001


@dataclass(slots=True)
class Outcome:
    """What a phase brought.

    Attributes:
        accounts: The referee's finding on each book.
        seconds: How long it took.
        grants: When each critical section began, after which wait, by whose task.
        losses: Leases lost, as their holders noticed.
        exposed: Writes during which the lease ended; only a fencing token protects these.
        failed: Bookings that failed because servers did not answer.
        sections: When each section began and ended, and whether its lock was said to be lost.
        faults: What was done to the workers.
        shocks: What was done to the cluster.
    """

    accounts: list[Account] = field(default_factory=list)
    seconds: float = 0.0
    grants: list[tuple[float, float, str]] = field(default_factory=list)
    losses: int = 0
    exposed: int = 0
    failed: int = 0
    sections: list[tuple[float, float, bool]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    shocks: list[Shock] = field(default_factory=list)

    @property
    def untold(self) -> int:
        """Sections that another one began in, whose holders were not told of a loss."""
        found, latest = 0, (0.0, 0.0, True)
        for section in sorted(self.sections):
            found += section[0] < latest[1] and not latest[2]
            latest = max(latest, section, key=lambda one: one[1])
        return found


def length(seconds: float, *, struck: bool, cluster: bool) -> float:
    """Return how long a phase of so many seconds takes, if the machine is not busy."""
    if not struck:
        return seconds
    least = shocks.least_seconds(seconds) if cluster else faults.least_seconds(seconds)
    return max(seconds, least)


class Stage:
    """Where phases are played.

    Args:
        url: The server.
        directory: Where files go.
        screen: Where it is shown.
        workers: How many processes there are.
        tasks: How many tasks each of them has.
        seconds: Length of a phase.
        patience: Seconds after which what must happen counts as missing.
        cluster: What is at the URL, if that is a cluster of our own.
    """

    def __init__(
        self,
        url: str,
        directory: Path,
        screen: Screen,
        workers: int,
        tasks: int,
        seconds: float,
        patience: float,
        cluster: EmbeddedCluster | None = None,
    ) -> None:
        self._cluster = cluster
        self._url = url
        self._directory = directory
        self._screen = screen
        self._workers = workers
        self._tasks = tasks
        self._seconds = seconds
        self._patience = patience

    async def play(self, plan: Plan) -> Outcome:
        """Run a phase and audit the books."""
        run = secrets.token_hex(4)
        directory = self._directory / run
        directory.mkdir()
        everyone = [
            Settings(
                name=f"worker-{number}",
                url=self._url,
                directory=str(directory),
                key=f"redisson-py-demo:{run}:ledger",
                lock=f"redisson-py-demo:{run}:lock" if plan.locked else None,
                tasks=self._tasks,
                pause=plan.pause,
            )
            for number in range(self._workers)
        ]
        first = everyone[0]
        async with (
            key_store(self._url, first.key) as key,
            Redisson.from_url(self._url, lease_time=LEASE_TIME, client_name="referee") as client,
        ):
            await client.ping()
            stores = FileStore(first.ledger), key
            try:
                for store in stores:
                    await store.write(Book(), lambda: None, "referee")
                name = f"redisson-py-demo:{run}:lock"
                names = {"the lock": name, "the book": first.key}
                lock = client.get_lock(name)
                outcome = await self._work(plan, everyone, lock, names)
                journals = [each.journal for each in everyone]
                outcome.accounts = [audit(journals, s.name, await s.read()) for s in stores]
                return outcome
            finally:
                await key.delete()

    async def _work(
        self, plan: Plan, everyone: Sequence[Settings], lock: RLock, names: dict[str, str]
    ) -> Outcome:
        outcome = Outcome()
        self._screen.prepare("starting the processes")
        async with crew(everyone) as members:
            self._screen.begin(plan.title)
            began_at = time.monotonic()
            async with asyncio.TaskGroup() as group:
                show = group.create_task(self._show(plan, members, lock if plan.locked else None))
                say = self._screen.say
                if plan.faults and self._cluster is not None:
                    shaker = Shaker(self._cluster, members, names, self._patience, say)
                    outcome.shocks = await shaker.shake(self._seconds)
                elif plan.faults:
                    striker = Striker(members, lock, self._patience, say)
                    outcome.faults = await striker.strike(self._seconds)
                await asyncio.sleep(began_at + self._seconds - time.monotonic())
                show.cancel()
            outcome.seconds = time.monotonic() - began_at
            self._screen.prepare("waiting for the last bookings")
        self._screen.clear()
        outcome.losses = sum(member.losses for member in members)
        outcome.exposed = sum(member.exposed for member in members)
        outcome.failed = sum(member.failed for member in members)
        outcome.sections = [section for member in members for section in member.sections]
        outcome.grants = sorted((*grant, m.name) for m in members for grant in m.grants)
        return outcome

    async def _show(self, plan: Plan, members: Sequence[Member], lock: RLock | None) -> None:
        began_at = time.monotonic()
        planned = length(self._seconds, struck=plan.faults, cluster=self._cluster is not None)
        while True:
            await asyncio.sleep(self._screen.period)
            snapshot = None
            if lock is not None:
                with suppress(RedissonError):
                    # Its server may just be gone.
                    snapshot = await lock.inspect()
            elapsed = time.monotonic() - began_at
            self._screen.show(View(plan.title, elapsed, planned, snapshot, members))
