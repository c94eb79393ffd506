"""A worker process: tasks that post bookings to both books until told to leave.

Orders come as JSON lines on standard input, the settings first; reports leave the same way on
standard output. When the input ends, the demo is gone, and the worker goes too.

On a holder that is stopped past its lease: a plain lock cannot protect against one that is
stopped between its last look at the lease and its write, since the write is the next thing it
does when it wakes; only the protected resource can, by refusing an old fencing token
(`get_fenced_lock`). So the demo stops the worker where the library does protect: inside the
critical section, with a stale copy of the ledger in hand, in an `await`. Nothing but the loss
of the lease ends that `await`, so the write behind it cannot happen, however slow or busy the
machine is. Should the machine itself pause a worker in the gap, the look at the lease after
the write tells (`exposed`), and the report says what happened.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from redis.exceptions import RedisError

from examples.demo.cluster_store import key_store
from examples.demo.journal import Journal
from examples.demo.ledger import ACCOUNTS, Entry, FileStore, NotWrittenError, Store, post
from redisson_py import Lease, LeaseLostError, Redisson, RedissonError

#: Where a worker can be told to wait inside its critical section, for the demo to strike it:
#: with the file read and not yet written, or with the file written and the key not yet read.
Stage = Literal["stale", "halfway"]

#: What the clients' watchdogs keep locks for, in seconds: short, so that faults pass quickly.
LEASE_TIME = 2.0

#: Seconds between two reports of a worker.
STATUS_PERIOD = 0.2

#: Seconds of rest after a booking that failed without being in doubt.
_AFTER_FAILURE = 0.05


@dataclass(frozen=True, slots=True)
class Settings:
    """What a worker is told at its start.

    Attributes:
        name: Its name, also of its connection.
        url: The server.
        directory: Where ledger and journals are.
        key: The Redis key of the other book.
        lock: The name of the lock; None works without.
        tasks: How many tasks it runs.
        pause: Seconds between reading and writing.
    """

    name: str
    url: str
    directory: str
    key: str
    lock: str | None
    tasks: int
    pause: float

    @property
    def ledger(self) -> Path:
        """The ledger file."""
        return Path(self.directory) / "ledger.json"

    @property
    def journal(self) -> Path:
        """This worker's journal."""
        return Path(self.directory) / f"{self.name}.journal"

    def to_bytes(self) -> bytes:
        """Return the settings as a line of JSON."""
        return json.dumps(asdict(self)).encode() + b"\n"


class Worker:
    """The tasks of one process and what they tell."""

    def __init__(
        self, settings: Settings, client: Redisson, stores: tuple[Store, Store], journal: Journal
    ) -> None:
        self._settings = settings
        self._client = client
        self._lock = None if settings.lock is None else client.get_lock(settings.lock)
        self._stores = stores
        self._journal = journal
        self._leaving = asyncio.Event()
        self._park_at: Stage | None = None
        self._parked: str | None = None
        self._writing: set[str] = set()
        self._grants: list[tuple[float, float]] = []
        self._sections: list[tuple[float, float, bool]] = []
        self._booked = self._losses = self._exposed = self._failed = 0

    async def run(self, orders: asyncio.StreamReader) -> None:
        """Work until told to leave."""
        await self._client.ping()
        tell("ready")
        if await orders.readline() != b"start\n":
            return
        async with asyncio.TaskGroup() as group:
            reports = group.create_task(self._report())
            tasks = [group.create_task(self._work(n)) for n in range(self._settings.tasks)]
            await self._obey(orders)
            self._leaving.set()
            await asyncio.wait(tasks)
            reports.cancel()
        self._tell_status()

    async def _obey(self, orders: asyncio.StreamReader) -> None:
        async for row in orders:
            match row.decode().split():
                case ["park", "stale" | "halfway" as stage]:
                    self._park_at = stage
                case ["leave"]:
                    return
        sys.exit("the demo is gone")

    async def _work(self, number: int) -> None:
        task = f"{self._settings.name}.{number}"
        made = 0
        while not self._leaving.is_set():
            made += 1
            debit, credit = random.sample(ACCOUNTS, 2)
            entry = Entry(task, made, debit, credit, random.randint(1, 100_00))
            try:
                await self._book(entry)
            except LeaseLostError as error:
                self._losses += 1
                tell("loss", at=time.monotonic(), parked=self._parked == task, why=str(error))
                self._parked = None
                if task in self._writing:
                    # Nobody knows whether the write was carried out; see journal.py.
                    self._exposed += 1
                    return
            except NotWrittenError:
                self._writing.discard(task)
                self._failed += 1
            except (RedissonError, RedisError, OSError):
                self._failed += 1
                if task in self._writing:
                    return
                await asyncio.sleep(_AFTER_FAILURE)

    async def _book(self, entry: Entry) -> None:
        asked_at = time.monotonic()
        if self._lock is None:
            await self._critical_section(entry, asked_at, None)
            return
        granted_at = left_at = 0.0
        reported = False
        try:
            async with self._lock as lease:
                granted_at = time.monotonic()
                try:
                    await self._critical_section(entry, asked_at, lease)
                finally:
                    left_at, reported = time.monotonic(), lease.lost
        except LeaseLostError:
            reported = True
            raise
        finally:
            if granted_at:
                self._sections.append((round(granted_at, 6), round(left_at, 6), reported))

    async def _critical_section(self, entry: Entry, asked_at: float, lease: Lease | None) -> None:
        granted_at = time.monotonic()
        self._grants.append((round(granted_at, 6), round(granted_at - asked_at, 6)))
        file, key = self._stores

        async def pause() -> None:
            await self._park("stale", entry)
            await asyncio.sleep(self._settings.pause)

        await self._post(file, entry, lease, pause)
        await self._park("halfway", entry)
        await self._post(key, entry, lease, lambda: asyncio.sleep(self._settings.pause))
        self._booked += 1

    async def _post(
        self,
        store: Store,
        entry: Entry,
        lease: Lease | None,
        pause: Callable[[], Awaitable[None]],
    ) -> None:
        await post(store, entry, pause, self._ready(store, entry, lease))
        self._journal.note("wrote", store.name, entry)
        self._writing.discard(entry.task)
        if lease is not None and lease.lost:
            self._exposed += 1

    def _ready(self, store: Store, entry: Entry, lease: Lease | None) -> Callable[[], None]:
        def ready() -> None:
            if lease is not None:
                lease.check()
            self._writing.add(entry.task)
            self._journal.note("writing", store.name, entry)

        return ready

    async def _park(self, stage: Stage, entry: Entry) -> None:
        """If told to, say where we are and stay there: until killed, or until the lease is lost."""
        if self._park_at != stage:
            return
        self._park_at = None
        self._parked = entry.task
        self._tell_status()
        tell("parked", stage=stage)
        await self._leaving.wait()

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(STATUS_PERIOD)
            self._tell_status()

    def _tell_status(self) -> None:
        grants, self._grants = self._grants, []
        sections, self._sections = self._sections, []
        tell(
            "status",
            waiting=self._client.statistics().waiters,
            booked=self._booked,
            losses=self._losses,
            exposed=self._exposed,
            failed=self._failed,
            grants=grants,
            sections=sections,
        )


def tell(kind: str, **what: Any) -> None:
    """Report something to the demo."""
    print(json.dumps({"kind": kind, **what}), flush=True)


async def main() -> None:
    """Be a worker."""
    orders = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    settings = Settings(**json.loads(await orders.readline()))
    journal = Journal(settings.journal)
    async with (
        Redisson.from_url(settings.url, lease_time=LEASE_TIME, client_name=settings.name) as client,
        key_store(settings.url, settings.key) as key,
    ):
        stores = FileStore(settings.ledger), key
        await Worker(settings, client, stores, journal).run(orders)
    journal.close()


if __name__ == "__main__":
    # Ctrl-C reaches the whole foreground group; the demo ends its workers itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
