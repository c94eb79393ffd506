"""PostgreSQL and MySQL keep each rule between a store and the engine that asks it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from redisson_py._stores.contract import HolderState, Renewal
from redisson_py._time import now
from redisson_py.errors import RedissonError
from redisson_py.testing import FaultProxy
from tests.fixtures.backends import Running
from tests.stores.backends import DatabaseBackend, PostgresBackend
from tests.stores.databases import (
    Bell,
    busy,
    granted,
    holder,
    is_free,
    new_name,
    owner,
    running,
    soon,
)
from tests.support.waiting import until_async

#: What the pages of the stores say to delete rows with.
CLEANING = {
    "PostgreSQL": "DELETE FROM redisson_py_locks WHERE expires < now()",
    "MySQL": "DELETE FROM redisson_py_locks WHERE expires < UNIX_TIMESTAMP() * 1000000"
    " AND refused_until < UNIX_TIMESTAMP() * 1000000",
}


@pytest.fixture(scope="module")
def postgres_15() -> Iterator[DatabaseBackend]:
    backend = PostgresBackend(15)
    yield backend
    backend.close()


@pytest.fixture(params=["postgres", "postgres_15", "mysql"])
def backend(request: pytest.FixtureRequest, running_backend: Running) -> Any:
    if request.param == "postgres_15":
        return request.getfixturevalue("postgres_15")
    return running_backend(request.param)


@pytest_asyncio.fixture
async def store(backend: DatabaseBackend) -> AsyncIterator[Any]:
    async with running(backend.store()) as store:
        yield store


async def test_a_hold_is_granted_once_and_given_back(backend: DatabaseBackend, store: Any) -> None:
    name, first, second = new_name(), owner(), owner()
    async with running(backend.store()) as other:
        before = now()
        hold = await granted(store, name, first)
        assert before + 29 < hold.until <= now() + 30
        assert 0 < await busy(other, name, second) <= 30
        assert not await other.give_back(name, second, False, soon())
        assert await holder(other, name) == first
        assert await store.give_back(name, first, False, soon())
        assert (await granted(other, name, second)).token > hold.token


async def test_asking_twice_changes_nothing(store: Any) -> None:
    name, who = new_name(), owner()
    first = await granted(store, name, who, lease=20, tokens=3)
    second = await granted(store, name, who, lease=300, tokens=9)
    assert (second.token, second.tokens) == (first.token, 3)
    # Each is told as precisely as its answer was fast.
    assert second.until == pytest.approx(first.until, abs=9)


async def test_giving_back_twice_answers_the_same(store: Any) -> None:
    name, first, second = new_name(), owner(), owner()
    await granted(store, name, first)
    assert await store.give_back(name, first, False, soon())
    assert await store.give_back(name, first, False, soon())
    await granted(store, name, second)
    assert await store.give_back(name, first, False, soon())
    assert await holder(store, name) == second
    for unsure in (False, True):
        assert not await store.give_back(name, owner(), unsure, soon())
    assert await store.give_back(name, second, True, soon())
    assert await store.give_back(name, second, True, soon())


async def test_tokens_grow_by_what_was_taken(store: Any) -> None:
    name, last = new_name(), 0
    # The last ones come behind more tokens than a clock has moments meanwhile.
    for size in (1, 1000, 1, 100_000_000, 5, 1):
        who = owner()
        hold = await granted(store, name, who, tokens=size)
        assert hold.tokens == size
        assert hold.token > last
        last = hold.token + hold.tokens - 1
        assert await store.give_back(name, who, False, soon())


async def test_free_rows_may_be_deleted(backend: DatabaseBackend, store: Any) -> None:
    name, held, first = new_name(), new_name(), owner()
    before = await granted(store, name, first)
    await granted(store, held, owner())
    await store.give_back(name, first, False, soon())
    rows = f"SELECT count(*) FROM redisson_py_locks WHERE name IN ('{name}', '{held}')"
    assert await backend.sql(CLEANING[store.title], rows) == [(1,)]
    assert (await granted(store, name, owner())).token > before.token
    assert not await is_free(store, held)


async def test_a_lease_ends_by_the_clock_of_the_server(store: Any) -> None:
    name, first, second = new_name(), owner(), owner()
    hold = await granted(store, name, first, lease=0.05)
    await until_async(partial(is_free, store, name))
    for _ in range(2):
        assert not await store.give_back(name, first, False, soon())
    assert (await granted(store, name, second)).token > hold.token
    assert await store.renew([Renewal(name, first, hold.token, 30)], soon()) == [None]
    for unsure in (False, True):
        assert not await store.give_back(name, first, unsure, soon())
    assert await holder(store, name) == second


async def test_a_batch_is_renewed_at_once(store: Any) -> None:
    who, names = owner(), [new_name() for _ in range(5)]
    holds = [await granted(store, name, who, lease=30) for name in names]
    leases = [(60, False), (10, False), (10, True), (0, False), (0, True)]
    batch = [
        Renewal(name, who, hold.token, *lease)
        for name, hold, lease in zip(names, holds, leases, strict=True)
    ]
    moment = now()
    longer, shorter, exact, *looked = await store.renew(batch, soon())
    assert moment + 59 < longer <= now() + 60
    assert shorter == pytest.approx(holds[1].until, abs=9)
    assert moment + 9 < exact <= now() + 10
    assert looked == [pytest.approx(hold.until, abs=9) for hold in holds[3:]]
    assert await store.renew(batch[3:], soon()) == [pytest.approx(each, abs=9) for each in looked]
    assert await store.renew([], soon()) == []


async def test_a_renewal_of_another_hold_changes_nothing(store: Any) -> None:
    name, who = new_name(), owner()
    hold = await granted(store, name, who, lease=50)
    batch = [
        Renewal(name, owner(), hold.token, 900),
        Renewal(name, owner(), hold.token, 1, exact=True),
        Renewal(name, who, hold.token + 1, 900),
        Renewal(name, who, hold.token - 1, 1, exact=True),
        Renewal(new_name(), who, hold.token, 900),
    ]
    for some in (batch, *([each] for each in batch)):
        assert await store.renew(some, soon()) == [None] * len(some)
    assert (await store.look(name, soon())).holder.remaining == pytest.approx(50, abs=15)


async def test_a_look_shows_the_holder_and_the_row(store: Any) -> None:
    name, who = new_name(), owner()
    empty = await store.look(name, soon())
    assert (empty.holder, empty.waiters) == (None, ())
    hold = await granted(store, name, who)
    seen = await store.look(name, soon())
    assert seen.holder == HolderState(who, seen.holder.remaining, hold.token)
    assert seen.holder.remaining == pytest.approx(30, abs=15)
    assert seen.waiters == ()
    assert "redisson_py_locks" in seen.keys[0]


async def test_a_forced_release_ends_the_hold(store: Any) -> None:
    name, who = new_name(), owner()
    assert not await store.force_release(name, soon())
    hold = await granted(store, name, who)
    assert await store.force_release(name, soon())
    assert await is_free(store, name)
    assert not await store.force_release(name, soon())
    assert await store.renew([Renewal(name, who, hold.token, 30)], soon()) == [None]
    assert not await store.give_back(name, who, False, soon())


async def test_an_uncontended_pair_is_two_round_trips_and_a_batch_one(
    backend: DatabaseBackend,
) -> None:
    async with (
        FaultProxy("127.0.0.1", backend.server.port, raw=True) as proxy,
        running(backend.store(proxy.port, connections=1)) as store,
    ):
        # The first time, PostgreSQL prepares each statement.
        for _ in range(2):
            name, who = new_name(), owner()
            before = proxy.up.chunks
            hold = await granted(store, name, who)
            await store.renew([Renewal(name, who, hold.token, 40)] * 100, soon())
            assert await store.give_back(name, who, False, soon())
        assert proxy.up.chunks - before == 3


async def test_it_can_be_started_again_and_must_be(backend: DatabaseBackend) -> None:
    store = backend.store()
    for _ in range(2):
        with pytest.raises(RedissonError):
            await store.ping(soon())
        async with running(store):
            await store.ping(soon())
            await granted(store, new_name(), owner(), waits=True)


async def test_those_that_make_the_table_may_race(backend: DatabaseBackend) -> None:
    await backend.sql("DROP TABLE IF EXISTS redisson_py_locks")
    stores = [backend.store() for _ in range(8)]
    try:
        await asyncio.gather(*(store.start(Bell(), soon()) for store in stores))
        name = new_name()
        await granted(stores[0], name, owner())
        await busy(stores[1], name, owner())
    finally:
        await asyncio.gather(*(store.stop() for store in stores))
