"""What a hand-off costs when many clients want one name, each with a connection and one task."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import pairwise
from time import monotonic, monotonic_ns
from typing import Any, Self

import redis

from benchmarks.crew import Bench, Worker, alternately, start_worker
from benchmarks.harness import Table
from benchmarks.rivals import OURS, OURS_UVLOOP, REDIS_PY, REDISSON, RUEIDISLOCK
from benchmarks.rivals.kinds import (
    FAIR,
    FENCED,
    LOCK,
    NON_REENTRANT,
    ONE_EXPIRABLE,
    ONE_PERMIT,
    WRITE,
)
from benchmarks.rivals.side import CannotError
from benchmarks.scenarios.counting import processor_time
from benchmarks.scenarios.crowd_workers import BOTH_SIDES, Found
from benchmarks.scenarios.growth import row

NAME = "crowd"
NAME_KINDS = "crowd, every kind"

#: Who takes part, and what each sends for a lock. redis-py acquires by SET.
SENT = {
    OURS: ("evalsha",),
    OURS_UVLOOP: ("evalsha",),
    REDIS_PY: ("set", "evalsha"),
    RUEIDISLOCK: ("evalsha",),
    REDISSON: ("evalsha", "eval"),
}

#: What the command calls them, and what they are.
KINDS = {
    "lock": LOCK,
    "nonreentrant": NON_REENTRANT,
    "fenced": FENCED,
    "write": WRITE,
    "read": BOTH_SIDES,
    "semaphore": ONE_PERMIT,
    "permits": ONE_EXPIRABLE,
    "fair": FAIR,
}

#: Columns.
SCRIPTS = "scripts"
PUSHES = "pushes"
PUBLISHES = "PUBLISH"
SERVER = "server us"
RATE = "hand-offs/s"
GRANTS = "grants/s"
MEAN = "mean ms"
LONGEST = "longest wait ms"
ROUNDS = "longest wait in rounds"
EVENNESS = "Jain's index"

#: Seconds until all workers have their orders, and until the crowd has found its pace; and for
#: each client as many more.
_LEAD = 0.05
_PACE = 0.25
_EACH = 0.002

#: By so many times a crowd is watched longer for each client.
_LONGER = 0.004

#: Seconds for which everybody goes on while the end is looked at.
_BEYOND = 0.1

#: Seconds after which a crowd that should have left is given up.
_PATIENCE = 20.0

#: Milliseconds and seconds, in nanoseconds.
_MS = 1e6
_S = 1e9


@dataclass(frozen=True)
class Look:
    """What the server counted up to a moment."""

    at: int
    scripts: float
    publishes: float
    cpu: float

    @classmethod
    def of(cls, client: redis.Redis, sent: Sequence[str]) -> Self:
        """Look now; `sent` are the commands that count as scripts."""
        stats: Any = client.info("commandstats")

        def calls(*names: str) -> float:
            return sum((stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in names), 0.0)

        return cls(
            monotonic_ns(),
            calls(*sent),
            calls("publish", "spublish"),
            processor_time(client),
        )


async def measure(bench: Bench) -> list[Table]:
    """Measure the lock beside rivals, then every kind of ours; each side in one process."""
    size = bench.size
    title = "Hand-offs among clients with one task each, in one process"
    table = Table(NAME, f"{title}: the lock")
    kinds = Table(NAME_KINDS, f"{title}: every kind")
    async with AsyncExitStack() as stack:
        crowds: dict[str, Worker] = {}
        for side in SENT:
            if side == bench.ours or (side not in (OURS, OURS_UVLOOP) and bench.has(side)):
                try:
                    one = await start_worker(side, bench.url)
                except CannotError as reason:
                    table.absent[side] = str(reason)
                    continue
                stack.push_async_callback(one.kill)
                await one.do("warm_up", seconds=size.warm_up)
                await gather([one], bench.url, max(_numbers(bench, side)))
                crowds[side] = one
        for clients in size.clients:
            sides = [side for side in crowds if clients in _numbers(bench, side)]
            for _, side in alternately(sides, size.crowd_rounds):
                await _add(bench, table, row(side, clients), crowds, side, clients, LOCK)
        for kind in KINDS.values():
            for clients in size.clients:
                await _add(bench, kinds, row(kind, clients), crowds, bench.ours, clients, kind)
    table.notes += [
        "Per hand-off, a grant to another client than the one before: scripts of all clients"
        " (redis-py acquires by SET, which counts), messages to all (not counted of Redisson),"
        " PUBLISH, processor time of the server. In rounds: divided by clients x mean.",
        f"Each was watched for {size.crowd_seconds:g} s and"
        f" {size.crowd_seconds * _LONGER * 1e3:g} ms for each client. A wait about as long had not"
        " ended.",
        f"Redisson has threads for each client, so at most {size.most_clients_in_java} clients.",
    ]
    kinds.notes.append(f"All by {bench.ours}.")
    return [table, kinds]


def _numbers(bench: Bench, side: str) -> list[int]:
    """Return how many clients of a side take part, from case to case."""
    size = bench.size
    most = size.most_clients_in_java if side == REDISSON else max(size.clients)
    return [clients for clients in size.clients if clients <= most]


async def _add(
    bench: Bench,
    table: Table,
    heading: str,
    crowds: dict[str, Worker],
    side: str,
    clients: int,
    kind: str,
) -> None:
    """Watch a crowd of a side and add what was found; one that does not stop is left out then."""
    if side not in crowds:
        return
    try:
        found = await crowd(
            [crowds[side]],
            bench.url,
            clients=clients,
            kind=kind,
            seconds=bench.size.crowd_seconds * (1 + clients * _LONGER),
            sent=SENT[side],
        )
    except TimeoutError:
        await crowds.pop(side).kill()
        table.absent[heading] = "did not stop; it is left out from here"
    else:
        table.add(heading, found)


async def crowd(
    workers: Sequence[Worker],
    url: str,
    *,
    clients: int,
    kind: str = LOCK,
    seconds: float,
    hold: float = 0.0,
    pause: float = 0.0,
    sent: Sequence[str] = ("evalsha",),
) -> dict[str, float]:
    """Have that many clients, spread over the workers, want one name; return a row of figures.

    Args:
        workers: They must have gathered so many: `gather`.
        url: The server.
        clients: How many.
        kind: Of the name.
        seconds: For which they are watched, at their pace.
        hold: Seconds for which each is in.
        pause: Seconds after which it asks again.
        sent: The commands that count as scripts.

    Raises:
        TimeoutError: They do not stop.
    """
    start_at = monotonic() + _LEAD + clients * _EACH
    end_at = start_at + _PACE + clients * _EACH + seconds
    name = f"crowd:{start_at}"
    order = {"kind": kind, "name": name, "hold": hold, "pause": pause}
    async with asyncio.timeout(seconds + _PATIENCE), asyncio.TaskGroup() as together:
        jobs = [
            together.create_task(
                one.do("in_crowd", **order, **share, start_at=start_at, end_at=end_at + _BEYOND)
            )
            for one, share in zip(workers, shares(clients, len(workers)), strict=True)
        ]
        with redis.Redis.from_url(url) as looking:
            looking.ping()
            looks = []
            for moment in (end_at - seconds, end_at):
                await asyncio.sleep(moment - monotonic())
                looks.append(await asyncio.to_thread(Look.of, looking, sent))
    return figures([job.result() for job in jobs], clients, *looks)


async def gather(workers: Sequence[Worker], url: str, clients: int) -> None:
    """Have the workers connect so many clients, unless they have them."""
    await asyncio.gather(
        *[
            one.do("gather_crowd", url=url, clients=share["clients"])
            for one, share in zip(workers, shares(clients, len(workers)), strict=True)
        ]
    )


def shares(clients: int, workers: int) -> list[dict[str, int]]:
    """Return how many clients each worker has, and the number of its first."""
    bounds = [clients * number // workers for number in range(workers + 1)]
    return [{"clients": end - first, "first": first} for first, end in pairwise(bounds)]


def figures(found: Sequence[Found], clients: int, before: Look, after: Look) -> dict[str, float]:
    """Return what happened between two looks at the server."""
    visits = [visit for one in found for visit in one["visits"]]
    grants = sorted((begin, party) for _, begin, party in visits if before.at <= begin <= after.at)
    seconds = (after.at - before.at) / _S
    hand_offs = sum(one != other for (_, one), (_, other) in pairwise(grants))
    counts = Counter(party for _, party in grants).values()
    row = {
        RATE: hand_offs / seconds,
        GRANTS: len(grants) / seconds,
        LONGEST: _longest_wait(visits, before.at, after.at) / _MS,
    }
    if not hand_offs:
        return row
    noted = [one["pushes"] for one in found if "pushes" in one]
    pushes = sum(before.at <= at <= after.at for each in noted for at in each)
    mean = seconds * 1e3 / hand_offs
    return {
        SCRIPTS: (after.scripts - before.scripts) / hand_offs,
        **({PUSHES: pushes / hand_offs} if noted else {}),
        PUBLISHES: (after.publishes - before.publishes) / hand_offs,
        SERVER: (after.cpu - before.cpu) * 1e6 / hand_offs,
        **row,
        MEAN: mean,
        ROUNDS: row[LONGEST] / (clients * mean),
        EVENNESS: sum(counts) ** 2 / (clients * sum(count**2 for count in counts)),
    }


def _longest_wait(visits: list[tuple[int, int, int]], start: int, end: int) -> int:
    """Return the longest wait that ended in that time, or that had not ended yet."""
    return max(
        (
            min(begin or end, end) - asked
            for asked, begin, _ in visits
            if asked < end and (not begin or begin >= start)
        ),
        default=0,
    )
