"""Pairs a second on a cluster and with Sentinel, beside one server and beside others' clients."""

from __future__ import annotations

from contextlib import AsyncExitStack

from benchmarks.crew import Bench, Worker, alternately, worker
from benchmarks.harness import Table
from benchmarks.rivals import (
    OURS,
    OURS_UNSYNCED,
    OURS_UVLOOP,
    REDIS_PY,
    REDIS_PY_CLUSTER,
    REDISSON,
)
from benchmarks.rivals.side import CannotError
from benchmarks.scenarios.uncontended import column
from redisson_py.testing import running_cluster, running_sentinel

NAME = "topologies"
NAME_CPU = "processor time on topologies"
ONE, CLUSTER, SENTINEL = "one server", "cluster", "Sentinel"


def row(side: str, server: str) -> str:
    """Return the name of the row of a side at one place."""
    return f"{server}: {side}"


async def measure(bench: Bench) -> list[Table]:
    """Measure on servers of their own, with workers of their own."""
    size = bench.size
    table = Table(NAME, "Acquire+release pairs a second where servers are several, a name a task")
    cpu = Table(NAME_CPU, "Processor time of the client in those rounds, seconds a million pairs")
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(running_cluster(bench.kind))
        sentinel = await stack.enter_async_context(running_sentinel(bench.kind))
        servers = {
            ONE: (bench.url, (OURS, OURS_UVLOOP, REDIS_PY, REDISSON)),
            CLUSTER: (
                cluster.url,
                (OURS, OURS_UVLOOP, OURS_UNSYNCED, REDIS_PY_CLUSTER, REDISSON),
            ),
            SENTINEL: (sentinel.url, (OURS, OURS_UNSYNCED)),
        }
        crew: dict[str, Worker] = {}
        for server, (url, sides) in servers.items():
            for side in sides:
                if not bench.has(side):
                    continue
                try:
                    one = await stack.enter_async_context(worker(side, url))
                except CannotError as reason:
                    table.absent[row(side, server)] = str(reason)
                    continue
                if not await one.do("warm_up", seconds=size.warm_up):
                    table.notes.append(f"{row(side, server)}: was still getting faster.")
                crew[row(side, server)] = one
        for tasks in size.topology_tasks:
            orders = {
                name: {"tasks": tasks, "prefix": f"topologies:{number}"}
                for number, name in enumerate(crew)
            }
            for name, one in crew.items():
                await one.do("pairs", seconds=size.seconds / 2, **orders[name])
            for _, name in alternately(crew, size.topology_rounds):
                found = await crew[name].do("pairs", seconds=size.seconds, **orders[name])
                table.add(name, {column(tasks): found["rate"]})
                cpu.add(name, {column(tasks): found["cpu"]})
    table.notes.append(
        "A cluster of three masters with a replica each, a master with two replicas and three"
        " Sentinels; all of them share this machine's processors with the client. Except with"
        " sync_replicas=0, ours has a replica confirm each grant there, and Redisson all replicas."
    )
    return [table, cpu]
