"""The public API as users write it. Never run: mypy strict and pyright strict check it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import assert_type

from redis.asyncio import Redis, RedisCluster

import redisson_py
from redisson_py import (
    AcquiredEvent,
    AcquireTimeoutError,
    Admission,
    BackendError,
    ClientClosedError,
    ClientStatistics,
    ConnectionLostError,
    ConnectionLostEvent,
    ConnectionRestoredEvent,
    CountDownLatch,
    CyclicBarrier,
    FairLock,
    FencedLease,
    FencedLock,
    HolderSnapshot,
    Lease,
    LeaseLostError,
    Listener,
    LockLike,
    LockSnapshot,
    LostEvent,
    MultiLock,
    NotHeldError,
    Permit,
    PermitExpirableSemaphore,
    PrimitiveStatistics,
    QuorumError,
    RateLimit,
    RateLimiter,
    RateLimiterSnapshot,
    ReadLock,
    ReadWriteLock,
    Redisson,
    RedissonError,
    RedissonOptions,
    RedLock,
    ReleasedEvent,
    RenewedLateEvent,
    RLock,
    ScriptError,
    Semaphore,
    WaitEndedEvent,
    WaiterSnapshot,
    WaitStartedEvent,
    WriteLock,
    sync,
)


async def clients() -> None:
    async with Redisson.from_url("redis://localhost:6379/0") as client:
        assert_type(client, Redisson)
        assert_type(client.id, str)
        assert_type(client.statistics(), ClientStatistics)
        await client.ping()
    configured = Redisson.from_url(
        "rediss://localhost",
        lease_time=timedelta(seconds=10),
        prefix="app:",
        on_lost="raise",
        sharded_pubsub="off",
        sync_replicas="auto",
        sync_timeout=1,
        turn=0,
        client_name="orders",
        idle_lifetime=timedelta(days=1),
    )
    await configured.aclose()
    assert_type(Redisson.from_file("redisson.yml", lease_time=10), Redisson)
    assert_type(Redisson.from_file(Path("redisson.yml")), Redisson)
    Redisson.from_url("redis+cluster://h", address_map={"10.0.0.1:6379": ("localhost", 7001)})
    Redisson.from_url("redis+cluster://h", address_map={("10.0.0.1", 6379): "localhost:7001"})
    Redisson.from_url("redis+cluster://h", address_map=lambda host, port: ("localhost", port + 1))
    Redisson(RedisCluster(host="localhost", port=7000))
    mapped = Redisson(Redis(host="localhost"), name_mapper=lambda name: f"app:{name}")
    await mapped.aclose()


async def wrong_options(client: Redis) -> None:
    # Each ignored error is one that must be reported; an unused one fails the check.
    Redisson(client, on_lost="ignore")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Redisson(client, lease="30")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Redisson("redis://localhost")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


class Losses(Listener):
    def lost(self, event: LostEvent) -> None:
        assert_type(event.name, str | bytes)
        assert_type(event.token, int | None)
        assert_type(event.held_for, float)
        assert event.reason != "abandoned"


class Own:
    def acquired(self, event: AcquiredEvent) -> None:
        assert_type(event.waited, float)

    def wait_started(self, event: WaitStartedEvent) -> None:
        assert_type(event.kind, str)

    def wait_ended(self, event: WaitEndedEvent) -> None:
        assert event.outcome in ("granted", "timeout", "cancelled", "failed")

    def released(self, event: ReleasedEvent) -> None:
        assert_type(event.owner, str)

    def lost(self, event: LostEvent) -> None:
        raise NotImplementedError

    def renewed_late(self, event: RenewedLateEvent) -> None:
        assert_type(event.late, float)

    def connection_lost(self, event: ConnectionLostEvent) -> None:
        assert_type(event.why, str)

    def connection_restored(self, event: ConnectionRestoredEvent) -> None:
        assert_type(event.away, float)


async def listeners(client: Redis) -> None:
    listening = Redisson(client, listener=Losses())
    assert_type(listening.statistics().losses_by_reason, Mapping[str, int])
    assert_type(listening.statistics().waited, float)
    Redisson(client, listener=Own())
    Redisson(client, listener=None)
    Redisson(client, listener=print)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def locks(client: Redisson) -> None:
    assert_type(client.get_lock("k"), RLock)
    assert_type(client.get_lock(b"k", reentrant=False), RLock)
    assert_type(client.get_fenced_lock("k"), FencedLock)
    lock = client.get_lock("k")
    assert_type(lock.name, str | bytes)
    async with lock as lease:
        assert_type(lease, Lease)
    async with lock.hold(timeout=1, lease_time=timedelta(seconds=5)) as lease:
        assert_type(lease, Lease)
    assert_type(await lock.acquire(), Lease)
    assert_type(await lock.acquire(timeout=0.5, lease_time=5), Lease)
    assert_type(await lock.try_acquire(), Lease | None)
    if maybe := await lock.try_acquire(timeout=timedelta(seconds=1), lease_time=2.5):
        assert_type(maybe, Lease)
    await lock.release()
    await lock.acquire(5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def as_elsewhere(client: Redisson) -> None:
    client.get_lock("k", timeout=10)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    lock = client.get_lock("k")
    await lock.acquire(blocking_timeout=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    async with lock.acquire(timeout=1):  # type: ignore[attr-defined]  # pyright: ignore[reportGeneralTypeIssues]
        pass
    with lock:  # type: ignore[attr-defined]  # pyright: ignore[reportGeneralTypeIssues, reportAttributeAccessIssue]
        pass
    if lock.try_acquire():  # type: ignore[truthy-bool]  # pyright: ignore[reportUnnecessaryComparison]
        pass


async def other_locks(client: Redisson, other: Redisson) -> None:
    assert_type(client.get_fair_lock("k"), FairLock)
    both = client.get_read_write_lock("k")
    assert_type(both, ReadWriteLock)
    assert_type(both.read_lock(), ReadLock)
    assert_type(both.write_lock(), WriteLock)
    assert_type(client.get_multi_lock(client.get_lock("a"), client.get_fair_lock("b")), MultiLock)
    assert_type(client.get_red_lock(client.get_lock("k"), other.get_lock("k")), RedLock)
    async with both.read_lock() as lease:
        assert_type(lease, Lease)
    assert_type(both.read_lock().statistics(), PrimitiveStatistics)


async def semaphores(client: Redisson) -> None:
    semaphore = client.get_semaphore("s", 5)
    assert_type(semaphore, Semaphore)
    assert_type(await semaphore.acquire(), Permit)
    assert_type(await semaphore.acquire(2, timeout=1), Permit)
    assert_type(await semaphore.try_acquire(), Permit | None)
    async with semaphore as permit:
        assert_type(permit, Permit)
        assert_type(permit.id, str)
    async with semaphore.hold(n=2, timeout=timedelta(seconds=1)) as permit:
        assert_type(permit, Permit)
    await semaphore.release(3)
    assert_type(await semaphore.available(), int)
    await semaphore.set_permits(3)
    assert_type(await semaphore.delete(), bool)
    expirable = client.get_permit_expirable_semaphore("p", 5)
    assert_type(expirable, PermitExpirableSemaphore)
    permit = await expirable.acquire(lease_time=5)
    assert_type(await expirable.acquire_many(2), list[Permit])
    assert_type(await expirable.try_release(permit.id), bool)
    await expirable.release(permit)


async def meeting(client: Redisson) -> None:
    latch = client.get_latch("job", 3)
    assert_type(latch, CountDownLatch)
    assert_type(await latch.count_down(), int)
    assert_type(await latch.try_set_count(3), bool)
    await latch.wait(timeout=1)
    barrier = client.get_barrier("round", 3)
    assert_type(barrier, CyclicBarrier)
    assert_type(await barrier.wait(), int)
    assert_type(barrier.parties, int)
    async with barrier as position:
        assert_type(position, int)


async def rates(client: Redisson) -> None:
    limiter = client.get_rate_limiter("api", 10, per=timedelta(seconds=1), per_client=True)
    assert_type(limiter, RateLimiter)
    assert_type(await limiter.acquire(2, timeout=1), Admission)
    admission = await limiter.try_acquire()
    assert_type(admission, Admission)
    assert_type(admission.allowed, bool)
    assert_type(admission.retry_after, float)
    assert_type(admission.available, int)
    async with limiter as entered:
        assert_type(entered, RateLimiter)
    assert_type(await limiter.try_set_rate(10, 1.5), bool)
    await limiter.set_rate(10)
    assert_type(await limiter.rate(), RateLimit | None)
    assert_type(await limiter.available(), int)
    assert_type(await limiter.delete(), bool)
    assert_type(await limiter.inspect(), RateLimiterSnapshot)
    client.get_rate_limiter("api", 1.5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    @limiter
    async def call(number: int) -> str:
        return str(number)

    assert_type(await call(1), str)
    await call("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def looking(lock: RLock | FencedLock) -> None:
    assert_type(await lock.locked(), bool)
    assert_type(await lock.owned(), bool)
    assert_type(await lock.hold_count(), int)
    assert_type(await lock.remaining(), float | None)
    assert_type(await lock.force_release(), bool)
    snapshot = await lock.inspect()
    assert_type(snapshot, LockSnapshot)
    assert_type(snapshot.holders, tuple[HolderSnapshot, ...])
    assert_type(snapshot.waiters, tuple[str, ...] | None)
    assert_type(snapshot.waiting, tuple[WaiterSnapshot, ...])
    assert_type(snapshot.keys, tuple[str, ...])


async def leases(lock: FencedLock) -> None:
    lease = await lock.acquire()
    assert_type(lease.name, str | bytes)
    assert_type(lease.owner, str)
    assert_type(lease, FencedLease)
    assert_type(lease.token, int)
    assert_type(lease.remaining, float)
    assert_type(lease.lost, bool)
    lease.check()
    await lease.wait_lost()
    await lease.extend(30)
    await lease.extend(timedelta(minutes=1))
    async with lease as same:
        assert_type(same, FencedLease)
    await lease.release()
    async with lock as lease:
        assert_type(lease, FencedLease)
    async with lock.hold(timeout=1, max_hold=60) as lease:
        assert_type(lease, FencedLease)
    assert_type(await lock.try_acquire(max_hold=timedelta(hours=1)), FencedLease | None)


async def any_lock(lock: LockLike, url: str, options: RedissonOptions) -> None:
    async with lock as lease:
        assert_type(lease, Lease)
        assert_type(lease.token, int | None)
    assert_type(await lock.acquire(timeout=1, max_hold=60), Lease)
    assert_type(await lock.try_acquire(max_hold=60), Lease | None)
    await lock.acquire(max_hold="60")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    every: list[LockLike] = []
    async with Redisson.from_url(url, **options) as client:
        every += [client.get_fenced_lock("k"), client.get_read_write_lock("k").read_lock()]
    settings: RedissonOptions = {"lease_time": 10, "command_timeout": timedelta(seconds=2)}
    await Redisson.from_url(url, **settings).aclose()


async def a_block_swallows_nothing(lock: RLock) -> int:
    # Without a return behind the block this passes only if no block can swallow an exception.
    async with lock, lock.hold(timeout=1), await lock.acquire():
        return 1


async def decorated(client: Redisson, lock: RLock | FencedLock) -> None:
    @client.get_lock("report:{day}")
    async def report(day: str, *, part: int = 1) -> bytes:
        return day.encode() * part

    @client.get_fenced_lock("report:{day}").hold(timeout=5, lease_time=timedelta(minutes=1))
    async def bounded(day: str) -> list[int] | None: ...

    class Account:
        @client.get_lock("account:{self}")
        async def close(self, day: str) -> int:
            return 0

        @classmethod
        @client.get_lock("accounts")
        async def close_all(cls) -> int:
            return 0

    assert_type(await report("monday", part=2), bytes)
    assert_type(await bounded("monday"), list[int] | None)
    assert_type(await Account().close("monday"), int)
    assert_type(await Account.close_all(), int)
    assert_type(await lock(report)("monday"), bytes)
    await report(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await report("monday", whole=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await Account().close()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]

    @client.get_lock("k")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportUntypedFunctionDecorator]
    def sync() -> None: ...

    await sync()


def a_timeout(error: TimeoutError) -> None: ...


def a_misuse(error: RuntimeError) -> None: ...


def ours(error: RedissonError) -> None: ...


async def errors(lock: RLock, lease: Lease) -> None:
    try:
        await lock.acquire(timeout=1)
    except QuorumError as error:
        assert_type(error.answers, dict[str, str])
    except AcquireTimeoutError as error:
        a_timeout(error)
    except ConnectionLostError as error:
        assert_type(error.maybe_held, bool)
    except ScriptError as error:
        assert_type(error.script, str)
        assert_type(error.message, str)
    except BackendError as error:
        ours(error)
    try:
        await lease.release()
    except (NotHeldError, ClientClosedError) as error:
        a_misuse(error)
    except LeaseLostError as error:
        assert_type(error.name, str | bytes)
        assert_type(error.owner, str)
        assert_type(error.held_for, float)


def version() -> str:
    return redisson_py.__version__


def threads(path: Path) -> None:
    def on_lost(event: LostEvent) -> None:
        event.name  # noqa: B018

    with sync.Redisson.from_url("redis://localhost", on_lost=on_lost) as client:
        lock = client.get_lock("k")
        assert_type(lock, sync.RLock)
        with lock as lease:
            assert_type(lease, sync.Lease)
            assert_type(lease.wait_lost(timeout=1), bool)
        with lock.hold(timeout=timedelta(seconds=1)) as lease:
            assert_type(lease, sync.Lease)
        with client.get_fenced_lock("k") as fenced:
            assert_type(fenced, sync.FencedLease)
            assert_type(fenced.token, int)
        assert_type(lock.try_acquire(), sync.Lease | None)
        with client.get_semaphore("s", 2).hold(2) as permit:
            assert_type(permit, sync.Permit)
        assert_type(client.get_permit_expirable_semaphore("s").acquire_many(2), list[sync.Permit])
        assert_type(client.get_barrier("b", 2).wait(), int)
        assert_type(client.get_latch("l").wait(), None)
        assert_type(client.get_rate_limiter("r", 2).acquire(), Admission)
        with client.get_read_write_lock("k").read_lock() as reading:
            assert_type(reading, sync.Lease)

        @lock
        def function(number: int) -> str:
            return str(number)

        assert_type(function(1), str)
    sync.Redisson.from_url("redis://localhost", on_lost="cancel")  # type: ignore[arg-type]
    assert_type(sync.Redisson.from_file(path), sync.Redisson)
