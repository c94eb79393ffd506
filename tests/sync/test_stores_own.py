"""Threads and what only some stores have: read-write locks, semaphore mutexes; and mixed stores."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import pytest

from redisson_py import AcquireTimeoutError, ClientClosedError, LeaseLostError, NotHeldError
from redisson_py.sync import Lease, Locks, MultiLock, Redisson
from redisson_py.sync.postgres import Postgres
from redisson_py.sync.zookeeper import ZooKeeper
from tests.fixtures.backends import Running as RunningBackend
from tests.stores.backends import LEASE
from tests.sync.interrupting import Interrupted, interrupted_at, raising_handler, signal_when
from tests.sync.stores import NOWHERE, new_client
from tests.sync.threads import BUSY_WAIT, ClientFactory, Running, in_thread, until, until_waiting


@pytest.mark.parametrize("name", ["postgres", "etcd", "zookeeper"])
def test_read_write_lock(name: str, running_backend: RunningBackend) -> None:
    with new_client(name, running_backend(name)) as store:
        lock = store.get_read_write_lock("rw")
        assert (lock.name, lock.key) == (lock.read_lock().name, lock.write_lock().key)
        with lock.read_lock():
            reading = in_thread(lock.read_lock().acquire)
            assert in_thread(lock.write_lock().try_acquire) is None
            assert len(lock.inspect().readers) == 2
            reading.release()
            with pytest.raises(RuntimeError):
                lock.write_lock().acquire()
        with lock.write_lock() as writing, lock.read_lock():
            assert lock.statistics().held_leases == 2
            assert lock.inspect().writer is not None
            writing.release()
            # Still reading.
            assert in_thread(lock.write_lock().try_acquire) is None
            assert in_thread(lock.read_lock().acquire).release() is None
            writing = lock.write_lock()
            with pytest.raises(RuntimeError):
                writing.acquire()
            raise_from_block(lock)
        assert not lock.write_lock().locked()


def raise_from_block(lock: Any) -> None:
    with pytest.raises(TypeError, match=r"`with lock.read_lock\(\):`"):
        with lock:
            pass


@pytest.fixture
def postgres(running_backend: RunningBackend) -> Iterator[Callable[..., Postgres]]:
    """Make clients of PostgreSQL, which are closed when the test is over."""
    with contextlib.ExitStack() as stack:

        def make(**options: Any) -> Postgres:
            client = new_client("postgres", running_backend("postgres"), **options)
            return cast("Postgres", stack.enter_context(client))

        yield make


def test_a_semaphore(postgres: Callable[..., Postgres]) -> None:
    store = postgres()
    semaphore = store.get_semaphore("sync", 3)
    with semaphore, semaphore.hold(n=2) as permit:
        assert permit.units == 2
        assert semaphore.available() == 0
        assert in_thread(semaphore.try_acquire) is None
        with pytest.raises(AcquireTimeoutError):
            in_thread(lambda: semaphore.acquire(timeout=BUSY_WAIT))
        # What a block has is its own.
        with pytest.raises(NotHeldError):
            semaphore.release()
        assert sorted(each.holds for each in semaphore.inspect().holders) == [1, 2]
    permit = semaphore.acquire(3)
    # Whoever took them: any thread gives them back.
    in_thread(lambda: semaphore.release(2))
    assert permit.units == 1
    assert semaphore.available() == 2
    in_thread(permit.release)
    assert not semaphore.release_if_exists()
    assert not semaphore.try_set_permits(5)
    semaphore.add_permits(1)
    assert semaphore.drain() == 4
    semaphore.set_permits(2)
    assert semaphore.available() == 2
    assert semaphore.delete()
    assert not semaphore.delete()
    with pytest.raises(AcquireTimeoutError, match="does not exist"):
        store.get_semaphore("sync").acquire(timeout=BUSY_WAIT)


def test_threads_never_have_more_permits_than_there_are(
    postgres: Callable[..., Postgres],
) -> None:
    guard = threading.Lock()
    taken, most = 0, 0

    def work(store: Postgres, number: int) -> None:
        nonlocal taken, most
        semaphore = store.get_semaphore("crowd", 3)
        for index in range(6):
            units = 1 + (number + index) % 3
            with semaphore.hold(units):
                with guard:
                    taken += units
                    most = max(most, taken)
                # The others get their chance.
                time.sleep(0.001)
                with guard:
                    taken -= units

    clients = [postgres(turn=0), postgres(turn=0)]
    running = [Running(partial(work, client, number)) for client in clients for number in range(3)]
    for each in running:
        each.result()
    assert most == 3
    assert clients[0].get_semaphore("crowd").available() == 3


def test_an_interrupted_wait_for_permits_holds_none(postgres: Callable[..., Postgres]) -> None:
    holder, client = postgres(), postgres()
    permit = holder.get_semaphore("interrupted", 2).acquire()
    with raising_handler():
        watching = signal_when(lambda: until_waiting(client))
        with pytest.raises(Interrupted):
            client.get_semaphore("interrupted").acquire(2)
        watching.result()
    statistics = client.statistics()
    assert (statistics.waiters, statistics.held_leases) == (0, 0)
    # Nobody is before this one any more.
    with client.get_semaphore("interrupted").hold(timeout=60):
        pass
    permit.release()
    assert holder.get_semaphore("interrupted").available() == 2


@pytest.mark.parametrize("kind", ["semaphore", "read"])
def test_a_block_that_is_interrupted_at_any_instruction_holds_nothing(
    postgres: Callable[..., Postgres], kind: str
) -> None:
    store = postgres()
    semaphore, both = store.get_semaphore("swept", 1), store.get_read_write_lock("swept")

    def work() -> None:
        with semaphore if kind == "semaphore" else both.read_lock():
            pass

    work()
    steps = 0
    for step in itertools.count():
        if not interrupted_at(step, work):
            break
        until(lambda: store.statistics().held_leases == 0)
        steps = step
    assert steps > 50
    assert semaphore.available() == 1
    assert not both.inspect().holders


def test_a_deleted_semaphore_is_a_loss_at_the_end_of_the_block(
    postgres: Callable[..., Postgres],
) -> None:
    store, other = postgres(lease_time=LEASE), postgres()
    passed = False
    with pytest.raises(LeaseLostError) as info:
        with store.get_semaphore("deleted", 2) as permit:
            watching = Running(permit.wait_lost)
            assert other.get_semaphore("deleted").delete()
            assert watching.result() is True
            passed = True
    assert passed
    assert info.value.reason == "taken"


def test_closing_gives_permits_and_both_sides_back(postgres: Callable[..., Postgres]) -> None:
    client, other = postgres(), postgres()
    semaphore, both = client.get_semaphore("closed", 2), client.get_read_write_lock("closed")
    held: list[Lease] = [semaphore.acquire(2), both.read_lock().acquire()]
    waiting: list[Running[Any]] = [
        Running(semaphore.acquire),
        Running(both.write_lock().acquire),
    ]
    until_waiting(client, 2)
    theirs: list[Running[Lease]] = [
        Running(other.get_semaphore("closed").acquire),
        Running(other.get_read_write_lock("closed").write_lock().acquire),
    ]
    until_waiting(other, 2)
    client.close()
    assert [type(each.error()) for each in waiting] == [ClientClosedError] * 2
    assert all(each.lost for each in held)
    # Long before the leases of the first client would end.
    for each in theirs:
        each.result().release()


@pytest.mark.parametrize("outcome", ["returns", "raises"])
def test_a_decorated_function_has_a_permit(postgres: Callable[..., Postgres], outcome: str) -> None:
    store = postgres()

    @store.get_semaphore("of:{customer}", 2).hold(2, timeout=60)
    def work(customer: str) -> int:
        """Write it."""
        if outcome == "raises":
            raise KeyError(customer)
        return store.get_semaphore(f"of:{customer}").available()

    if outcome == "raises":
        with pytest.raises(KeyError):
            work("a")
    else:
        assert (work("a"), work.__doc__) == (0, "Write it.")
    assert store.get_semaphore("of:a").available() == 2


def test_bad_numbers_of_permits_are_refused_before_anything_starts() -> None:
    with Postgres.from_url(NOWHERE["postgres"]) as store:
        with pytest.raises(TypeError):
            store.get_semaphore("k", "5")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="permits"):
            store.get_semaphore("k", -1)
        semaphore = store.get_semaphore("k", 5)
        for call in (semaphore.acquire, semaphore.try_acquire, semaphore.release):
            with pytest.raises(ValueError, match="n must be"):
                call(-1)
            with pytest.raises(TypeError):
                call(1.5)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="timeout"):
            semaphore.hold(timeout=-1)
        assert store.statistics().connections == 0


def test_semaphore_mutex(running_backend: RunningBackend) -> None:
    with new_client("zookeeper", running_backend("zookeeper")) as store:
        assert isinstance(store, ZooKeeper)
        mutex = store.get_semaphore_mutex("/sync/mutex")
        with mutex:
            with pytest.raises(RuntimeError):
                mutex.acquire()
            assert in_thread(mutex.try_acquire) is None
            waiting = Running(mutex.acquire)
            until_waiting(store)
        waiting.result().release()
        assert not mutex.locked()


def test_a_multi_lock_of_several_stores(
    running_backend: RunningBackend, clients: ClientFactory
) -> None:
    redis: Locks = clients()
    assert isinstance(redis, Redisson)
    with contextlib.ExitStack() as stack:
        names = ("postgres", "mysql", "etcd", "zookeeper")
        found: list[Locks] = [redis] + [
            stack.enter_context(new_client(name, running_backend(name))) for name in names
        ]
        lock = MultiLock(*[each.get_lock("mixed") for each in found])
        with lock as lease:
            for each in found:
                assert each.get_lock("mixed").owned()
                assert in_thread(each.get_lock("mixed").try_acquire) is None
            assert not lease.lost

        @lock.hold(timeout=60)
        def work() -> list[int]:
            return [each.get_lock("mixed").hold_count() for each in found]

        assert work() == [1] * 5
        assert [each.get_lock("mixed").locked() for each in found] == [False] * 5


def test_what_is_no_multi_lock() -> None:
    with pytest.raises(ValueError, match="at least one lock"):
        MultiLock()
    with pytest.raises(TypeError):
        MultiLock("k")  # type: ignore[arg-type]
