"""Nobody starves and nobody is let in wrongly, by the record of the database, also under attack."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from redisson_py.errors import ConnectionLostError
from redisson_py.postgres import Postgres
from tests.stores.postgres import record
from tests.stores.postgres.scene import connected
from tests.stores.postgres.server import PostgresServer, running_postgres
from tests.stores.raw_proxy import RawProxy
from tests.support.waiting import until, until_async

PERMITS = 3


@asynccontextmanager
async def clients_of(url: str, count: int, **options: Any) -> AsyncIterator[list[Postgres]]:
    """Clients that pass nothing on among their tasks: the database decides."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(Postgres.from_url(url, turn=0, **options))
            for _ in range(count)
        ]


#: How the few hold it, how the many do.
HOW: dict[str, tuple[Callable[[Any, str], Any], Callable[[Any, str], Any]]] = {
    "w": (
        lambda client, name: client.get_read_write_lock(name).write_lock(),
        lambda client, name: client.get_read_write_lock(name).read_lock(),
    ),
    "r": (
        lambda client, name: client.get_read_write_lock(name).read_lock(),
        lambda client, name: client.get_read_write_lock(name).write_lock(),
    ),
    "p": (
        lambda client, name: client.get_semaphore(name, PERMITS).hold(PERMITS),
        lambda client, name: client.get_semaphore(name, PERMITS),
    ),
}


@pytest.fixture(scope="module")
def recorded() -> Any:
    """A server that records; those of its tests that attack have servers of their own."""
    with running_postgres() as server:
        asyncio.run(begin(server))
        yield server


async def begin(server: PostgresServer) -> None:
    async with Postgres.from_url(server.url) as client, connected(server.url) as raw:
        assert await client.get_semaphore("made").available() == 0
        await record.begin(raw)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("mode", HOW)
async def test_few_among_many_do_not_starve(recorded: PostgresServer, mode: str) -> None:
    """The many never stop while the few want it: who starves would never end.

    Writers among readers, readers among writers, who wants all permits among those that want one.
    """
    name, rounds = f"few {mode}", 12
    few, many = HOW[mode]
    wanting = 2
    entered = Counter[str]()

    async def want(client: Postgres) -> None:
        nonlocal wanting
        for _ in range(rounds):
            async with few(client, name):
                entered["few"] += 1
        wanting -= 1

    async def go_on(client: Postgres) -> None:
        while wanting:
            async with many(client, name):
                entered["many"] += 1
                await asyncio.sleep(0)

    async with clients_of(recorded.url, 5) as clients:
        async with asyncio.TaskGroup() as group:
            for client in clients[:2]:
                group.create_task(want(client))
            for client in clients[2:]:
                for _ in range(2):
                    group.create_task(go_on(client))
    async with connected(recorded.url) as raw:
        found = await record.judged(raw, name)
    # Each of them was granted by the database, and most had to wait for the many.
    assert found.granted.total() == entered.total()
    assert entered["few"] == 2 * rounds
    assert found.waited[mode] >= rounds
    assert entered["many"] >= rounds


@pytest.mark.timeout(180)
async def test_killed_connections_lost_replies_and_restarts() -> None:
    """None is let in who must not, nothing is left held, and what is held stays so."""
    inside, sections, attacking = Counter[str](), 0, True
    name, attacks = "attacked", 16

    def enter(mode: str, units: int = 1) -> None:
        inside[mode] += units
        assert inside["w"] <= 1
        assert not (inside["w"] and inside["r"])
        assert inside["p"] <= PERMITS

    async def work(client: Postgres, number: int) -> None:
        nonlocal sections
        both, semaphore = client.get_read_write_lock(name), client.get_semaphore(name, PERMITS)
        for index in itertools.count(number):
            if not attacking:
                return
            mode = "rwp"[index % 3]
            units = 1 + index // 3 % PERMITS if mode == "p" else 1
            side = both.read_lock() if mode == "r" else both.write_lock()
            block = semaphore.hold(units) if mode == "p" else side.hold()
            with contextlib.suppress(ConnectionLostError):
                async with block:
                    enter(mode, units)
                    await asyncio.sleep(0)
                    inside[mode] -= units
                    sections += 1

    async def attack(server: PostgresServer, proxy: RawProxy) -> None:
        nonlocal attacking
        for number in range(attacks):
            seen = sections
            # They go on after each.
            await until(lambda seen=seen: sections >= seen + 5, 60)  # type: ignore[misc]
            if number % 4 == 0:
                proxy.lose_next()
            elif number % 4 == 1:
                proxy.cut()
            elif number % 4 == 2:
                async with connected(server.url) as raw:
                    await raw.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                        " WHERE pid <> pg_backend_pid() AND datname = current_database()"
                    )
            else:
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
        attacking = False

    with running_postgres() as server:
        await begin(server)
        async with RawProxy(server.port) as proxy:
            url = server.url_of("postgres", port=proxy.port)
            # No lease ends here: what is held stays held.
            options = {"lease_time": 600.0, "command_timeout": 30.0}
            async with clients_of(url, 3, **options) as clients:
                async with asyncio.TaskGroup() as group:
                    group.create_task(attack(server, proxy))
                    for number, client in enumerate(clients * 3):
                        group.create_task(work(client, number))
                proxy.pass_through()
                semaphore = clients[0].get_semaphore(name)
                both = clients[0].get_read_write_lock(name)

                async def is_free() -> bool:
                    return (await semaphore.available(), (await both.inspect()).holders) == (
                        PERMITS,
                        (),
                    )

                # What got no answer is given back.
                await until_async(is_free)
                async with both.write_lock(), semaphore.hold(PERMITS):
                    pass
        async with connected(server.url) as raw:
            found = await record.judged(raw, name)
    assert sections >= 5 * attacks
    assert found.granted.total() >= sections
    assert all(found.granted[mode] for mode in "rwp")
