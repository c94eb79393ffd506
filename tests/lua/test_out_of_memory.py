"""A full server grants nothing, and gives back, renews and counts down what there is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from redisson_py.testing import EmbeddedServer
from tests.fixtures.redis_server import started_server
from tests.lua.test_golden_vectors import listening
from tests.support.scripts.any_lock import LOCKS, AnyLock, rivals
from tests.support.scripts.barrier import RELEASED, VOID, WAITING, BarrierScripts
from tests.support.scripts.calls import LEASE, TOMBSTONE, A, B, C, Scripts, everything
from tests.support.scripts.expirable import ExpirableScripts
from tests.support.scripts.fair import FairScripts
from tests.support.scripts.latch import LatchScripts
from tests.support.scripts.lock import LockScripts
from tests.support.scripts.permits import SemaphoreScripts
from tests.support.scripts.read_write import LONG, ReadWriteScripts

FULL = r"OOM|maxmemory"
each_lock = pytest.mark.parametrize("kind", LOCKS)
#: Scripts of their own.
release_kinds = pytest.mark.parametrize("kind", ["plain", "fair", "read", "write"])


@pytest.fixture(scope="module")
def full_server(server_choice: str) -> Iterator[EmbeddedServer]:
    """A server for these tests."""
    with started_server(server_choice) as server:
        yield server


@pytest_asyncio.fixture
async def redis(full_server: EmbeddedServer) -> AsyncIterator[Redis]:
    """A client of an empty server that evicts nothing, and is not full yet."""
    async with Redis.from_url(full_server.url) as redis:
        await redis.config_set("maxmemory", 0)
        await redis.config_set("maxmemory-policy", "noeviction")
        await redis.flushall()
        yield redis


@pytest.fixture
def fair(scripts: Scripts) -> FairScripts:
    """One fair lock."""
    return FairScripts(scripts)


@pytest_asyncio.fixture
async def semaphore(scripts: Scripts) -> SemaphoreScripts:
    """A semaphore of five units."""
    semaphore = SemaphoreScripts(scripts)
    await semaphore.start(5)
    return semaphore


async def fill(redis: Redis) -> None:
    """Make the server refuse whatever needs memory."""
    await redis.config_set("maxmemory", 1)
    with pytest.raises(ResponseError, match="maxmemory"):
        await redis.set("more", "x")


@each_lock
async def test_an_acquire_is_refused_and_holds_nothing(any_lock: AnyLock, redis: Redis) -> None:
    await fill(redis)
    with pytest.raises(ResponseError, match=FULL):
        await any_lock.acquire(A)
    assert await everything(redis) == {}


@each_lock
async def test_a_re_entry_is_refused_and_leaves_the_outer_hold(
    any_lock: AnyLock, redis: Redis
) -> None:
    await any_lock.acquire(A)
    before = await everything(redis)
    await fill(redis)
    with pytest.raises(ResponseError, match=FULL):
        await any_lock.acquire(A, 2)
    assert await everything(redis) == before


@each_lock
async def test_busy_is_still_told(any_lock: AnyLock, redis: Redis) -> None:
    (rival, *_) = rivals(any_lock)
    await rival.acquire(A)
    before = await everything(redis)
    await fill(redis)
    reply = await any_lock.acquire(B)
    assert reply is not None
    assert LEASE - 20_000 < reply <= LEASE
    assert await everything(redis) == before


@release_kinds
async def test_the_last_release_frees_the_lock(any_lock: AnyLock, redis: Redis) -> None:
    await any_lock.acquire(A)
    await fill(redis)
    assert await any_lock.release(A) == 1
    assert await everything(redis) == {}


@release_kinds
async def test_an_undo_frees_the_lock_and_leaves_its_tombstone(
    any_lock: AnyLock, redis: Redis
) -> None:
    await any_lock.acquire(A)
    await fill(redis)
    assert await any_lock.undo(A) == 1
    assert list(await everything(redis)) == [any_lock.tombstone(A)]
    assert TOMBSTONE - 20_000 < await redis.pttl(any_lock.tombstone(A)) <= TOMBSTONE


@pytest.mark.parametrize("kind", ["plain", "read", "write"])
async def test_a_renewal_and_a_new_lease_are_carried_out(any_lock: AnyLock, redis: Redis) -> None:
    await any_lock.acquire(A)
    await fill(redis)
    assert await any_lock.renew(A, LONG) == 1
    assert await any_lock.left() > LEASE
    assert await any_lock.set_lease(A, LEASE) == 1
    assert LEASE - 20_000 < await any_lock.left() <= LEASE


@release_kinds
async def test_a_forced_release_of_a_held_lock_frees_it(any_lock: AnyLock, redis: Redis) -> None:
    await any_lock.acquire(A)
    await fill(redis)
    assert await any_lock.force_release() == 1
    found = [key for key in await everything(redis) if b":rwlock_timeout:" not in key]
    assert found == [any_lock.receipt()]


@release_kinds
async def test_what_finds_nothing_leaves_its_tombstone_and_its_receipt(
    any_lock: AnyLock, redis: Redis
) -> None:
    await fill(redis)
    assert await any_lock.undo(B) is None
    assert await any_lock.force_release() == 0
    assert {*await everything(redis)} == {any_lock.tombstone(B), any_lock.receipt()}


async def test_a_change_with_a_version_is_carried_out(lock: LockScripts, redis: Redis) -> None:
    await lock.acquire(A)
    await lock.acquire(A, 2)
    await fill(redis)
    assert await lock.release(A, 1, version=1, version_ms=TOMBSTONE) == 0
    assert await lock.holds() == {A: 1}
    assert await lock.set_lease(A, 1_000_000, version=2, version_ms=TOMBSTONE) == 1
    assert await lock.release(A, 0, version=1) == 0
    assert await lock.left() > LEASE


async def test_nobody_is_queued(fair: FairScripts, redis: Redis) -> None:
    await fair.acquire(A)
    before = await everything(redis)
    await fill(redis)
    with pytest.raises(ResponseError, match=FULL):
        await fair.acquire(B)
    assert await everything(redis) == before


async def test_a_release_tells_the_head_and_a_waiter_leaves(
    fair: FairScripts, redis: Redis
) -> None:
    await fair.acquire(A)
    await fair.acquire(B)
    await fair.acquire(C)
    await fill(redis)
    async with listening(redis, fair.channel_of(B)) as head:
        assert await fair.release(A) == 2
        assert await head.heard() == [b"0"]
    async with listening(redis, fair.channel_of(C)) as second:
        assert await fair.leave(B) is None
        assert await second.heard() == [b"0"]
    assert await fair.queued() == [C]
    assert (await fair.moments()).keys() == (await fair.alive()).keys() == {C}


async def test_the_head_is_refused_the_lock_and_keeps_its_place(
    fair: FairScripts, redis: Redis
) -> None:
    await fair.acquire(A)
    await fair.acquire(B)
    await fair.release(A)
    before = await everything(redis)
    await fill(redis)
    with pytest.raises(ResponseError, match=FULL):
        await fair.acquire(B)
    assert await everything(redis) == before
    await redis.config_set("maxmemory", 0)
    assert await fair.acquire(B) is None


async def test_no_other_reader_is_let_in(rw: ReadWriteScripts, redis: Redis) -> None:
    await rw.read.acquire(A)
    before = await everything(redis)
    await fill(redis)
    with pytest.raises(ResponseError, match=FULL):
        await rw.read.acquire(B)
    assert await everything(redis) == before
    assert (await rw.write.acquire(B) or 0) > 0


async def test_a_writer_goes_on_reading_and_leaves(rw: ReadWriteScripts, redis: Redis) -> None:
    await rw.write.acquire(A)
    await rw.read.acquire(A)
    await fill(redis)
    assert await rw.write.renew(A, LONG) == 1
    assert await rw.write.set_lease(A, LEASE) == 1
    assert await rw.left() <= LEASE
    assert await rw.write.undo(A) == 1
    assert await rw.fields() == {"mode": "read", A: "1"}
    assert await rw.read.release(A) == 1
    assert list(await everything(redis)) == [rw.write.tombstone(A)]


async def test_the_count_down_that_opens_a_latch_is_carried_out_once(
    latch: LatchScripts, redis: Redis
) -> None:
    await latch.set(1)
    await fill(redis)
    assert await latch.down(calls=7) == 0
    assert await latch.down(calls=7) == 0
    assert await latch.value() is None
    assert await redis.exists(latch.receipt()) == 1


async def test_numbers_of_permits_are_changed(
    semaphore: SemaphoreScripts, scripts: Scripts, redis: Redis
) -> None:
    await fill(redis)
    assert await semaphore.add(2) == 7
    assert await semaphore.set(9, replaces=1) == 1
    assert await semaphore.drain() == 9
    assert await semaphore.remove() == 1
    permits = ExpirableScripts(scripts)
    assert await permits.set(3, "client-b") == 1
    assert await permits.add(2, "client-b") == 5
    assert await permits.set(4, "client-b", replaces=1) == 1
    assert await permits.release_all(b"p" * 16, "client-b") == 0


async def test_a_party_that_never_came_leaves_its_mark(
    barrier: BarrierScripts, redis: Redis
) -> None:
    await fill(redis)
    assert await barrier.leave("a") == -1
    assert (await barrier.wait("a")).state == VOID
    assert await barrier.abort() == 1


async def test_parties_come_and_are_let_go(barrier: BarrierScripts, redis: Redis) -> None:
    first = await barrier.wait("a")
    await fill(redis)
    assert (await barrier.wait("a", str(first.generation))).state == WAITING
    assert (await barrier.wait("b")).state == WAITING
    assert (await barrier.wait("c")).state == RELEASED
    assert (await barrier.wait("a", str(first.generation))).state == RELEASED
    assert await redis.exists(barrier.key, barrier.arrivals) == 0


@pytest.mark.parametrize("others", [0, 1])
async def test_an_acquire_of_units_is_refused_and_takes_nothing(
    semaphore: SemaphoreScripts, redis: Redis, others: int
) -> None:
    for number in range(others):
        await semaphore.acquire(f"client-c:{number}")
    before = await everything(redis)
    await fill(redis)
    with pytest.raises(ResponseError, match=FULL):
        await semaphore.acquire(A)
    assert await everything(redis) == before


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("tombstone_ms", [0, TOMBSTONE])
async def test_the_last_release_gives_all_units_back(
    semaphore: SemaphoreScripts, redis: Redis, others: int, tombstone_ms: int
) -> None:
    for number in range(others):
        await semaphore.acquire(f"client-c:{number}")
    await semaphore.acquire(A, 2)
    await fill(redis)
    assert await semaphore.release(A, tombstone_ms=tombstone_ms) == 1
    assert await semaphore.value() == 5 - others
    assert A not in await semaphore.held()
    assert await redis.exists(semaphore.tombstone(A)) == (tombstone_ms > 0)
    assert await semaphore.release(B) is None
