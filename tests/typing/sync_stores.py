"""The clients of other stores for threads. Never run: mypy and pyright check it, strict."""

from __future__ import annotations

from typing import assert_type

from redisson_py.sync import (
    FencedLease,
    HoldBlock,
    Lease,
    LockOf,
    Locks,
    MultiLock,
    Observation,
    Permit,
    Redisson,
)
from redisson_py.sync.etcd import Election, Etcd, Leader, Leadership, StoreLock
from redisson_py.sync.mysql import MySQL
from redisson_py.sync.postgres import (
    Postgres,
    PostgresFencedLease,
    PostgresFencedLock,
    PostgresLease,
    PostgresLock,
    SemaphoreSnapshot,
    StoreSemaphore,
    schema_sql,
)
from redisson_py.sync.zookeeper import (
    ReadWriteSnapshot,
    StoreReadLock,
    StoreReadWriteLock,
    StoreSemaphoreMutex,
    StoreWriteLock,
    ZooKeeper,
)


def on_any_store(locks: Locks) -> None:
    with locks.get_lock("k") as lease:
        assert_type(lease, Lease)
    with locks.get_fenced_lock("k") as fenced:
        assert_type(fenced, FencedLease)
        assert_type(fenced.token, int)
    locks.close()


def all_of_them() -> None:
    on_any_store(Redisson.from_url("redis://localhost"))
    on_any_store(Postgres.from_url("postgresql://localhost/db", connections=2, lease_time=10))
    on_any_store(MySQL.from_url("mysql://localhost/db", prefix="app:"))
    on_any_store(Etcd.from_url("etcd://localhost", ca="ca.pem"))
    on_any_store(ZooKeeper.from_url("zookeeper://localhost", on_lost=print))


def postgres(connection: object) -> None:
    with Postgres.from_url("postgresql://localhost/db") as store:
        assert_type(store, Postgres)
        lock = store.get_lock("k")
        assert_type(lock, PostgresLock)
        with lock as lease:
            assert_type(lease, PostgresLease)
            lease.guard(connection)
            lease.check()
        with lock.hold(timeout=1) as lease:
            assert_type(lease.wait_lost(timeout=1), bool)
        assert_type(lock.acquire(timeout=1), PostgresLease)
        assert_type(lock.hold(), HoldBlock[PostgresLease])
        fenced_lock = store.get_fenced_lock("k")
        assert_type(fenced_lock, PostgresFencedLock)
        with fenced_lock as fenced:
            assert_type(fenced, PostgresFencedLease)
            assert_type(fenced.token, int)
            fenced.guard(connection)
        assert_type(fenced_lock.try_acquire(), PostgresFencedLease | None)
        both = store.get_read_write_lock("k")
        assert_type(both, StoreReadWriteLock)
        with both.write_lock() as writing:
            assert_type(writing, Lease)
        semaphore = store.get_semaphore("s", permits=5)
        assert_type(semaphore, StoreSemaphore)
        with semaphore as permit:
            assert_type(permit, Permit)
        with semaphore.hold(2, timeout=1) as permit:
            assert_type(permit.units, int)
        assert_type(semaphore.try_acquire(2), Permit | None)
        assert_type(semaphore.available(), int)
        assert_type(semaphore.inspect(), SemaphoreSnapshot)

        @semaphore
        def work_with_permit(number: int) -> str:
            return str(number)

        assert_type(work_with_permit(1), str)
        store.get_semaphore("s", "5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(schema_sql(), str)

    @store.get_lock("k:{number}")
    def work(number: int) -> str:
        return str(number)

    assert_type(work(1), str)


def what_a_store_lacks_is_no_method_there() -> None:
    etcd = Etcd.from_url("etcd://localhost")
    assert_type(etcd.get_lock("k"), StoreLock)
    assert_type(etcd.get_fenced_lock("k"), LockOf[FencedLease])
    etcd.get_semaphore("s", 5)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    etcd.get_semaphore_mutex("k")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    lease = etcd.get_lock("k").acquire()
    lease.guard(None)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    MySQL.from_url("mysql://localhost/db", sync_replicas=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    MySQL.from_url("mysql://localhost/db", on_lost="cancel")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    etcd.aclose()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


def elections() -> None:
    with Etcd.from_url("etcd://localhost") as store:
        election = store.get_election("k")
        assert_type(election, Election)
        with election.campaign("host", timeout=1, max_hold=60) as leadership:
            assert_type(leadership, Leadership)
            assert_type(leadership.token, int)
            leadership.proclaim(b"host")
        assert_type(election.leader(), Leader | None)
        assert_type(election.observe(), Observation[Leader | None])
        for leader in election.observe():
            assert_type(leader, Leader | None)

        @election.campaign("host")
        def work(number: int) -> str:
            return str(number)

        assert_type(work(1), str)
        election.campaign(17)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def elections_on_each_store(
    redis: Redisson, postgres: Postgres, mysql: MySQL, zookeeper: ZooKeeper
) -> None:
    for store in (redis, postgres, mysql, zookeeper):
        assert_type(store.get_election("k"), Election)
        assert_type(store.get_election("k").acquire("host", timeout=1), Leadership)


def zookeeper() -> None:
    with ZooKeeper.from_url("zookeeper://localhost") as store:
        lock = store.get_read_write_lock("k")
        assert_type(lock, StoreReadWriteLock)
        assert_type(lock.read_lock(), StoreReadLock)
        assert_type(lock.write_lock(), StoreWriteLock)
        assert_type(lock.inspect(), ReadWriteSnapshot)
        with lock.write_lock() as lease:
            assert_type(lease, Lease)
        assert_type(store.get_semaphore_mutex("k"), StoreSemaphoreMutex)


def together(redis: Redisson, store: Postgres) -> None:
    lock = redis.get_multi_lock(redis.get_lock("a"), store.get_lock("b"))
    assert_type(lock, MultiLock)
    with MultiLock(store.get_lock("a"), store.get_lock("b")) as lease:
        assert_type(lease, Lease)
    redis.get_red_lock(store.get_lock("a"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
