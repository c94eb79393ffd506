"""Threads that hold locks of other stores, as `test_locks` has it for Redis."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import logging
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from redisson_py import (
    AcquireTimeoutError,
    ClientClosedError,
    ConnectionLostError,
    LeaseLostError,
    LostEvent,
    NotHeldError,
)
from redisson_py.sync import FencedLease, HoldBlock, LockLike, Locks
from tests.fixtures.backends import Running as RunningBackend
from tests.stores.backends import LEASE, Backend, started
from tests.sync.interrupting import Interrupted, interrupted_at, raising_handler, signal_when
from tests.sync.stores import ALL, CLIENTS, KINDS, NOWHERE, StoreClients, new_client
from tests.sync.threads import BUSY_WAIT, Running, in_thread, until, until_waiting

each_store = pytest.mark.parametrize("name", CLIENTS)
each_lock = pytest.mark.parametrize(("name", "kind"), ALL, ids=["-".join(each) for each in ALL])


@pytest.fixture
def stores(name: str, running_backend: RunningBackend) -> Iterator[StoreClients]:
    """Make clients of a store, `stores(lease_time=3)`; a test leaves them idle or closes them."""
    backend = running_backend(name)
    made: list[Any] = []

    def make(**options: Any) -> Any:
        made.append(new_client(name, backend, **options))
        return made[-1]

    yield make
    try:
        for client in made:
            if not client._working._life.closed:
                statistics = client.statistics()
                assert (statistics.waiters, statistics.held_leases) == (0, 0)
    finally:
        for client in made:
            client.close()


@pytest.fixture
def store(stores: StoreClients) -> Any:
    return stores()


@pytest.fixture
def lock(name: str, kind: str, store: Any) -> Any:
    return KINDS[name][kind](store)


@each_lock
def test_a_thread_enters_again_and_others_are_refused(lock: Any) -> None:
    with lock as lease:
        assert lock.owned()
        assert not in_thread(lock.owned)
        with lock:
            assert lock.hold_count() == 2
            assert in_thread(lock.try_acquire) is None
        assert lock.hold_count() == 1
        assert not lease.lost
        with pytest.raises(NotHeldError):
            in_thread(lock.release)
        with pytest.raises(AcquireTimeoutError):
            in_thread(lambda: lock.acquire(timeout=BUSY_WAIT))
    assert not lock.locked()
    with pytest.raises(NotHeldError):
        lock.release()


@each_store
@pytest.mark.parametrize("shared", [True, False], ids=["one client", "a client each"])
def test_no_increment_is_lost(shared: bool, stores: StoreClients) -> None:
    first: Locks = stores()
    rounds, threads = 10, 4
    total, token = 0, 0

    def work(client: Locks) -> None:
        nonlocal total, token
        lock = client.get_fenced_lock("counted")
        for _ in range(rounds):
            with lock as lease:
                before = total
                assert lease.token > token
                token = lease.token
                # Another thread inside would write the same number.
                time.sleep(0.001)
                total = before + 1

    running = [Running(lambda: work(first if shared else stores())) for _ in range(threads)]
    for each in running:
        each.result()
    assert total == rounds * threads


@each_lock
def test_a_lease_is_released_by_another_thread(lock: Any) -> None:
    lease = lock.acquire()
    in_thread(lease.release)
    assert not lock.locked()
    with pytest.raises(NotHeldError):
        lease.release()


@each_lock
def test_a_waiting_thread_is_let_in_by_a_release(lock: Any, store: Any) -> None:
    with lock:
        waiting = Running(lambda: (lock.acquire(), lock.hold_count()))
        until_waiting(store)
    lease, count = waiting.result()
    assert count == 1
    # That thread has ended since.
    lease.release()


@each_store
def test_a_waiting_client_is_let_in_by_the_release_of_another(stores: StoreClients) -> None:
    one, other = stores(), stores()
    with one.get_fenced_lock("k") as first:
        waiting = Running(lambda: other.get_fenced_lock("k").acquire())
        until_waiting(other)
    second = waiting.result()
    assert isinstance(second, FencedLease)
    assert second.token > first.token
    second.release()


@each_store
def test_what_a_thread_held_that_ended_is_not_renewed_any_more(
    stores: StoreClients, caplog: pytest.LogCaptureFixture
) -> None:
    lock = stores(lease_time=LEASE).get_lock("k")
    in_thread(lambda: lock.acquire().name)
    gc.collect()
    with caplog.at_level(logging.WARNING, "redisson_py"):
        lock.acquire(timeout=60)
    lock.release()
    assert [each for each in caplog.messages if "is no longer renewed" in each]


@each_lock
def test_a_loss_is_reported_at_the_end_of_the_block(
    name: str, kind: str, stores: StoreClients
) -> None:
    events: list[LostEvent] = []
    threads: list[threading.Thread] = []

    def on_lost(event: LostEvent) -> None:
        threads.append(threading.current_thread())
        # This thread may use the client.
        assert not client.get_lock("other").locked()
        events.append(event)

    client = stores(on_lost=on_lost)
    lock = KINDS[name][kind](client)
    passed = False
    with pytest.raises(LeaseLostError) as info:
        with lock as lease:
            watching = Running(lambda: lease.wait_lost())
            assert not lease.wait_lost(timeout=0.01)
            lease.check()
            assert in_thread(lock.force_release)
            assert watching.result() is True
            with pytest.raises(LeaseLostError):
                lease.check()
            passed = True
    assert passed
    assert info.value.reason == "forced"
    until(lambda: events)
    assert threads[0] is not threading.main_thread()


@each_store
def test_a_lease_is_a_block_and_is_extended(store: Any) -> None:
    lock = store.get_fenced_lock("k")
    with lock.acquire() as lease:
        assert isinstance(lease, FencedLease)
        lease.extend(9)
        assert 0 < lease.remaining <= 9
        holder = lock.inspect().holders[0]
        assert holder.owner == lease.owner == f"{store.id}:{lease.owner.rpartition(':')[2]}"
    assert not lock.locked()


@each_lock
def test_blocks_that_are_entered_by_hand(lock: Any) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(lock)
        stack.enter_context(lock)
        assert lock.hold_count() == 2
    assert not lock.locked()
    with pytest.raises(NotHeldError, match="without __enter__"):
        lock.__exit__(None, None, None)


@each_store
@pytest.mark.parametrize("outcome", ["returns", "raises"])
def test_a_decorated_function(store: Locks, outcome: str) -> None:
    @store.get_lock("report:{day}").hold(timeout=20)
    def report(day: str) -> bool:
        """Write it."""
        if outcome == "raises":
            raise KeyError(day)
        return store.get_lock(f"report:{day}").owned()

    assert (report.__name__, report.__doc__) == ("report", "Write it.")
    if outcome == "raises":
        with pytest.raises(KeyError):
            report("monday")
    else:
        assert report("monday") is True
    assert not store.get_lock("report:monday").locked()


@each_lock
def test_a_decorated_function_of_each_kind(lock: LockLike) -> None:
    @lock
    def work() -> int:
        return lock.hold_count()

    assert work() == 1
    assert not lock.locked()


@each_lock
def test_an_interrupted_wait_holds_nothing(name: str, kind: str, stores: StoreClients) -> None:
    holder, client = stores(), stores()
    make = KINDS[name][kind]
    lease = make(holder).acquire()
    with raising_handler():
        watching = signal_when(lambda: until_waiting(client))
        with pytest.raises(Interrupted):
            make(client).acquire()
        watching.result()
    statistics = client.statistics()
    assert (statistics.waiters, statistics.held_leases) == (0, 0)
    lease.release()
    # This thread goes on as if nothing had been.
    with make(client).hold(timeout=60):
        pass


@each_lock
def test_a_block_that_is_interrupted_at_any_instruction_holds_nothing(
    lock: LockLike, store: Any
) -> None:
    def work() -> None:
        with lock:
            pass

    work()
    steps = 0
    for step in itertools.count():
        if not interrupted_at(step, work):
            break
        until(lambda: store.statistics().held_leases == 0)
        steps = step
    assert steps > 50
    assert not lock.locked()
    assert not in_thread(lock.locked)


@each_store
def test_close_releases_and_sends_waiters_away(stores: StoreClients) -> None:
    client, other = stores(), stores()
    lock = client.get_lock("k")
    lease = lock.acquire()
    waiting = Running(lock.acquire)
    until_waiting(client)
    client.close()
    client.close()
    assert isinstance(waiting.error(), ClientClosedError)
    assert lease.lost
    assert not other.get_lock("k").locked()
    with pytest.raises(ClientClosedError):
        lock.acquire()
    before = client.id
    with client, lock:
        assert client.id != before


@each_store
def test_a_block_that_is_still_running_learns_that_its_client_was_closed(
    stores: StoreClients,
) -> None:
    client = stores()
    with pytest.raises(LeaseLostError):
        with client.get_lock("k") as lease:
            in_thread(client.close)
            assert lease.lost


@each_store
def test_bad_arguments_are_refused_before_anything_starts(name: str) -> None:
    make = CLIENTS[name].from_url
    client = make(NOWHERE[name])
    with pytest.raises(ValueError, match="empty"):
        client.get_lock("")
    with pytest.raises(ValueError, match="NUL"):
        client.get_fenced_lock("a\0b")
    with pytest.raises(TypeError):
        client.get_lock(5)
    for times in ({"lease_time": -1}, {"timeout": -1}, {"lease_time": 5, "max_hold": 5}):
        for call in (client.get_lock("k").hold, client.get_lock("k").acquire):
            with pytest.raises(ValueError, match=next(iter(times))):
                call(**times)
    with pytest.raises(TypeError, match="there is no option 'leese'"):
        make(NOWHERE[name], leese=1)
    with pytest.raises(TypeError, match="there is no option 'sync_replicas'"):
        make(NOWHERE[name], sync_replicas=1)
    with pytest.raises(ValueError, match="nothing can cancel"):
        make(NOWHERE[name], on_lost="cancel")
    with pytest.raises(TypeError, match="has no argument 'blocking_timeout'"):
        client.get_lock("k").acquire(blocking_timeout=5)
    assert client.statistics().connections == 0


@each_store
def test_nobody_answers(name: str) -> None:
    with CLIENTS[name].from_url(NOWHERE[name], command_timeout=0.5) as client:
        with pytest.raises(ConnectionLostError):
            client.ping(timeout=0)
        with pytest.raises(ConnectionLostError):
            client.get_lock("k").try_acquire()


@each_store
async def test_a_thread_that_runs_an_event_loop_is_refused(name: str) -> None:
    client = CLIENTS[name].from_url(NOWHERE[name])
    lock = client.get_lock("k")
    for use in (client.ping, lock.acquire, lock.__enter__, client.close):
        with pytest.raises(RuntimeError, match="use an async client there"):
            use()
    for block in (client, lock, lock.hold()):
        with pytest.raises(TypeError, match="for threads: in an `async def` take the client from"):
            async with block:
                pass
    assert client.statistics().connections == 0
    assert lock.statistics().waiters == 0


@each_store
def test_locks_of_different_clients_and_kinds_have_their_types(store: Any) -> None:
    assert isinstance(store.get_lock("k").hold(timeout=5), HoldBlock)
    assert repr(store.get_lock("k")).endswith("'k'>")
    assert type(store).__name__ in repr(store)
    with store.get_lock("k", reentrant=False), pytest.raises(RuntimeError):
        store.get_lock("k", reentrant=False).acquire()


@pytest.fixture
def own_backend(name: str) -> Iterator[Backend]:
    """A server that a test may kill."""
    backend = started(name)
    yield backend
    backend.close()


@pytest.mark.parametrize("name", ["postgres", "etcd"])
def test_a_server_that_is_killed_and_comes_back(name: str, own_backend: Backend) -> None:
    """Threads that wait go on when it is back; what was held is held, or its loss is reported."""
    with new_client(name, own_backend, lease_time=60, command_timeout=30) as client:
        lock = client.get_fenced_lock("k")
        with lock as first:
            waiting = Running(lambda: lock.acquire(timeout=120))
            until_waiting(client)
            asyncio.run(own_backend.kill())
            assert client.statistics().waiters == 1
            asyncio.run(own_backend.restart())
            client.ping(timeout=60)
            first.check()
        second = waiting.result()
        assert second.token > first.token
        second.release()


@each_store
async def test_connections_that_break_leave_no_hold_and_let_nobody_in(
    name: str, running_backend: RunningBackend
) -> None:
    backend = running_backend(name)
    inside, rounds = 0, 15
    tokens: list[int] = []

    def work(client: Locks) -> None:
        nonlocal inside
        lock = client.get_fenced_lock("broken")
        for _ in range(rounds):
            # What got no answer in time is not held, or given back later.
            with contextlib.suppress(ConnectionLostError), lock as lease:
                inside += 1
                assert inside == 1
                tokens.append(lease.token)
                time.sleep(0.001)
                inside -= 1

    async with backend.proxy() as proxy:
        clients = [
            # Not passed on inside a client: each is asked for.
            new_client(name, backend, url=proxy.url, command_timeout=20, turn=0)
            for _ in range(2)
        ]
        running = [Running(partial(work, client)) for client in clients for _ in range(2)]
        cuts = 0
        while any(each.thread.is_alive() for each in running):
            seen = len(tokens)
            while len(tokens) < seen + 3 and any(each.thread.is_alive() for each in running):
                await asyncio.sleep(0.001)
            cuts += proxy.cut() > 0
        for each in running:
            each.result()
        for client in clients:
            await asyncio.to_thread(client.close)
    assert cuts >= 5
    assert len(tokens) > rounds
    assert tokens == sorted(set(tokens))
    direct = new_client(name, backend)
    try:
        lease = await asyncio.to_thread(direct.get_lock("broken").try_acquire)
        assert lease is not None
        await asyncio.to_thread(lease.release)
    finally:
        await asyncio.to_thread(direct.close)
