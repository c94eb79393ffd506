"""Threads and what only some stores have: elections, read-write locks, semaphore mutexes; mixed."""

from __future__ import annotations

import contextlib
import gc
import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from redisson_py import AcquireTimeoutError, ClientClosedError, LeaseLostError, NotHeldError
from redisson_py.sync import Locks, MultiLock, Redisson
from redisson_py.sync.etcd import Election, Etcd, Leader, Leadership
from redisson_py.sync.zookeeper import ZooKeeper
from tests.fixtures.backends import Running as RunningBackend
from tests.sync.interrupting import Interrupted, interrupted_at, raising_handler, signal_when
from tests.sync.stores import new_client
from tests.sync.threads import BUSY_WAIT, ClientFactory, Running, in_thread, until, until_waiting


@pytest.fixture
def etcd(running_backend: RunningBackend) -> Iterator[Etcd]:
    with new_client("etcd", running_backend("etcd")) as client:
        yield client


@pytest.fixture
def election(etcd: Etcd) -> Election:
    return etcd.get_election("/leaders/sync")


def test_an_election(election: Election) -> None:
    assert election.leader() is None
    with election.campaign("one") as leadership:
        assert isinstance(leadership, Leadership)
        assert election.leader() == Leader(b"one", leadership.token)
        leadership.proclaim(b"two")
        found = in_thread(election.leader)
        assert found is not None
        assert found.text == "two"
        with pytest.raises(RuntimeError):
            election.campaign("again").__enter__()
        with pytest.raises(AcquireTimeoutError):
            in_thread(election.campaign("other", timeout=BUSY_WAIT).__enter__)
        (holder,) = election.inspect().holders
        assert holder.owner == leadership.owner
    assert election.leader() is None
    with pytest.raises(NotHeldError):
        leadership.proclaim("late")
    with pytest.raises(TypeError):
        election.campaign(5)  # type: ignore[arg-type]
    assert election.name == "/leaders/sync"


def test_candidates_lead_in_their_order(etcd: Etcd, election: Election) -> None:
    order: list[str] = []

    def stand(value: str) -> int:
        with election.campaign(value) as leadership:
            found = election.leader()
            assert found is not None
            order.append(found.text)
            return leadership.token

    with election.campaign("first") as leadership:
        running = []
        for number in range(3):
            running.append(Running(lambda number=number: stand(str(number))))  # type: ignore[misc]
            until(lambda: len(election.inspect().waiters or ()) == len(running))
    tokens = [leadership.token, *[each.result() for each in running]]
    assert order == ["0", "1", "2"]
    assert sorted(set(tokens)) == tokens


def test_a_function_that_leads(etcd: Etcd) -> None:
    election = etcd.get_election("/leaders/{region}")

    @election.campaign("host-1", timeout=60)
    def lead(region: str) -> str:
        found = etcd.get_election(f"/leaders/{region}").leader()
        assert found is not None
        return found.text

    assert lead("north") == "host-1"
    assert etcd.get_election("/leaders/north").leader() is None


def test_a_leader_that_is_deposed_hears_of_it(etcd: Etcd, election: Election) -> None:
    with pytest.raises(LeaseLostError):
        with election.campaign("one") as leadership:
            # In etcd a lock of that name has the same keys.
            assert in_thread(etcd.get_lock("/leaders/sync").force_release)
            assert leadership.wait_lost(timeout=60)
            with pytest.raises(LeaseLostError):
                leadership.proclaim("two")


def test_an_observer_sees_each_state(etcd: Etcd, election: Election) -> None:
    with contextlib.closing(election.observe()) as states:
        assert next(states) is None
        with election.campaign("one") as leadership:
            assert next(states) == Leader(b"one", leadership.token)
            # From any thread, that waits.
            waiting = Running(lambda: next(states))
            until_waiting(etcd)
            leadership.proclaim("two")
            assert waiting.result() == Leader(b"two", leadership.token)
        assert next(states) is None
    assert list(states) == []
    states.close()


def test_an_observer_that_leaves_its_loop_leaves_nothing(etcd: Etcd, election: Election) -> None:
    watched: dict[Any, Any] = etcd._working._store._watches._by_waiter
    for state in election.observe():
        assert state is None
        assert len(watched) == 1
        break
    gc.collect()
    until(lambda: not watched)
    assert etcd.statistics().waiters == 0


def test_an_interrupted_observer_ends(etcd: Etcd, election: Election) -> None:
    states = election.observe()
    assert next(states) is None
    with raising_handler():
        watching = signal_when(lambda: until_waiting(etcd))
        with pytest.raises(Interrupted):
            next(states)
        watching.result()
    assert etcd.statistics().waiters == 0
    assert list(states) == []


def test_an_observer_that_is_interrupted_at_any_instruction_misses_no_state(
    etcd: Etcd, election: Election
) -> None:
    steps = 0
    for step in itertools.count():
        states = election.observe()
        if not interrupted_at(step, partial(next, states)):
            break
        # It has ended, or begins with what is; it never waits for a change from what nobody saw.
        assert next(states, "ended") in (None, "ended")
        steps = step
        states.close()
    assert steps > 20
    until(lambda: etcd.statistics().waiters == 0)


def test_closing_the_client_ends_an_observer(etcd: Etcd, election: Election) -> None:
    states = election.observe()
    assert next(states) is None
    waiting = Running(lambda: next(states))
    until_waiting(etcd)
    etcd.close()
    assert isinstance(waiting.error(), ClientClosedError)


def test_a_campaign_that_is_interrupted_at_any_instruction_leads_nobody(
    etcd: Etcd, election: Election
) -> None:
    def work() -> None:
        with election.campaign("one") as leadership:
            leadership.proclaim("two")

    work()
    steps = 0
    for step in itertools.count():
        if not interrupted_at(step, work):
            break
        until(lambda: etcd.statistics().held_leases == 0)
        steps = step
    assert steps > 50
    assert election.leader() is None


@pytest.mark.parametrize("name", ["etcd", "zookeeper"])
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
