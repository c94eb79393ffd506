"""A slot moves from node to node, key by key or in one piece, while everything in it is used.

`make soak` moves it fifty times (`MOVES=50`).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import pytest

from redisson_py import FencedLease, RateLimiter, Redisson
from redisson_py.testing import EmbeddedCluster, SlotMigration, TopologyError
from tests.fixtures.client import ClientFactory
from tests.fixtures.measured import Measured
from tests.support.waiting import set_safety_poll, until, until_waiting
from tests.topology.cluster_nodes import channels, keys

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("patience")]

MOVES = int(os.environ.get("MOVES", "5"))
#: Less than a lease: a waiter that is not woken sleeps longer.
SOON = 25

#: What belongs to a latch has its name in braces.
LATCH = "x"

Move = Callable[[], Awaitable[None]]
Block = Callable[[], AbstractAsyncContextManager[object]]


@pytest.fixture(autouse=True)
def no_safety_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is to be woken by anything but a message, or what stands for one that was lost."""
    set_safety_poll(monkeypatch, 600)


@pytest.fixture(params=["keys", "atomic"])
def move(request: pytest.FixtureRequest, cluster: EmbeddedCluster) -> Move:
    """Moves the slot to another master."""
    atomic = request.param == "atomic"
    if atomic and cluster.version < (9, 0, 0):
        pytest.skip("this server moves slots key by key only")

    async def move() -> None:
        migration = await cluster.begin_migration("{x}", atomic=atomic)
        if not atomic:
            # Calls come in while some keys are here and some there.
            await move_half(migration)
            await asyncio.sleep(0.02)
        await migration.finish()

    return move


async def move_half(migration: SlotMigration) -> None:
    """Move every other key."""
    while True:
        there = await migration.keys()
        # In a test of more than a minute, receipts expire meanwhile.
        with contextlib.suppress(TopologyError):
            return await migration.move_keys(*there[::2])


class Load:
    """Every primitive in one slot, used by several tasks; counts the tasks inside."""

    def __init__(self) -> None:
        self.inside: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.tokens: list[int] = []
        self.stop = False
        self.last_round = False

    async def section(self, what: str, block: Block, most: int = 1) -> None:
        """Enter again and again, with at most `most` tasks inside at once."""
        while not self.stop:
            async with block() as lease:
                self.inside[what] += 1
                assert self.inside[what] <= most, what
                if isinstance(lease, FencedLease):
                    self.tokens.append(lease.token)
                await asyncio.sleep(0.001)
                self.inside[what] -= 1
            self.done[what] += 1

    async def rounds(self, client: Redisson) -> None:
        """Meet at a barrier and then at a latch, which so is in its last round at both."""
        barrier = client.get_barrier("{x}barrier", 2)
        while True:
            arrived = await barrier.wait()
            self.done[f"arrival {arrived}"] += 1
            if arrived == 0:
                self.last_round = self.stop
            latch = client.get_latch(LATCH, 2)
            left = await latch.count_down()
            await latch.wait()
            self.done[f"left {left}"] += 1
            if self.last_round:
                return

    def went_on(self, before: Counter[str], tasks: list[asyncio.Task[None]]) -> bool:
        """Return whether everything was used again, or something failed."""
        failed = any(task.done() for task in tasks)
        return failed or all(self.done[what] > count for what, count in before.items())

    def tasks(self, client: Redisson) -> list[asyncio.Task[None]]:
        """Return one client's share of the work."""
        read_write = client.get_read_write_lock("{x}read_write")
        semaphore = client.get_semaphore("{x}semaphore", 2)
        expirable = client.get_permit_expirable_semaphore("{x}semaphore_expirable", 2)
        work = [
            *(self.section("lock", lambda: client.get_lock("{x}lock")) for _ in range(2)),
            self.section("fenced", lambda: client.get_fenced_lock("{x}fenced")),
            self.section("fair", lambda: client.get_fair_lock("{x}fair")),
            self.section("write", read_write.write_lock),
            *(self.section("read", read_write.read_lock, 4) for _ in range(2)),
            *(self.section("semaphore", semaphore.hold, 2) for _ in range(2)),
            *(self.section("expirable", expirable.hold, 2) for _ in range(2)),
            *(self.section("limited", lambda: get_limiter(client), 6) for _ in range(3)),
            self.rounds(client),
        ]
        return [asyncio.create_task(each) for each in work]


async def test_everything_goes_on_while_the_slot_moves(
    cluster: EmbeddedCluster, clients: ClientFactory, move: Move, measured: Measured
) -> None:
    load = Load()
    made = [clients(cluster.url) for _ in range(2)]
    keeper = await made[0].get_lock("{x}kept").acquire()
    reader = await made[1].get_read_write_lock("{x}kept too").read_lock().acquire()
    tasks = [task for client in made for task in load.tasks(client)]
    for _ in range(MOVES):
        before = load.done.copy()
        await move()
        await until(functools.partial(load.went_on, before, tasks), SOON)
    load.stop = True
    await asyncio.wait_for(asyncio.gather(*tasks), SOON)
    assert load.tokens == sorted(set(load.tokens))
    assert load.done["arrival 0"] == load.done["arrival 1"] == load.done["left 0"]
    assert load.done["left 0"] == load.done["left 1"]
    assert await made[0].get_semaphore("{x}semaphore").available() == 2
    expirable = made[0].get_permit_expirable_semaphore("{x}semaphore_expirable")
    assert await expirable.available() == 2
    # All units come back.
    await get_limiter(made[0]).acquire(5, timeout=SOON)
    await get_limiter(made[0]).delete()
    for lease in (keeper, reader):
        lease.check()
        await lease.release()
    for client in made:
        assert client.statistics().losses == client.statistics().reconnects == 0
    left = {key for key in await keys(cluster) if key.startswith("{x}") and "semaphore" not in key}
    assert not left
    measured(f"used while {MOVES} moves went on", dict(load.done))


def get_limiter(client: Redisson) -> RateLimiter:
    """Return the limiter of the slot, which has few units and gets them soon."""
    return client.get_rate_limiter("{x}limiter", 5, 0.05)


def blocks(client: Redisson) -> list[Block]:
    """Return a block of each kind for one at a time."""
    return [
        lambda: client.get_lock("{x}lock"),
        lambda: client.get_fair_lock("{x}fair"),
        client.get_read_write_lock("{x}read").read_lock,
        client.get_read_write_lock("{x}write").write_lock,
        client.get_semaphore("{x}semaphore", 1).hold,
        client.get_permit_expirable_semaphore("{x}semaphore_expirable", 1).hold,
    ]


class Keeping:
    """Holds everything until it is told to release."""

    def __init__(self, client: Redisson) -> None:
        self.release = asyncio.Event()
        self.held = 0
        keeping = blocks(client)
        keeping[2] = client.get_read_write_lock("{x}read").write_lock
        self.tasks = [asyncio.create_task(self._keep(block)) for block in keeping]

    async def _keep(self, block: Block) -> None:
        async with block():
            self.held += 1
            await self.release.wait()

    async def all_held(self) -> None:
        """Return when everything is held."""
        await until(lambda: self.held == len(self.tasks))


async def wait_for(block: Block) -> None:
    """Acquire and release."""
    async with block():
        pass


async def test_each_waiter_is_woken_wherever_the_slot_is(
    cluster: EmbeddedCluster, clients: ClientFactory, move: Move
) -> None:
    """One release after each move, so that nothing else can wake them."""
    ours, theirs = (clients(cluster.url) for _ in range(2))
    latch = theirs.get_latch(LATCH)
    used_up = theirs.get_rate_limiter("{x}used up", 1, 3600)
    for _ in range(MOVES):
        keeping = Keeping(theirs)
        await keeping.all_held()
        assert await latch.try_set_count(1)
        await used_up.set_rate(1, 3600)
        await used_up.acquire()
        waiters = [asyncio.create_task(wait_for(block)) for block in blocks(ours)]
        waiters.append(asyncio.create_task(ours.get_latch(LATCH).wait()))
        waiters.append(asyncio.create_task(wait_for(lambda: ours.get_rate_limiter("{x}used up"))))
        await until_waiting(ours, len(waiters))
        await move()
        assert not any(task.done() for task in (*waiters, *keeping.tasks))
        keeping.release.set()
        await latch.count_down()
        await used_up.set_rate(1, 3600)
        await asyncio.wait_for(asyncio.gather(*waiters, *keeping.tasks), SOON)
    await used_up.delete()
    statistics = ours.statistics()
    assert statistics.losses == statistics.timeouts == 0
    for client in (ours, theirs):
        await client.aclose()
    assert await channels(cluster) == []
