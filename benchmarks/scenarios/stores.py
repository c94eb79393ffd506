"""Stores other than Redis: ours beside what a user of each store would take there.

Each store has one server here, which syncs what it writes: that is most of what a pair costs.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.crew import Bench, Worker, alternately, worker
from benchmarks.harness import Spread, Table
from benchmarks.rivals import ON_STORES
from benchmarks.rivals.side import CannotError
from benchmarks.scenarios.handoff import HandOffs, summary
from benchmarks.scenarios.uncontended import column

NAME = "stores"

HAND_OFF = "hand-off us"
PER_SECOND = "hand-offs/s"
_TASKS = (1, 64)
#: Two clients hand the lock to each other.
_CLIENTS = 2
#: Seconds until both have their orders.
_LEAD = 0.05


async def measure(bench: Bench) -> Table:
    """Measure one store after the other, each on a server of its own."""
    table = Table(
        NAME,
        "Other stores: pairs a second, a name a task; hand-off between two clients of one name",
    )
    for store, entries in ON_STORES.items():
        try:
            async with AsyncExitStack() as stack:
                url = _start(stack.enter_context(ExitStack()), store)
                await _on_one(bench, table, [*entries], url)
        except CannotError as reason:
            table.absent |= dict.fromkeys(entries, str(reason))
    table.notes.append(
        "ours : it is the ratio of ours to that row, round by round; of hand-offs less is better."
    )
    return table


async def _on_one(bench: Bench, table: Table, sides: list[str], url: str) -> None:
    size = bench.size
    tasks = [each for each in _TASKS if each <= max(size.tasks)]
    async with AsyncExitStack() as stack:
        crews: dict[str, list[Worker]] = {}
        for side in sides:
            try:
                crews[side] = [
                    await stack.enter_async_context(worker(side, url)) for _ in range(_CLIENTS)
                ]
            except CannotError as reason:
                table.absent[side] = str(reason)
        for number in tasks:
            for crew in crews.values():
                # Names are made, connections opened.
                await crew[0].do("pairs", tasks=number, seconds=size.seconds)
            for _, side in alternately(crews, size.rounds):
                found = await crews[side][0].do("pairs", tasks=number, seconds=size.seconds)
                table.add(side, {column(number): found["rate"]})
        for _, side in alternately(crews, size.other_rounds):
            await _hand_over(table, side, crews[side], size.slow_seconds)
    ours = sides[0]
    for side in sides[1:]:
        for head in (*map(column, tasks), HAND_OFF):
            mine, its = table.find(ours, head), table.find(side, head)
            if mine is not None and its is not None:
                table.rows[side][f"ours : it, {head}"] = Spread(mine.relative_to(its).rounds)


async def _hand_over(table: Table, side: str, crew: list[Worker], seconds: float) -> None:
    start_at = monotonic() + _LEAD
    lists = await asyncio.gather(
        *[
            one.do("sections", tasks=1, seconds=seconds, name=f"over:{start_at}", start_at=start_at)
            for one in crew
        ]
    )
    of_all = [(begin, end, who) for who, found in enumerate(lists) for begin, end, _ in found]
    found: HandOffs | None = summary(of_all, len(crew))
    figures = {PER_SECOND: 0.0}
    if found is not None:
        figures = {HAND_OFF: found["median"], PER_SECOND: found["hand_offs"] / seconds}
    table.add(side, figures)


# The servers are those of the tests, with what tests spare themselves: syncing.


def _start(running: ExitStack, store: str) -> str:
    """Start a server of a store until the block ends; return its URL.

    Raises:
        CannotError: What it needs is not installed.
    """
    try:
        import pytest

        from tests.stores.etcd.server import EtcdServer
        from tests.stores.mysql.server import DATABASE, running_mariadb
        from tests.stores.postgres.server import running_postgres
        from tests.stores.zookeeper.server import running_zookeeper
    except ImportError as error:
        raise CannotError(f"no server: not installed ({error})") from error
    folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
    make: dict[str, Callable[[], Any]] = {
        "postgres": lambda: running_postgres(18, fsync="on", max_connections="200"),
        "mysql": lambda: running_mariadb("--skip-log-bin", "--max-connections=200"),
        "etcd": EtcdServer,
        "zookeeper": lambda: running_zookeeper(folder, "-Dzookeeper.forceSync=yes"),
    }
    try:
        server = running.enter_context(make[store]())
    except FileNotFoundError as error:
        raise CannotError(f"no server: {error}") from error
    except (pytest.skip.Exception, pytest.fail.Exception) as reason:
        raise CannotError(f"no server: {reason}") from None
    # tooz takes the password as it stands in the URL: one with nothing special in it.
    admin = f"mysql://admin:admin@127.0.0.1:{server.port}/{DATABASE}" if store == "mysql" else ""
    return admin or str(server.url)
