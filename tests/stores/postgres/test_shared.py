"""What several hold at once: who comes next, what comes twice or late, and what is old."""

from __future__ import annotations

import asyncio
import itertools
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import asyncpg
import pytest

from redisson_py._stores.contract import Busy, Granted, Kind, Renewal, Wish
from redisson_py._stores.executor import StoreExecutor
from redisson_py._stores.postgres import PostgresStore, shared_sql, sql
from redisson_py._stores.postgres.queue import POLL_SECONDS
from redisson_py._stores.postgres.table import shared_id_of
from redisson_py.errors import AcquireTimeoutError, BackendError, LeaseLostError
from redisson_py.postgres import Postgres
from tests.stores.databases import Bell, granted, soon
from tests.stores.postgres import older
from tests.stores.postgres.scene import connected, id_of, started, until_blocked
from tests.stores.postgres.server import PostgresServer, running_pgbouncer
from tests.stores.raw_proxy import RawProxy
from tests.stores.test_database_crowds import counted
from tests.support.waiting import set_safety_poll, until, until_async, until_waiting

_names = itertools.count()


@pytest.fixture
def name() -> str:
    return f"shared {next(_names)}"


@pytest.fixture
def no_safety_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have waiters asked again by nothing but what the store tells."""
    set_safety_poll(monkeypatch, 100_000.0)


class Owners(Bell):
    """Remembers for whom it rang."""

    def __init__(self) -> None:
        super().__init__()
        self.owners: list[str | None] = []

    def ring(self, name: str, owner: str | None = None) -> None:
        self.owners.append(owner)
        super().ring(name, owner)


def wish(
    name: str, who: str, kind: Kind, units: int = 1, *, lease: float = 30.0, waits: bool = False
) -> Wish:
    return Wish(name, who, lease, True, waits, 0, kind, units=units, permits=None)


async def got(store: PostgresStore, asked: Wish) -> Granted:
    answer = await store.ask(asked, soon())
    assert isinstance(answer, Granted)
    return answer


async def was_busy(store: PostgresStore, asked: Wish) -> float:
    answer = await store.ask(asked, soon())
    assert isinstance(answer, Busy)
    return answer.retry_in or 0.0


def shared_row(name: str, kind: str = "semaphore") -> bytes:
    return shared_id_of(kind, name)


# Who comes next.


async def test_only_those_that_may_go_on_are_called(server: PostgresServer, name: str) -> None:
    bells = [Owners() for _ in range(4)]
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(started(server.url))
        others = [await stack.enter_async_context(started(server.url, each)) for each in bells]
        await got(one, wish(name, "w:1", "write"))
        kinds: list[Kind] = ["read", "read", "write", "read"]
        asked = [
            wish(name, f"{kind[0]}{number}:1", kind, waits=True)
            for number, kind in enumerate(kinds)
        ]
        for store, each in zip(others, asked, strict=True):
            await was_busy(store, each)
        assert await one.give_back(name, "w:1", False, soon(), "write")
        await bells[0].wait()
        await bells[1].wait()
        # The writer looks after them, and the reader behind it sleeps on.
        await bells[2].wait()
        for store, each in zip(others[:2], asked[:2], strict=True):
            await got(store, each)
        assert await was_busy(others[2], asked[2]) > 1
        await was_busy(others[3], asked[3])
        assert [each.owners for each in bells] == [["r0:1"], ["r1:1"], ["w2:1"], []]
        for number in range(2):
            assert await others[number].give_back(name, asked[number].owner, False, soon(), "read")
        await bells[2].wait()
        await got(others[2], asked[2])


async def test_one_who_wants_many_is_not_overtaken(server: PostgresServer, name: str) -> None:
    bell = Owners()
    async with started(server.url) as one, started(server.url, bell) as other:
        assert await one.change_permits(name, "r:1", "make", 3, None, soon()) == 1
        await got(one, wish(name, "a:1", "permit", 2))
        many = wish(name, "many:1", "permit", 3, waits=True)
        await was_busy(other, many)
        # One is free, and nobody gets it before.
        await was_busy(one, wish(name, "few:1", "permit"))
        await was_busy(one, wish(name, "few:2", "permit", waits=True))
        assert await one.lower_units(name, "a:1", 1, soon()) == 1
        assert bell.owners == []
        assert await one.give_back(name, "a:1", False, soon(), "permit")
        await bell.wait()
        await got(other, many)


async def test_dead_waiters_are_passed_over(server: PostgresServer, name: str) -> None:
    """Nobody hears what is sent to them."""
    async with started(server.url) as one, connected(server.url) as raw:
        await got(one, wish(name, "r:1", "read"))
        row = shared_row(name, "read-write lock")
        for number in range(3):
            await raw.fetch(
                shared_sql.ASK, row, f"dead:{number}", "w", 1, 30.0, "x", None, None, None
            )
        asked = wish(name, "w:1", "write", waits=True)
        await was_busy(one, asked)
        await one.give_back(name, "r:1", False, soon(), "read")

        async def is_granted() -> bool:
            return isinstance(await one.ask(asked, soon()), Granted)

        await until_async(is_granted)
        # They keep their places, should they ask after all.
        assert len((await one.look(name, soon(), "write")).waiters or ()) == 3


@pytest.mark.usefixtures("no_safety_poll")
@pytest.mark.parametrize("kind", ["permit", "write"])
async def test_the_end_of_a_dead_holders_lease_is_enough(
    server: PostgresServer, name: str, kind: Kind
) -> None:
    """By the clock of the server; the holder never says anything again."""
    async with started(server.url) as dead, Postgres.from_url(server.url) as client:
        if kind == "permit":
            await dead.change_permits(name, "r:1", "make", 1, None, soon())
        began = asyncio.get_running_loop().time()
        await got(dead, wish(name, "dead:1", kind, lease=3.0))
        thing: Any = (
            client.get_semaphore(name)
            if kind == "permit"
            else client.get_read_write_lock(name).read_lock()
        )
        async with thing:
            assert asyncio.get_running_loop().time() - began >= 2.9


@pytest.mark.usefixtures("no_safety_poll")
async def test_a_killed_process_gives_its_permits_back(server: PostgresServer, name: str) -> None:
    program = (
        "import asyncio, sys\n"
        "from redisson_py.postgres import Postgres\n"
        "async def main():\n"
        "    async with Postgres.from_url(sys.argv[1], lease_time=3) as client:\n"
        "        async with client.get_semaphore(sys.argv[2], 2).hold(2):\n"
        "            print('held', flush=True)\n"
        "            await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    arguments = (sys.executable, "-c", program, server.url, name)
    process = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"held\n"
    async with Postgres.from_url(server.url) as client:
        waiting = asyncio.create_task(client.get_semaphore(name).acquire())
        await until_waiting(client, 1)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        permit = await waiting
        assert await client.get_semaphore(name).available() == 1
        await permit.release()


@pytest.mark.usefixtures("no_safety_poll")
@pytest.mark.timeout(120)
async def test_a_crowd_keeps_the_rules(server: PostgresServer, name: str) -> None:
    """Readers never starve a writer, no more permits are out than there are, nobody polls."""
    counts, most = Counter[str](), 0

    async def section(kind: str, units: int = 1) -> None:
        nonlocal most
        counts[kind] += units
        assert not (counts["write"] and counts["read"])
        assert counts["write"] <= 1
        most = max(most, counts["permit"])
        assert counts["permit"] <= 5
        await asyncio.sleep(0)
        counts[kind] -= units

    async def worker(client: Postgres, number: int) -> None:
        lock, semaphore = client.get_read_write_lock(name), client.get_semaphore(name, 5)
        for index in range(6):
            if number % 4 == 0:
                async with lock.write_lock():
                    await section("write")
            else:
                async with lock.read_lock():
                    await section("read")
            units = 1 + (number + index) % 5
            async with semaphore.hold(units):
                await section("permit", units)

    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(Postgres.from_url(server.url, connections=1))
            for _ in range(6)
        ]
        await asyncio.gather(*(worker(client, number) for number in range(4) for client in clients))
        assert most > 1
        assert await clients[0].get_semaphore(name).available() == 5
        assert not (await clients[0].get_read_write_lock(name).inspect()).holders


@pytest.mark.usefixtures("no_safety_poll")
async def test_waiting_sends_nothing(server: PostgresServer, name: str) -> None:
    """It asks three times until it listens, and once when it was called."""
    async with Postgres.from_url(server.url) as one, Postgres.from_url(server.url) as other:
        async with other.get_semaphore("warm", 1), one.get_semaphore(name, 1):
            with pytest.raises(AcquireTimeoutError):
                await other.get_semaphore("warm").acquire(timeout=0.3)
            before = other.statistics().commands_sent
            waiting = [asyncio.create_task(other.get_semaphore(name).acquire()) for _ in range(20)]
            await until_waiting(other, 20)
            store: Any = other._store

            async def waits() -> bool:
                return len((await store.permits(name, soon())).waiters) == 1

            await until_async(waits)
            # One for each that came while nobody waited yet, and those of the head.
            assert other.statistics().commands_sent - before <= 22
        for number, each in enumerate(asyncio.as_completed(waiting)):
            await (await each).release()
            assert number < 20


def all_hear(clients: Sequence[Postgres]) -> bool:
    stores: list[Any] = [client._store for client in clients]
    return all(each._listening is not None and each._listening.hears for each in stores)


@pytest.mark.usefixtures("no_safety_poll")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("clients", [2, 6, 24])
@pytest.mark.parametrize("kind", ["write", "permit"])
async def test_a_hand_off_costs_the_same_for_any_number_of_clients(
    server: PostgresServer, name: str, clients: int, kind: Kind
) -> None:
    """The release, the request of the one that was called, and that of one that waits again."""
    begun, sections = 0, 12 * clients

    def thing(client: Postgres, name: str) -> Any:
        if kind == "permit":
            return client.get_semaphore(name, 1)
        return client.get_read_write_lock(name).write_lock()

    async def want(client: Postgres) -> None:
        nonlocal begun
        while begun < sections:
            async with thing(client, name):
                begun += 1
                await asyncio.sleep(0)

    async with AsyncExitStack() as stack:
        made = [
            await stack.enter_async_context(Postgres.from_url(server.url, connections=1))
            for _ in range(clients)
        ]
        for holder, others in ((made[0], made[1:]), (made[-1], made[:1])):
            # Each waits once in vain: it listens from then on.
            async with thing(holder, f"{name} warm"):
                waits = [
                    asyncio.create_task(thing(client, f"{name} warm").acquire())
                    for client in others
                ]
                await until(partial(all_hear, others))
                for each in waits:
                    each.cancel()
                await asyncio.wait(waits)
        with counted() as sent:
            await asyncio.gather(*(want(client) for client in made))
            assert sent() / begun <= 5


# Twice, late, lost.


async def test_a_change_of_the_number_is_carried_out_once(
    server: PostgresServer, name: str
) -> None:
    async with started(server.url) as store:
        for _ in range(2):
            assert await store.change_permits(name, "r:1", "add", 2, 3, soon()) == 0
        assert (await store.permits(name, soon())).number == 5
        for _ in range(2):
            assert await store.change_permits(name, "r:2", "drain", 0, None, soon()) == 5
            assert await store.change_permits(name, "r:3", "make", 4, None, soon()) == 0
        assert (await store.permits(name, soon())).number == 0
        for _ in range(2):
            assert await store.change_permits(name, "r:4", "delete", 0, None, soon()) == 1
        assert await store.change_permits(name, "r:5", "delete", 0, None, soon()) == 0


@pytest.mark.parametrize("waits", [True, False])
async def test_busy_after_a_lost_answer_is_busy(
    server: PostgresServer, name: str, waits: bool
) -> None:
    """The first copy may still be granted: a waiter waits on, and nothing is held in the end."""
    async with RawProxy(server.port) as proxy:
        url = server.url_of("postgres", port=proxy.port)
        async with Postgres.from_url(server.url) as one, Postgres.from_url(url) as other:
            permit = await one.get_semaphore(name, 1).acquire()
            async with other.get_semaphore(f"{name} warm", 1):
                pass
            semaphore, store = other.get_semaphore(name, 1), one._store
            assert isinstance(store, PostgresStore)
            proxy.lose_next()
            if waits:
                waiting = asyncio.create_task(semaphore.acquire())

                async def in_queue() -> bool:
                    return len((await store.permits(name, soon())).waiters) == 1

                await until_async(in_queue)
                await permit.release()
                await (await waiting).release()
            else:
                assert await semaphore.try_acquire() is None
                await permit.release()
                owner = other._context.owners.prefix + str(other._context.owners.new_number() - 1)
                async with connected(server.url) as raw:

                    async def is_refused() -> bool:
                        """What of its first copy comes late."""
                        late = shared_row(name), owner, "p", 1, 0.01, *[None] * 4
                        (row,) = await raw.fetch(shared_sql.ASK, *late)
                        return bool(row["refused"])

                    await until_async(is_refused)
            assert await one.get_semaphore(name).available() == 1
            executor = other._context.executor
            assert isinstance(executor, StoreExecutor)
            await until(lambda: not executor.carrier.queues)


async def test_a_cancelled_change_is_carried_out_once(server: PostgresServer, name: str) -> None:
    async with Postgres.from_url(server.url, command_timeout=20) as client:
        semaphore = client.get_semaphore(name, 2)
        assert await semaphore.available() == 2
        asked = client.statistics().commands_sent
        server.pause()
        try:
            adding = asyncio.create_task(semaphore.add_permits(3))
            await until(lambda: client.statistics().commands_sent > asked)
            adding.cancel()
            with pytest.raises(asyncio.CancelledError):
                await adding
        finally:
            server.resume()

        async def is_carried_out() -> bool:
            return await semaphore.available() == 5

        await until_async(is_carried_out)


@pytest.mark.parametrize("kind", ["read", "write", "permit"])
async def test_an_ask_behind_its_undo_is_refused(
    server: PostgresServer, name: str, kind: Kind
) -> None:
    """Also where there was no row, and if it would only wait."""
    async with started(server.url) as store:
        assert await store.give_back(name, "a:1", True, soon(), kind) == 0
        for waits in (False, True):
            with pytest.raises(BackendError, match="cannot ask again"):
                await store.ask(wish(name, "a:1", kind, waits=waits), soon())
        assert not (await store.look(name, soon(), kind)).waiters


async def test_a_forced_release_that_comes_late_ends_no_later_hold(
    server: PostgresServer, name: str
) -> None:
    async with started(server.url) as store, connected(server.url) as raw:
        first = await got(store, wish(name, "w:1", "write"))
        assert await store.force_release(name, soon(), "write")
        again = await got(store, wish(name, "w:1", "write"))
        assert again.token > first.token
        row = shared_row(name, "read-write lock")
        (answer,) = await raw.fetch(shared_sql.FORCE_RELEASE, row, [f"w:1 {first.token}"])
        assert not answer["result"]
        kept = await store.renew([Renewal(name, "w:1", first.token, 30, kind="write")], soon())
        assert kept == [None]
        kept = await store.renew([Renewal(name, "w:1", again.token, 30, kind="write")], soon())
        assert kept != [None]


async def test_a_lease_that_comes_late_undoes_no_newer_one(
    server: PostgresServer, name: str
) -> None:
    async with started(server.url) as store, connected(server.url) as raw:
        hold = await got(store, wish(name, "r:1", "read"))
        row = shared_row(name, "read-write lock").hex()
        renewal = Renewal(name, "r:1", hold.token, 60, exact=True, kind="read")
        (seen,) = await raw.fetch(
            shared_sql.CONFIRM, [row], ["r:1"], [str(hold.token)], ["0"], [None]
        )
        await store.renew([renewal], soon())
        late = [row], ["r:1"], [str(hold.token)], ["1.0"], [str(seen["seen"])]
        assert await raw.fetch(shared_sql.RENEW, *late) == []
        (reader,) = (await store.look(name, soon(), "read")).readers
        assert reader.remaining > 30
        # A renewal shortens nothing.
        await store.renew([replace(renewal, lease=1, exact=False)], soon())
        (reader,) = (await store.look(name, soon(), "read")).readers
        assert reader.remaining > 30


async def test_an_ask_decides_on_what_commits_meanwhile(server: PostgresServer, name: str) -> None:
    """The snapshot of the second is older than the grant of the first."""
    async with started(server.url) as store, connected(server.url) as raw:
        await store.change_permits(name, "r:1", "make", 1, None, soon())
        async with connected(server.url) as look:
            transaction = raw.transaction()
            await transaction.start()
            arguments = shared_row(name), "a:1", "p", 1, 30.0, *[None] * 4
            (row,) = await raw.fetch(shared_sql.ASK, *arguments)
            assert row["granted"]
            second = asyncio.create_task(store.ask(wish(name, "b:1", "permit"), soon()))
            await until_blocked(look)
            await transaction.commit()
            assert isinstance(await second, Busy)


async def test_rows_are_renewed_in_one_order(server: PostgresServer) -> None:
    """Whatever the order in which they are named: two clients never wait for each other."""
    names = sorted(
        (f"both {next(_names)}" for _ in range(10)),
        key=lambda name: shared_row(name, "read-write lock"),
        reverse=True,
    )
    lock = "SELECT FROM redisson_py_shared WHERE id = $1 FOR UPDATE"
    async with (
        started(server.url) as store,
        connected(server.url) as raw,
        connected(server.url) as look,
    ):
        batch = [
            Renewal(
                name, "a:1", (await got(store, wish(name, "a:1", "read"))).token, 60, kind="read"
            )
            for name in names
        ]
        async with raw.transaction():
            await raw.fetch(lock, shared_row(names[0], "read-write lock"))
            renewing = asyncio.create_task(store.renew(batch, soon()))
            await until_blocked(look)
            # The greatest is the last: it has all the others.
            for name in names[1:]:
                with pytest.raises(asyncpg.LockNotAvailableError):
                    await look.fetch(f"{lock} NOWAIT", shared_row(name, "read-write lock"))
        assert None not in await renewing


# Without a bell, behind a pooler.


@pytest.mark.parametrize("kind", ["write", "permit"])
async def test_behind_a_transaction_pooler_waiters_poll_in_order(
    server: PostgresServer, name: str, kind: Kind
) -> None:
    """So a writer is not overtaken by readers there either."""
    with running_pgbouncer(server) as port:
        url = server.url_of("postgres", port=port)
        async with started(url, statement_cache_size=0) as one:
            await one.change_permits(name, "r:1", "make", 2, None, soon())
            first: Kind = "read" if kind == "write" else "permit"
            await got(one, wish(name, "a:1", first))
            big = wish(name, "big:1", kind, 2, waits=True)
            assert await was_busy(one, big) <= POLL_SECONDS
            await was_busy(one, wish(name, "b:1", first))
            assert await one.give_back(name, "a:1", False, soon(), first)
            # It was called, and has time to ask.
            await was_busy(one, wish(name, "b:1", first))
            await got(one, big)


async def test_a_release_that_must_not_notify_works(server: PostgresServer, name: str) -> None:
    """And those that wait poll from then on."""
    async with connected(server.url) as admin:
        await admin.execute("CREATE ROLE mute LOGIN")
        await admin.execute("CREATE DATABASE mute OWNER mute")
    url = server.url_of("mute", "mute")
    async with started(url):
        pass
    async with connected(server.url_of("postgres", "mute")) as admin:
        await admin.execute("REVOKE EXECUTE ON FUNCTION pg_notify(text, text) FROM PUBLIC")
    async with started(url) as one, started(url) as other:
        await got(one, wish(name, "w:1", "write"))
        waiting = wish(name, "r:1", "read", waits=True)
        assert await was_busy(other, waiting) <= POLL_SECONDS
        assert await one.give_back(name, "w:1", False, soon(), "write")
        await got(other, waiting)


# Beside clients of the version before, and their table.


async def test_an_older_clients_table_is_enough_for_locks(server: PostgresServer) -> None:
    """What it may not make, it asks for when it is needed; older clients are not disturbed."""
    async with connected(server.url) as admin:
        await admin.execute("CREATE ROLE app LOGIN")
        await admin.execute("CREATE DATABASE older")
    url = server.url_of("app", "older")
    async with connected(server.url_of("postgres", "older")) as admin:
        await admin.execute(sql.locks_sql())
        await admin.execute("GRANT SELECT, INSERT, UPDATE ON redisson_py_locks TO app")
        async with Postgres.from_url(url) as client:
            async with client.get_lock("k") as lease:
                row = id_of("k"), "k", "old:1", 30.0, 1, False
                (answer,) = await admin.fetch(older.ASK, *row)
                assert not answer["granted"]
                assert answer["owner"] == lease.owner
            with pytest.raises(BackendError, match="may not create the table redisson_py_shared"):
                await client.get_semaphore("k", 1).acquire()
            with pytest.raises(BackendError, match="CREATE TABLE IF NOT EXISTS redisson_py_shared"):
                await client.get_read_write_lock("k").read_lock().acquire()
            await admin.execute(shared_sql.CREATE)
            with pytest.raises(BackendError, match="UPDATE on the table redisson_py_shared"):
                await client.get_semaphore("k", 1).acquire()
            await admin.execute("GRANT SELECT, INSERT, UPDATE ON redisson_py_shared TO app")
            async with client.get_semaphore("k", 1), client.get_lock("k"):
                (answer,) = await admin.fetch(older.ASK, *row)
                assert not answer["granted"]


async def test_the_table_is_made_when_it_is_needed(server: PostgresServer) -> None:
    async with connected(server.url) as admin:
        await admin.execute("CREATE DATABASE late")
    url = server.url_of("postgres", "late")
    there = "SELECT to_regclass('redisson_py_shared') IS NOT NULL"
    async with connected(url) as raw, AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(started(url)) for _ in range(4)]
        await granted(stores[0], "k", "a:01")
        assert not await raw.fetchval(there)
        # All at once.
        await asyncio.gather(
            *(got(store, wish("k", f"{n}:1", "read")) for n, store in enumerate(stores))
        )
        assert await raw.fetchval(there)
        assert len((await stores[0].look("k", soon(), "read")).readers) == 4


async def test_a_stranger_must_not_own_the_table(server: PostgresServer) -> None:
    async with connected(server.url) as admin:
        await admin.execute("CREATE ROLE strange LOGIN")
        await admin.execute("CREATE DATABASE strange")
    async with connected(server.url_of("postgres", "strange")) as admin:
        await admin.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
        await admin.execute(sql.locks_sql())
        await admin.execute(shared_sql.CREATE)
        await admin.execute("ALTER TABLE redisson_py_shared OWNER TO strange")
    async with started(server.url_of("postgres", "strange")) as store:
        with pytest.raises(BackendError, match="owns the table redisson_py_shared"):
            await store.ask(wish("k", "a:1", "read"), soon())


# What users see.


async def test_a_loss_of_permits(server: PostgresServer, name: str) -> None:
    async with Postgres.from_url(server.url) as one, Postgres.from_url(server.url) as other:
        semaphore = one.get_semaphore(name, 3)
        permit = await semaphore.acquire(2)
        assert await other.get_semaphore(name).delete()
        with pytest.raises(LeaseLostError) as caught:
            await permit.release()
        assert caught.value.reason == "taken"
        # Those with a number make it again.
        assert await semaphore.available() == 3


async def test_waiters_of_a_deleted_semaphore_ask_again(server: PostgresServer, name: str) -> None:
    async with Postgres.from_url(server.url) as one, Postgres.from_url(server.url) as other:
        permit = await one.get_semaphore(name, 1).acquire()
        waiting = asyncio.create_task(other.get_semaphore(name, 1).acquire())
        await until_waiting(other, 1)
        store: Any = one._store

        async def waits() -> bool:
            return len((await store.permits(name, soon())).waiters) == 1

        await until_async(waits)
        assert await one.get_semaphore(name).delete()
        await (await waiting).release()
        with pytest.raises(LeaseLostError):
            await permit.release()


@pytest.mark.parametrize("permits", ["1", True, 1.5])
async def test_wrong_numbers_of_permits(server: PostgresServer, permits: Any) -> None:
    client = Postgres.from_url(server.url)
    with pytest.raises(TypeError, match="must be int"):
        client.get_semaphore("k", permits)
    semaphore = client.get_semaphore("k", 1)
    with pytest.raises(TypeError, match="must be int"):
        await semaphore.acquire(permits)
    with pytest.raises(ValueError, match="must be 0 to"):
        await semaphore.set_permits(-1)
    assert client.statistics().commands_sent == 0


@pytest.mark.parametrize("made", [2, 12])
@pytest.mark.parametrize("use", ["acquire", "try_acquire", "hold", "available", "waits"])
async def test_another_number_than_asked_is_said_once(
    server: PostgresServer, name: str, made: int, use: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Postgres.from_url(server.url) as one, Postgres.from_url(server.url) as other:
        permit = await one.get_semaphore(name, made).acquire(made if use == "waits" else 1)
        semaphore = other.get_semaphore(name, 10)
        if use == "available":
            assert await semaphore.available() == made - 1
        elif use == "hold":
            async with semaphore.hold(timeout=60):
                pass
        elif use == "waits":
            waiting = asyncio.create_task(semaphore.acquire())
            await until_waiting(other, 1)
            await permit.release()
            await (await waiting).release()
        else:
            taken = await (semaphore.acquire() if use == "acquire" else semaphore.try_acquire())
            assert taken is not None
            await taken.release()
        for again in (semaphore, other.get_semaphore(name, 10)):
            async with again:
                pass
        more = 10 - made
        assert [each for each in caplog.messages if name in each] == [
            f"semaphore {name!r} has {made} permits, not 10: an existing semaphore keeps its"
            f" number. To change it, call set_permits(10) or add_permits({more})"
        ]
        if use != "waits":
            await permit.release()
        assert await one.get_semaphore(name).available() == made


async def test_who_names_no_number_or_changed_it_is_not_warned(
    server: PostgresServer, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Postgres.from_url(server.url) as one, Postgres.from_url(server.url) as other:
        assert await one.get_semaphore(name).try_set_permits(3)
        for semaphore in (
            other.get_semaphore(name),
            other.get_semaphore(name, 3),
            one.get_semaphore(name, 5),
        ):
            async with semaphore:
                pass
        await other.get_semaphore(name, 7).add_permits(1)
        async with other.get_semaphore(name, 7):
            pass
        assert caplog.messages == []


async def test_a_number_is_changed(server: PostgresServer, name: str) -> None:
    async with Postgres.from_url(server.url) as client:
        semaphore = client.get_semaphore(name)
        assert await semaphore.available() == 0
        with pytest.raises(AcquireTimeoutError, match="does not exist"):
            await semaphore.acquire(timeout=0)
        assert await semaphore.try_set_permits(2)
        assert not await semaphore.try_set_permits(3)
        async with semaphore:
            await semaphore.set_permits(1)
            assert await semaphore.available() == 0
            await semaphore.add_permits(-1)
            assert await semaphore.available() == -1
            assert await semaphore.drain() == 0
            assert await semaphore.available() == 0
            await semaphore.add_permits(4)
            snapshot = await semaphore.inspect()
            assert snapshot.available == 4
            assert [each.holds for each in snapshot.holders] == [1]
        assert await semaphore.drain() == 5
