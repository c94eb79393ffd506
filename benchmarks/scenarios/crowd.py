"""What a hand-off costs when many clients want one name, each with a connection and one task."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from time import monotonic, monotonic_ns
from typing import Any, Self, TypedDict

import hiredis
import redis

from benchmarks.crew import Worker
from benchmarks.rivals.kinds import (
    FAIR,
    FENCED,
    LOCK,
    NON_REENTRANT,
    ONE_EXPIRABLE,
    ONE_PERMIT,
    READ,
    WRITE,
)
from benchmarks.rivals.side import Side, TaskSide

#: Clients with odd numbers write, the others read.
BOTH_SIDES = "read and write side, half each"

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

#: Seconds until all workers have their orders, and until the crowd has found its pace.
_LEAD = 0.05
_PACE = 0.25

#: Seconds for which everybody goes on while the end is looked at, and after which all should
#: have left.
_BEYOND = 0.1
_GRACE = 10.0

#: Seconds after which a crowd that should have left is given up.
_PATIENCE = 20.0

#: Milliseconds and seconds, in nanoseconds.
_MS = 1e6
_S = 1e9


class Found(TypedDict):
    """What a worker saw, in nanoseconds of the clock that all processes of a machine share.

    Attributes:
        visits: When each asked and was in (0: not any more), and its number.
        pushes: When a message came in.
    """

    visits: list[tuple[int, int, int]]
    pushes: list[int]


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
        cpu: Any = client.info("cpu")

        def calls(*names: str) -> float:
            return sum((stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in names), 0.0)

        return cls(
            monotonic_ns(),
            calls(*sent),
            calls("publish", "spublish"),
            cpu["used_cpu_user"] + cpu["used_cpu_sys"],
        )


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
    start_at = monotonic() + _LEAD
    end_at = start_at + _PACE + seconds
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
    pushes = sum(before.at <= at <= after.at for one in found for at in one["pushes"])
    mean = seconds * 1e3 / hand_offs
    return {
        SCRIPTS: (after.scripts - before.scripts) / hand_offs,
        PUSHES: pushes / hand_offs,
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


# In the workers.

#: The clients of this worker, in the order of their numbers.
_CLIENTS: list[TaskSide] = []

#: When a message came in, to any of them.
_PUSHES: list[int] = []


class _Reader(hiredis.Reader):
    """Notes when messages come in."""

    def gets(self, *args: Any) -> Any:
        """As hiredis does."""
        reply = super().gets(*args)
        if type(reply) is hiredis.PushNotification and reply[0] in (b"message", b"smessage"):
            _PUSHES.append(monotonic_ns())
        return reply


async def gather_crowd(side: Side, *, url: str, clients: int) -> None:
    """Connect clients until there are so many."""
    assert isinstance(side, TaskSide)
    hiredis.Reader = _Reader  # type: ignore[misc]
    while len(_CLIENTS) < clients:
        one = type(side)()
        await one.open(url)
        _CLIENTS.append(one)


async def in_crowd(
    side: Side,
    *,
    clients: int,
    first: int,
    kind: str,
    name: str,
    hold: float,
    pause: float,
    start_at: float,
    end_at: float,
) -> Found:
    """Have one task of each client go in and out of one name; return what they saw."""
    del side
    _PUSHES.clear()
    found: list[list[int]] = []

    async def visit(client: TaskSide, number: int) -> None:
        its = kind
        if kind == BOTH_SIDES:
            its = WRITE if number % 2 else READ
        # Whatever only the first pair of a client costs.
        async with client.made(its, f"{name}:{number}"):
            pass
        await asyncio.sleep(start_at - monotonic())
        entered = client.made(its, name)
        while monotonic() < end_at:
            ask = [monotonic_ns(), 0, number]
            found.append(ask)
            async with entered:
                ask[1] = monotonic_ns()
                if hold:
                    await asyncio.sleep(hold)
            if pause:
                await asyncio.sleep(pause)

    users = [
        asyncio.create_task(visit(client, first + number))
        for number, client in enumerate(_CLIENTS[:clients])
    ]
    done, late = await asyncio.wait(users, timeout=end_at - monotonic())
    for one in done:
        one.result()
    for one in late:
        one.cancel()
    if late:
        await asyncio.wait(late, timeout=_GRACE)
    return {"visits": [(asked, begin, party) for asked, begin, party in found], "pushes": _PUSHES}
