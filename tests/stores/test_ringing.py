"""A waiter is rung for alone: what one client's waiters cost grows with their number only."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest
import pytest_asyncio

from redisson_py._stores.contract import Busy, Kind, Wish
from redisson_py._time import now
from tests.stores.backends import Backend
from tests.stores.conftest import NewClient
from tests.support.waiting import until

_numbers = itertools.count(1)
#: Seconds: nothing is renewed meanwhile.
LONG = 60.0
COUNTS = (10, 40, 160)

pytestmark = pytest.mark.usefixtures("no_polls")


@pytest.fixture
def name() -> str:
    return f"/ringing/{next(_numbers)}"


@pytest_asyncio.fixture
async def waiting(new_client: NewClient) -> AsyncIterator[Any]:
    yield new_client(lease_time=LONG)


class Others:
    """Owners of another client, which ask its store themselves."""

    def __init__(self, client: Any, name: str, kind: Kind) -> None:
        self._store = client._store
        self._name = name
        self._kind: Kind = kind

    async def ask(self, number: int) -> bool:
        """Ask for a hold; return whether it is granted."""
        wish = Wish(self._name, f"others:{number}", LONG, True, True, kind=self._kind)
        return not isinstance(await self._store.ask(wish, now() + LONG), Busy)

    async def take(self, number: int) -> None:
        """Ask until it is granted."""
        while not await self.ask(number):
            await asyncio.sleep(0.001)

    async def give_back(self, number: int) -> None:
        assert await self._store.give_back(self._name, f"others:{number}", False, now() + LONG)


async def started(waiting: Any, work: Awaitable[None], seats: int) -> asyncio.Task[None]:
    """Start to wait; return when that has been asked for."""
    task = asyncio.ensure_future(work)
    queues = waiting._executor.carrier.queues
    await until(lambda: waiting._context.bus.table.seats == seats)
    await until(lambda: not any(queue.working for queue in queues.values()))
    return task


def costs(waiting: Any, before: tuple[int, int] = (0, 0)) -> tuple[int, int]:
    """Return how many requests and wake-ups there were since."""
    counted = waiting.statistics()
    return counted.commands_sent - before[0], counted.wake_ups - before[1]


async def settled(waiting: Any, other: Any, name: str) -> None:
    """Return when all watches of the waiting client are set: one that comes after them has rung."""
    last, seats = f"{name} last", waiting._context.bus.table.seats

    async def wait() -> None:
        async with waiting.get_lock(last):
            pass

    async with other.get_lock(last):
        task = await started(waiting, wait(), seats + 1)
    await task
    queues = waiting._executor.carrier.queues
    await until(lambda: not any(queue.working for queue in queues.values()))


@pytest.fixture(autouse=True)
def a_busy_counts_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a waiter ask again only if it was rung for."""
    monkeypatch.setattr("redisson_py._stores.carrier._STILL_BUSY_SECONDS", LONG)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("backend", ["etcd", "zookeeper"], indirect=True)
async def test_readers_behind_a_writer_each(
    waiting: Any, new_client: NewClient, backend: Backend, name: str, count: int
) -> None:
    """Each writer that goes lets one reader in: it is rung for, asks, and gives back."""
    other: Any = new_client(lease_time=LONG)
    await other.ping()
    writers = Others(other, name, "write")
    lock = waiting.get_read_write_lock(name).read_lock()
    read: list[int] = []

    async def wait(number: int) -> None:
        async with lock:
            read.append(number)

    tasks = []
    for number in range(count):
        assert await writers.ask(number) is (number == 0)
        tasks.append(await started(waiting, wait(number), number + 1))
    await settled(waiting, other, name)
    before = costs(waiting)
    for number in range(count):
        await writers.take(number)
        await writers.give_back(number)
        await tasks[number]
        assert read == list(range(number + 1))
    assert costs(waiting, before) == (2 * count, count)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("backend", ["etcd"], indirect=True)
async def test_candidates_of_an_election(
    waiting: Any, new_client: NewClient, backend: Backend, name: str, count: int
) -> None:
    other: Any = new_client(lease_time=LONG)
    election = waiting.get_election(name)
    led: list[int] = []

    async def campaign(number: int) -> None:
        async with election.campaign(str(number)):
            led.append(number)

    async with other.get_election(name).campaign("first"):
        tasks = [await started(waiting, campaign(each), each + 1) for each in range(count)]
        await settled(waiting, other, name)
        before = costs(waiting)
    await asyncio.gather(*tasks)
    assert led == list(range(count))
    assert costs(waiting, before) == (2 * count, count)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("backend", ["etcd"], indirect=True)
async def test_observers_of_an_election(
    waiting: Any, new_client: NewClient, backend: Backend, name: str, count: int
) -> None:
    """Each asks once for each change."""
    other: Any = new_client(lease_time=LONG)
    election, seen = waiting.get_election(name), [""] * count

    async def observe(number: int) -> None:
        async with contextlib.aclosing(election.observe()) as leaders:
            async for leader in leaders:
                seen[number] = leader.text if leader else ""

    async with other.get_election(name).campaign("1") as leadership:
        tasks = [asyncio.create_task(observe(each)) for each in range(count)]
        await until(lambda: seen == ["1"] * count)
        await until(lambda: waiting._context.bus.table.seats == count)
        await settled(waiting, other, name)
        before = costs(waiting)
        await leadership.proclaim("2")
        await until(lambda: seen == ["2"] * count)
        await until(lambda: waiting._context.bus.table.seats == count)
        assert costs(waiting, before) == (count, count)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    ("backend", "kind"),
    [
        *((each, kind) for each in ("etcd", "zookeeper") for kind in ("lock", "write")),
        ("zookeeper", "semaphore"),
    ],
    indirect=["backend"],
)
async def test_tasks_in_a_local_queue(
    waiting: Any, new_client: NewClient, backend: Backend, name: str, kind: str, count: int
) -> None:
    """Only its head waits in the store."""
    other: Any = new_client(lease_time=LONG)

    def lock_of(client: Any) -> Any:
        if kind == "write":
            return client.get_read_write_lock(name).write_lock()
        return client.get_lock(name) if kind == "lock" else client.get_semaphore_mutex(name)

    lock, held = lock_of(waiting), 0

    async def wait() -> None:
        nonlocal held
        async with lock:
            held += 1

    async with lock_of(other):
        tasks = [await started(waiting, wait(), 1) for _ in range(count)]
        await settled(waiting, other, name)
        before = costs(waiting)
    await asyncio.gather(*tasks)
    assert held == count
    # A hold is passed on for as long as the turn of this client lasts.
    assert costs(waiting, before)[0] <= 2 * count
