"""A crowd of clients that want one name: what a hand-off costs, and who gets how many.

The clients of one process are as separate as those of many: each has its own connections and
channels. By hand, on a server of its own that syncs what it writes:
`python -m tests.stores.crowd postgres 2 8 32`, or `mysql`; `--hold 0.2` for longer sections.
"""

from __future__ import annotations

import argparse
import asyncio
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any

import asyncmy.connection
import asyncpg

from redisson_py.errors import AcquireTimeoutError
from redisson_py.mysql import MySQL
from redisson_py.postgres import Postgres

NAME = "crowd"


@dataclass(frozen=True, slots=True)
class Visit:
    """One section: whose, when it was wanted, and when it began."""

    who: int
    wanted: float
    begun: float


@dataclass(frozen=True, slots=True)
class Crowd:
    """What was seen in the time of a crowd.

    Attributes:
        clients: How many wanted the name, all the time.
        seconds: For how long.
        visits: The sections, in their order.
        statements: How many statements the clients sent, each one a transaction.
    """

    clients: int
    seconds: float
    visits: Sequence[Visit]
    statements: int

    @property
    def counts(self) -> list[int]:
        """How many sections each client had."""
        return [sum(each.who == who for each in self.visits) for who in range(self.clients)]

    @property
    def statements_each(self) -> float:
        """How many statements a hand-off took."""
        return self.statements / len(self.visits)

    @property
    def fairness(self) -> float:
        """Jain's index: 1.0 if all had the same number of sections."""
        counts = self.counts
        return sum(counts) ** 2 / (len(counts) * sum(each * each for each in counts))

    @property
    def longest_wait(self) -> float:
        """In rounds, of as many sections as there are clients."""
        begun = sorted(each.begun for each in self.visits)
        passed = (bisect(begun, each.begun) - bisect(begun, each.wanted) for each in self.visits)
        return max(passed) / self.clients


@contextmanager
def counted() -> Iterator[Callable[[], int]]:
    """Count the statements that clients of this process send to databases."""
    sent = 0

    def counting(method: Any) -> Any:
        async def count(*args: Any, **options: Any) -> Any:
            nonlocal sent
            sent += 1
            return await method(*args, **options)

        return count

    places = [
        (asyncpg.Connection, "fetch"),
        (asyncpg.Connection, "execute"),
        (asyncmy.connection.Connection, "query"),
    ]
    before = [(kind, name, getattr(kind, name)) for kind, name in places]
    for kind, name, method in before:
        setattr(kind, name, counting(method))
    try:
        yield lambda: sent
    finally:
        for kind, name, method in before:
            setattr(kind, name, method)


async def crowd(
    make: Callable[[], Any],
    clients: int,
    rounds: int,
    hold: float = 0.0,
) -> Crowd:
    """Have clients want one name all the time; look at what they do after two rounds."""
    visits: list[Visit] = []
    first, last = 2 * clients, (2 + rounds) * clients

    async def want(who: int, client: Any) -> None:
        lock = client.get_lock(NAME)
        while len(visits) < last:
            wanted = monotonic()
            async with lock:
                visits.append(Visit(who, wanted, monotonic()))
                if len(visits) in (first, last):
                    marks.append((sent(), monotonic()))
                if hold:
                    await asyncio.sleep(hold)

    async with AsyncExitStack() as stack:
        made = [await stack.enter_async_context(make()) for _ in range(clients)]
        await asyncio.gather(*(client.ping() for client in made))
        await _have_waited(made)
        with counted() as sent:
            marks: list[tuple[int, float]] = []
            await asyncio.gather(*(want(who, client) for who, client in enumerate(made)))
    (before, began), (after, ended) = marks
    return Crowd(clients, ended - began, visits[first:last], after - before)


async def _have_waited(clients: Sequence[Any]) -> None:
    """Have each client wait once in vain: it listens from then on."""
    for holder, others in ((clients[0], clients[1:]), (clients[-1], clients[:1])):
        async with holder.get_lock("warm"):
            waits = (client.get_lock("warm").acquire(timeout=1) for client in others)
            answers = await asyncio.gather(*waits, return_exceptions=True)
            assert all(isinstance(each, AcquireTimeoutError) for each in answers)


async def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", choices=["postgres", "mysql"])
    parser.add_argument("clients", type=int, nargs="+")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--hold", type=float, default=0.0)
    asked = parser.parse_args()
    from tests.stores.mysql.server import running_mariadb
    from tests.stores.postgres.server import running_postgres

    with ExitStack() as running:
        if asked.store == "postgres":
            postgres = running.enter_context(running_postgres(fsync="on", max_connections="300"))
            make: Callable[[], Any] = partial(Postgres.from_url, postgres.url, connections=1)
        else:
            options = "--skip-log-bin", "--max-connections=300"
            mysql = running.enter_context(running_mariadb(*options))
            make = partial(MySQL.from_url, f"{mysql.url()}?connections=1")
        for clients in asked.clients:
            found = await crowd(make, clients, asked.rounds, asked.hold)
            rate = len(found.visits) / found.seconds
            print(  # noqa: T201
                f"{clients:4} clients: {rate:7.1f} sections/s, {found.statements_each:6.2f}"
                f" statements each, {found.statements / found.seconds:.0f} statements/s,"
                f" Jain {found.fairness:.3f}, longest wait {found.longest_wait:.1f} rounds,"
                f" {max(each.begun - each.wanted for each in found.visits):.2f} s"
            )


if __name__ == "__main__":
    asyncio.run(_main())
