"""How soon a client works again when servers of its cluster fail, or slots move.

Every side takes part in the same failure at the same time: it holds locks, waits for one, and keeps
taking others, all in the slot that is struck.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from time import monotonic, monotonic_ns
from typing import Any

from benchmarks.crew import Bench, Worker, worker
from benchmarks.harness import Table
from benchmarks.rivals import OURS, OURS_UNSYNCED, OURS_UVLOOP, REDIS_PY_CLUSTER, REDISSON, SIDES
from benchmarks.rivals.side import CannotError, ProgramSide, Side, TaskSide
from redisson_py.testing import EmbeddedCluster, EmbeddedServer, TopologyError, running_cluster

NAME = "recovery"
GAP, SERVER, MULTIPLE = "longest gap s", "server's own s", "x server's"
FAILED, LOST, REPORTED = "failed calls", "leases lost", "told"
WOKEN, WOKEN_MS = "woken", "first ms"

_TAG = "{struck}"
_WAITERS = 5
_PROBES = 4
#: Seconds in which the release of what others wait for must reach them: less than a safety poll.
_PATIENCE = 3.0
#: Seconds after which a side that does not work again counts as it is.
_LIMIT = 25.0
_LOOK_AGAIN = 0.02
#: Seconds for which a slot stays half moved.
_HALT = 0.2
_NS = 1e9

Strike = Callable[[EmbeddedCluster], Awaitable[None]]


async def measure(bench: Bench) -> Table:
    """Measure on clusters of their own, with workers of their own."""
    size = bench.size
    table = Table(NAME, "A cluster fails: longest time without an acquire+release, beside its own")
    for what in size.outages:
        for _ in range(size.outage_rounds):
            async with running_cluster(bench.kind) as cluster:
                if what == "atomic move" and cluster.version < (9, 0, 0):
                    table.absent[what] = "the server moves slots key by key only"
                    break
                await _round(bench, table, what, cluster)
    table.notes += [
        f"{size.held_in_outage} leases, {_WAITERS} waiters, {_PROBES} users a side, all at the same"
        " failure. Server's own: until a node says that the slot is its own, or the move ends.",
        f"{WOKEN}: of {_WAITERS}, within {_PATIENCE:g} s after the release. redis-py polls each"
        " 0.1 s, and renews nothing.",
    ]
    return table


async def _round(bench: Bench, table: Table, what: str, cluster: EmbeddedCluster) -> None:
    async with AsyncExitStack() as stack:
        crew: dict[str, Worker] = {}
        for side in (OURS, OURS_UVLOOP, OURS_UNSYNCED, REDIS_PY_CLUSTER, REDISSON):
            if bench.has(side):
                try:
                    crew[side] = await stack.enter_async_context(worker(side, cluster.url))
                except CannotError as reason:
                    table.absent[side] = str(reason)
        for side, one in crew.items():
            await one.do(
                "begin_outage",
                prefix=f"{_TAG}:{[*SIDES].index(side)}:",
                holds=bench.size.held_in_outage,
                waiters=_WAITERS,
                probes=_PROBES,
            )
        # Everything is replicated, and everybody waits.
        await asyncio.sleep(bench.size.outage_pause)
        struck_at = monotonic()
        await _STRIKES[what](cluster)
        served_at = monotonic()
        await _until_all_work(crew, served_at)
        await asyncio.sleep(bench.size.outage_pause)
        ended_at = monotonic()
        order = {"patience": _PATIENCE, "waiters": _WAITERS}
        found = await asyncio.gather(*[one.do("end_outage", **order) for one in crew.values()])
    for side, one in zip(crew, found, strict=True):
        table.add(f"{what}: {side}", _figures(one, struck_at, served_at, ended_at))


async def _until_all_work(crew: dict[str, Worker], since: float) -> None:
    """Return when each side has begun and ended a pair since then, or it takes too long."""
    missing = set(crew)
    while missing and monotonic() < since + _LIMIT:
        await asyncio.sleep(0.1)
        for side in list(missing):
            if await crew[side].do("look_at_outage") / _NS > since:
                missing.remove(side)


def _figures(
    found: dict[str, Any], struck_at: float, served_at: float, ended_at: float
) -> dict[str, float]:
    ends = sorted(end / _NS for end in found["ends"])
    seen = [end for end in ends if struck_at < end < ended_at]
    before = [end for end in ends if end <= struck_at]
    moments = [*before[-1:], *seen, ended_at]
    gap = max(after - earlier for earlier, after in pairwise(moments))
    server = served_at - struck_at
    figures = {
        GAP: gap,
        SERVER: server,
        MULTIPLE: gap / server,
        FAILED: float(len(found["errors"])),
        LOST: float(found["lost"]),
        REPORTED: float(found["told"]),
        WOKEN: float(found["woken"]),
    }
    if found["woken"]:
        figures[WOKEN_MS] = found["after"] * 1e3
    return figures


# What is done to the cluster; each returns when it is over, as far as the servers go.


async def _kill(cluster: EmbeddedCluster) -> None:
    old = await cluster.master_of(_TAG)
    await cluster.kill(old)
    await _until_served(cluster, old)


async def _freeze(cluster: EmbeddedCluster) -> None:
    old = await cluster.master_of(_TAG)
    await cluster.freeze(old)
    await _until_served(cluster, old)


async def _fail_over(cluster: EmbeddedCluster) -> None:
    old = await cluster.master_of(_TAG)
    [replica, *_] = await cluster.replicas_of(old)
    await replica.execute("CLUSTER", "FAILOVER")
    await _until_served(cluster, old)


async def _move(cluster: EmbeddedCluster) -> None:
    await cluster.migrate(_TAG)


async def _move_with_a_halt(cluster: EmbeddedCluster) -> None:
    move = await cluster.begin_migration(_TAG)
    await move.move_keys(*(await move.keys())[::2])
    await asyncio.sleep(_HALT)
    await move.finish()


async def _move_atomically(cluster: EmbeddedCluster) -> None:
    await cluster.migrate(_TAG, atomic=True)


_STRIKES: dict[str, Strike] = {
    "kill": _kill,
    "freeze": _freeze,
    "graceful failover": _fail_over,
    "slot moves key by key": _move,
    "slot halts half moved": _move_with_a_halt,
    "atomic move": _move_atomically,
}


async def _until_served(cluster: EmbeddedCluster, old: EmbeddedServer) -> None:
    """Return when another node says that the slot is its own."""
    while True:
        with suppress(TopologyError):
            if await cluster.master_of(_TAG) is not old:
                return
        await asyncio.sleep(_LOOK_AGAIN)


# In the workers.


@dataclass
class _Outage:
    """What one side does meanwhile."""

    side: TaskSide
    prefix: str
    ends: list[int] = field(default_factory=list)
    last_began: int = 0
    errors: list[str] = field(default_factory=list)
    woken: list[float] = field(default_factory=list)
    kept: list[Callable[[], Awaitable[bool]]] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def begin(self, holds: int, waiters: int, probes: int) -> None:
        """Hold, wait, and keep on taking others."""
        for number in range(holds):
            self.kept.append(await self.side.keep(f"{self.prefix}held:{number}"))
        self.give_back = await self.side.lend(f"{self.prefix}wanted")
        self.tasks += [asyncio.create_task(self._wait()) for _ in range(waiters)]
        self.tasks += [asyncio.create_task(self._probe(number)) for number in range(probes)]

    async def _probe(self, number: int) -> None:
        done = 0
        while True:
            done += 1
            began = monotonic_ns()
            try:
                # A new name each time: what a failed release leaves held is in nobody's way.
                async with self.side.lock(f"{self.prefix}probe:{number}:{done}"):
                    pass
                self.ends.append(monotonic_ns())
                self.last_began = began
                await asyncio.sleep(0.005)
            except Exception as error:  # whatever a library raises counts as a failed call
                self.errors.append(type(error).__name__)
                await asyncio.sleep(0.02)

    async def _wait(self) -> None:
        while True:
            try:
                async with self.side.lock(f"{self.prefix}wanted"):
                    self.woken.append(monotonic())
                return
            except Exception as error:  # as above
                self.errors.append(type(error).__name__)
                await asyncio.sleep(0.02)

    async def end(self, patience: float, waiters: int) -> dict[str, Any]:
        """Give back what others wait for, see who hears of it, and what is still held."""
        released_at = monotonic()
        try:
            await asyncio.wait_for(self.give_back(), patience)
        except Exception as error:  # as above
            self.errors.append(type(error).__name__)
        late = self.tasks[:waiters]
        await asyncio.wait(late, timeout=max(0.0, released_at + patience - monotonic()))
        woken = list(self.woken)
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks, timeout=patience)
        held = await asyncio.gather(*[is_held() for is_held in self.kept], return_exceptions=True)
        return {
            "ends": self.ends,
            "errors": self.errors,
            "lost": sum(one is not True for one in held),
            "told": self.side.reported,
            "woken": len(woken),
            "after": woken[0] - released_at if woken else -1.0,
        }


_outages: dict[Side, _Outage] = {}


async def begin_outage(side: Side, **order: Any) -> str:
    """Hold locks, wait for one, and take others until `end_outage`."""
    if isinstance(side, ProgramSide):
        said: str = await side.order("begin_outage", **order)
        return said
    assert isinstance(side, TaskSide)
    _outages[side] = outage = _Outage(side, order.pop("prefix"))
    await outage.begin(**order)
    return "begun"


async def look_at_outage(side: Side) -> int:
    """Return when the last pair that has ended began, in nanoseconds of the monotonic clock."""
    if isinstance(side, ProgramSide):
        said: int = await side.order("look_at_outage")
        return said
    return _outages[side].last_began


async def end_outage(side: Side, **order: Any) -> dict[str, Any]:
    """Return what happened."""
    if isinstance(side, ProgramSide):
        said: dict[str, Any] = await side.order("end_outage", **order)
        return said
    return await _outages.pop(side).end(**order)
