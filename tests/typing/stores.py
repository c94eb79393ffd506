"""The clients of other stores as users write it. Never run: mypy and pyright check it, strict."""

from __future__ import annotations

from typing import assert_type

from redisson_py import FencedLease, Lease, LockOf, Locks, MultiLock, Redisson
from redisson_py.etcd import Election, Etcd, Leader, Leadership, StoreLock
from redisson_py.mysql import MySQL
from redisson_py.postgres import (
    Permit,
    Postgres,
    PostgresFencedLease,
    PostgresFencedLock,
    PostgresLease,
    PostgresLock,
    SemaphoreSnapshot,
    StoreSemaphore,
    schema_sql,
)
from redisson_py.zookeeper import (
    ReadWriteSnapshot,
    StoreReadLock,
    StoreReadWriteLock,
    StoreSemaphoreMutex,
    StoreWriteLock,
    ZooKeeper,
)


async def on_any_store(locks: Locks) -> None:
    async with locks.get_lock("k") as lease:
        assert_type(lease, Lease)
    async with locks.get_fenced_lock("k") as fenced:
        assert_type(fenced, FencedLease)
        assert_type(fenced.token, int)
    await locks.aclose()


async def all_of_them() -> None:
    await on_any_store(Redisson.from_url("redis://localhost"))
    await on_any_store(Postgres.from_url("postgresql://localhost/db", connections=2, lease_time=10))
    await on_any_store(MySQL.from_url("mysql://localhost/db", prefix="app:"))
    await on_any_store(Etcd.from_url("etcd://localhost", ca="ca.pem"))
    await on_any_store(ZooKeeper.from_url("zookeeper://localhost", on_lost="raise"))


async def postgres(connection: object) -> None:
    async with Postgres.from_url("postgresql://localhost/db") as store:
        assert_type(store, Postgres)
        lock = store.get_lock("k")
        assert_type(lock, PostgresLock)
        async with lock as lease:
            assert_type(lease, PostgresLease)
            await lease.guard(connection)
        async with lock.hold(timeout=1) as lease:
            await lease.guard(connection)
        fenced_lock = store.get_fenced_lock("k")
        assert_type(fenced_lock, PostgresFencedLock)
        async with fenced_lock as fenced:
            assert_type(fenced, PostgresFencedLease)
            assert_type(fenced.token, int)
            await fenced.guard(connection)
        assert_type(await fenced_lock.try_acquire(), PostgresFencedLease | None)
        both = store.get_read_write_lock("k")
        assert_type(both, StoreReadWriteLock)
        async with both.write_lock() as writing:
            assert_type(writing, Lease)
        semaphore = store.get_semaphore("s", permits=5)
        assert_type(semaphore, StoreSemaphore)
        async with semaphore as permit:
            assert_type(permit, Permit)
        async with semaphore.hold(2, timeout=1) as permit:
            assert_type(permit.units, int)
        assert_type(await semaphore.try_acquire(2), Permit | None)
        assert_type(await semaphore.available(), int)
        assert_type(await semaphore.inspect(), SemaphoreSnapshot)

        @semaphore
        async def work(number: int) -> str:
            return str(number)

        assert_type(await work(1), str)
        store.get_semaphore("s", "5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(schema_sql(), str)


async def what_a_store_lacks_is_no_method_there() -> None:
    etcd = Etcd.from_url("etcd://localhost")
    assert_type(etcd.get_lock("k"), StoreLock)
    assert_type(etcd.get_fenced_lock("k"), LockOf[FencedLease])
    etcd.get_semaphore("s", 5)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    etcd.get_latch("l")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    etcd.get_semaphore_mutex("k")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    lease = await etcd.get_lock("k").acquire()
    lease.guard(None)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    mysql = MySQL.from_url("mysql://localhost/db")
    mysql.get_read_write_lock("rw")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    MySQL.from_url("mysql://localhost/db", sync_replicas=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def etcd() -> None:
    async with Etcd.from_url("etcd://localhost") as store:
        lock = store.get_read_write_lock("k")
        assert_type(lock, StoreReadWriteLock)
        async with lock.read_lock() as lease:
            assert_type(lease, Lease)


async def elections() -> None:
    async with Etcd.from_url("etcd://localhost") as store:
        election = store.get_election("k")
        assert_type(election, Election)
        async with election.campaign("host", timeout=1, max_hold=60) as leadership:
            assert_type(leadership, Leadership)
            assert_type(leadership.token, int)
            await leadership.proclaim(b"host")
        assert_type(await election.leader(), Leader | None)
        async for leader in election.observe():
            assert_type(leader, Leader | None)
            if leader is not None:
                assert_type((leader.value, leader.text, leader.token), tuple[bytes, str, int])

        @election.campaign("host")
        async def work(number: int) -> str:
            return str(number)

        assert_type(await work(1), str)
        election.campaign(17)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        assert_type(await election.acquire("host", timeout=1), Leadership)
        await election.acquire()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def elections_on_every_store(
    client: Redisson, postgres: Postgres, mysql: MySQL, zookeeper: ZooKeeper
) -> None:
    for store in (client, postgres, mysql, zookeeper):
        assert_type(store.get_election("k"), Election)


async def zookeeper() -> None:
    async with ZooKeeper.from_url("zookeeper://localhost") as store:
        lock = store.get_read_write_lock("k")
        assert_type(lock, StoreReadWriteLock)
        assert_type(lock.read_lock(), StoreReadLock)
        assert_type(lock.write_lock(), StoreWriteLock)
        assert_type(await lock.inspect(), ReadWriteSnapshot)
        async with lock.write_lock() as lease:
            assert_type(lease, Lease)
        assert_type(store.get_semaphore_mutex("k"), StoreSemaphoreMutex)
        store.get_read_write_lock("k", prefer="writers")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def together(redis: Redisson, store: Postgres) -> None:
    lock = redis.get_multi_lock(redis.get_lock("a"), store.get_lock("b"))
    assert_type(lock, MultiLock)
    async with MultiLock(store.get_lock("a"), store.get_lock("b")) as lease:
        assert_type(lease, Lease)
