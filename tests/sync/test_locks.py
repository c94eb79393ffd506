"""Threads that hold locks: who holds, who waits, who releases."""

from __future__ import annotations

import contextlib
import gc
import logging
import threading
from typing import Any

import pytest
import redis as redis_py

from redisson_py import (
    AcquireTimeoutError,
    LeaseLostError,
    LostEvent,
    NotHeldError,
)
from redisson_py.sync import FencedLease, Lease, LockLike, Redisson
from tests.sync.threads import (
    BUSY_WAIT,
    ClientFactory,
    Running,
    in_thread,
    until,
    until_waiting,
)

pytestmark = [pytest.mark.also("newest", "floor"), pytest.mark.heart]

KINDS = {
    "lock": lambda client: client.get_lock("k"),
    "fair_lock": lambda client: client.get_fair_lock("k"),
    "fenced_lock": lambda client: client.get_fenced_lock("k"),
    "write_lock": lambda client: client.get_read_write_lock("k").write_lock(),
    "multi_lock": lambda client: client.get_multi_lock(client.get_lock("k"), client.get_lock("l")),
    "red_lock": lambda client: client.get_red_lock(client.get_lock("k")),
}


@pytest.fixture(params=KINDS)
def lock(request: pytest.FixtureRequest, client: Redisson) -> LockLike:
    """Every kind of lock that one thread holds."""
    made: LockLike = KINDS[request.param](client)
    return made


@pytest.mark.usefixtures("old_busy_counts")
def test_a_thread_enters_again_and_others_are_refused(lock: LockLike) -> None:
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


@pytest.mark.parametrize("shared", [True, False], ids=["one client", "a client each"])
def test_no_increment_is_lost(shared: bool, clients: ClientFactory, look: redis_py.Redis) -> None:
    # The sum is in Redis, read and written by turns: two threads inside would lose one.
    first = clients()
    rounds = 40

    def work(client: Redisson) -> None:
        lock = client.get_fenced_lock("k")
        for _ in range(rounds):
            with lock as lease:
                before = look.get("sum")
                assert lease.token > int(look.get("token") or 0)
                look.set("token", lease.token, ex=60)
                look.set("sum", int(before or 0) + 1, ex=60)

    threads = [Running(lambda: work(first if shared else clients())) for _ in range(6)]
    for each in threads:
        each.result()
    assert look.get("sum") == b"%d" % (6 * rounds)


def test_a_lease_is_released_by_another_thread(lock: LockLike) -> None:
    lease = lock.acquire()
    in_thread(lease.release)
    assert not lock.locked()
    with pytest.raises(NotHeldError):
        lease.release()


def test_a_waiting_thread_is_let_in_by_a_release(lock: LockLike, client: Redisson) -> None:
    with lock:
        waiting = Running(lambda: (lock.acquire(), lock.hold_count()))
        until_waiting(client)
    lease, count = waiting.result()
    assert count == 1
    # That thread has ended since.
    lease.release()


def test_what_a_thread_held_that_ended_is_not_renewed_any_more(
    clients: ClientFactory, caplog: pytest.LogCaptureFixture
) -> None:
    client = clients(lease_time=3)
    lock = client.get_lock("k")
    in_thread(lambda: lock.acquire().name)
    gc.collect()
    with caplog.at_level(logging.WARNING, "redisson_py"):
        assert lock.acquire(timeout=30)
    lock.release()
    assert [each for each in caplog.messages if "is no longer renewed" in each]


def test_the_lease_of_a_thread_that_ended_is_still_renewed(
    clients: ClientFactory,
) -> None:
    client = clients(lease_time=6)
    lock = client.get_lock("k")
    lease = in_thread(lock.acquire)
    gc.collect()
    renewals = client.statistics().renewals
    until(lambda: client.statistics().renewals >= renewals + 4)
    assert not lease.lost
    lease.release()


def test_a_loss_is_reported_at_the_end_of_the_block(clients: ClientFactory) -> None:
    events: list[LostEvent] = []
    threads: list[threading.Thread] = []

    def on_lost(event: LostEvent) -> None:
        threads.append(threading.current_thread())
        # This thread may use the client.
        assert not client.get_lock("other").locked()
        events.append(event)

    client = clients(on_lost=on_lost)
    lock = client.get_lock("k")
    passed = False
    with pytest.raises(LeaseLostError) as info:
        with lock as lease:
            watching = Running(lambda: lease.wait_lost())
            assert not lease.wait_lost(timeout=0.01)
            lease.check()
            assert in_thread(lock.force_release)
            assert watching.result() is True
            assert lease.lost
            with pytest.raises(LeaseLostError):
                lease.check()
            passed = True
    assert passed
    assert info.value.reason == "forced"
    until(lambda: events)
    assert [(each.name, each.owner) for each in events] == [("k", lease.owner)]
    assert threads[0] not in (threading.main_thread(), None)


def test_an_error_of_on_lost_is_logged_and_the_next_loss_is_reported(
    clients: ClientFactory, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[LostEvent] = []

    def on_lost(event: LostEvent) -> None:
        events.append(event)
        raise ValueError("of on_lost")

    lock = clients(on_lost=on_lost).get_lock("k")
    for count in (1, 2):
        lock.acquire()
        lock.force_release()
        with pytest.raises(LeaseLostError):
            lock.release()
        until(lambda wanted=count: len(events) == wanted)  # type: ignore[misc]
    until(lambda: caplog.messages.count("on_lost raised an error") == 2)


def test_a_block_that_is_left_early_leaves_the_name_taken(client: Redisson) -> None:
    lock = client.get_lock("k")
    with lock.hold(min_hold=300) as lease:
        assert lock.owned()
    assert lock.locked()
    assert not lock.owned()
    assert lock.try_acquire() is None
    assert in_thread(lock.try_acquire) is None
    (holder,) = lock.inspect().holders
    assert holder.owner == f"{lease.owner}:kept"
    assert lock.force_release()

    @lock.hold(min_hold=300)
    def work() -> int:
        return 1

    assert work() == 1
    assert lock.try_acquire() is None
    assert lock.force_release()
    with pytest.raises(ValueError, match="max_hold must not be shorter than min_hold"):
        lock.hold(min_hold=2, max_hold=1)


def test_a_lease_is_a_block(client: Redisson) -> None:
    lock = client.get_fenced_lock("k")
    with lock.acquire() as lease:
        assert isinstance(lease, FencedLease)
        lease.extend(20)
        assert 15 < lease.remaining <= 20
    assert not lock.locked()


def test_a_block_object_is_used_once_at_a_time(client: Redisson) -> None:
    block = client.get_lock("k").hold(timeout=5)
    for _ in range(2):
        with block:
            with pytest.raises(RuntimeError, match="in use"):
                block.__enter__()
    with pytest.raises(NotHeldError):
        block.__exit__(None, None, None)


def test_blocks_that_are_entered_by_hand(client: Redisson) -> None:
    lock = client.get_lock("k")
    with contextlib.ExitStack() as stack:
        assert isinstance(stack.enter_context(lock), Lease)
        stack.enter_context(lock)
        assert lock.hold_count() == 2
    assert not lock.locked()
    with pytest.raises(NotHeldError, match="without __enter__"):
        lock.__exit__(None, None, None)
    lock.__enter__()
    # Left by another thread, where only one can be meant.
    in_thread(lambda: lock.__exit__(None, None, None))
    assert not lock.locked()


def test_a_block_left_by_another_thread_where_it_cannot_be_known_which(client: Redisson) -> None:
    semaphore = client.get_semaphore("semaphore", 3)
    semaphore.__enter__()
    in_thread(semaphore.__enter__)
    with pytest.raises(RuntimeError, match=r"use `with .*\.hold\(\)`"):
        in_thread(lambda: semaphore.__exit__(None, None, None))
    semaphore.__exit__(None, None, None)
    semaphore.__exit__(None, None, None)
    assert semaphore.available() == 3


def test_a_block_that_one_thread_looks_up_and_another_enters_stays_entered(
    client: Redisson,
) -> None:
    lock = client.get_lock("k")
    lease = in_thread(lock.__enter__)
    assert lock.locked()
    assert not lease.lost
    lock.__exit__(None, None, None)
    assert not lock.locked()


def test_a_generator_that_is_closed_by_another_thread(client: Redisson) -> None:
    lock = client.get_lock("k")

    def held() -> Any:
        with lock:
            yield

    generator = held()
    next(generator)
    assert lock.locked()
    in_thread(generator.close)
    assert not lock.locked()


def test_bad_arguments_are_refused_before_anything_starts(clients: ClientFactory) -> None:
    client = clients("redis://127.0.0.1:1")
    with pytest.raises(ValueError, match="empty"):
        client.get_lock("")
    with pytest.raises(TypeError):
        client.get_lock(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="lease_time"):
        client.get_lock("k").hold(lease_time=-1)
    with pytest.raises(ValueError, match="lease_time"):
        client.get_lock("k").acquire(lease_time=-1)
    with pytest.raises(TypeError, match="there is no option 'leese'"):
        clients(leese=1)
    with pytest.raises(ValueError, match="nothing can cancel"):
        clients(on_lost="cancel")
    with pytest.raises(TypeError, match="listener"):
        clients(listener=print, on_lost=print)


def test_many_locks_are_made_without_an_event_loop(clients: ClientFactory) -> None:
    client = clients("redis://127.0.0.1:1")
    locks = [client.get_lock(str(number)) for number in range(1000)]
    assert locks[-1].key == b"999"


@pytest.mark.parametrize("outcome", ["returns", "raises"])
def test_a_decorated_function(client: Redisson, outcome: str) -> None:
    @client.get_lock("report:{day}:{part}").hold(timeout=5)
    def report(day: str, part: int = 1) -> bool:
        """Write it."""
        if outcome == "raises":
            raise KeyError(day)
        return client.get_lock(f"report:{day}:{part}").owned()

    assert (report.__name__, report.__doc__) == ("report", "Write it.")
    if outcome == "raises":
        with pytest.raises(KeyError):
            report("monday")
    else:
        assert report("monday") is True
        assert report("monday", part=2) is True
    assert not client.get_lock("report:monday:1").locked()


def test_what_cannot_be_decorated(client: Redisson) -> None:
    lock = client.get_lock("k:{day}")

    async def coroutine(day: str) -> None: ...

    def generator(day: str) -> Any:
        yield day

    for wrong, message in (
        (coroutine, r"take the lock from `redisson_py\.Redisson`"),
        (generator, "write `with` in its body"),
        (Lease, "decorate its methods"),
        (5, "write @lock"),
        (staticmethod(generator), "above this decorator"),
    ):
        with pytest.raises(TypeError, match=message):
            lock(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no parameter 'day'"):
        lock(lambda month: None)


async def test_a_thread_that_runs_an_event_loop_is_refused(server_url: str) -> None:
    client = Redisson.from_url(server_url)
    for use in (
        client.ping,
        client.get_lock("k").acquire,
        client.get_lock("k").__enter__,
        client.close,
    ):
        with pytest.raises(RuntimeError, match="from redisson_py import Redisson"):
            use()
    # Counters and names are there for everybody.
    assert client.statistics().connections == 0
    assert client.get_lock("k").statistics().waiters == 0
