"""A signal handler raises while a thread waits, acquires or releases: nothing is left held."""

from __future__ import annotations

import gc
import itertools
import signal
from collections.abc import Callable
from functools import partial

import pytest
import redis as redis_py

from redisson_py.sync import Redisson
from tests.sync.interrupting import Interrupted, interrupted_at, raising_handler, signal_when
from tests.sync.threads import ClientFactory, Running, in_thread, until, until_waiting

pytestmark = pytest.mark.also("newest")

WAITS: dict[str, Callable[[Redisson], object]] = {
    "lock": lambda client: client.get_lock("k").acquire(),
    "fair_lock": lambda client: client.get_fair_lock("fair").acquire(),
    "read_lock": lambda client: client.get_read_write_lock("rw").read_lock().acquire(),
    "multi_lock": lambda client: client.get_multi_lock(
        client.get_lock("free"), client.get_lock("k")
    ).acquire(),
    "red_lock": lambda client: client.get_red_lock(client.get_lock("k")).acquire(),
    "semaphore": lambda client: client.get_semaphore("semaphore", 1).acquire(),
    "permits": lambda client: client.get_permit_expirable_semaphore("semaphore:p", 1).acquire_many(
        1
    ),
    "latch": lambda client: client.get_latch("latch").wait(),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_an_interrupted_wait_holds_nothing(
    wait: Callable[[Redisson], object], clients: ClientFactory
) -> None:
    holder, client = clients(), clients()
    held = [
        holder.get_lock("k").acquire(),
        holder.get_fair_lock("fair").acquire(),
        holder.get_read_write_lock("rw").write_lock().acquire(),
        holder.get_semaphore("semaphore", 1).acquire(),
        holder.get_permit_expirable_semaphore("semaphore:p", 1).acquire(),
    ]
    holder.get_latch("latch").try_set_count(1)
    with raising_handler():
        watching = signal_when(lambda: until_waiting(client))
        with pytest.raises(Interrupted):
            wait(client)
        watching.result()
    # At once, and not when somebody has noticed.
    statistics = client.statistics()
    assert (statistics.waiters, statistics.held_leases) == (0, 0)
    for lease in held:
        lease.release()
    holder.get_latch("latch").delete()
    # This thread goes on as if nothing had been.
    with client.get_lock("k").hold(timeout=20), client.get_lock("free").hold(timeout=20):
        pass


BLOCKS: dict[str, Callable[[Redisson], object]] = {}


def block(func: Callable[[Redisson], object]) -> Callable[[Redisson], object]:
    BLOCKS[func.__name__] = func
    return func


@block
def lock(client: Redisson) -> None:
    with client.get_lock("k"):
        pass


@block
def hold(client: Redisson) -> None:
    with client.get_lock("k").hold(timeout=10, lease_time=30):
        pass


@block
def again(client: Redisson) -> None:
    with client.get_lock("k"), client.get_lock("k"):
        pass


@block
def composite(client: Redisson) -> None:
    with client.get_multi_lock(client.get_lock("k"), client.get_fenced_lock("l")):
        pass


@block
def semaphore(client: Redisson) -> None:
    with client.get_permit_expirable_semaphore("semaphore", 1):
        pass


@block
def decorated(client: Redisson) -> None:
    @client.get_lock("{name}")
    def func(name: str) -> None:
        return None

    func("k")


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_a_block_that_is_interrupted_at_any_instruction_holds_nothing(
    block: Callable[[Redisson], object], client: Redisson
) -> None:
    block(client)
    steps = 0
    for step in itertools.count():
        if not interrupted_at(step, lambda: block(client)):
            break
        until(lambda: client.statistics().held_leases == 0)
        steps = step
    # That many there are at least, in entering and leaving.
    assert steps > 50
    assert not client.get_lock("k").locked()
    # Nor any lock of this library's own, which other threads need.
    assert not in_thread(client.get_lock("k").locked)
    assert not in_thread(lambda: client.get_lock("another").locked())


def test_signals_at_any_time_leave_nothing_held(client: Redisson) -> None:
    """As the sweep, with real signals, and other threads that contend."""
    lock = client.get_lock("k")
    inside = 0
    done = False

    def contend() -> None:
        nonlocal inside
        while not done:
            with lock:
                inside += 1
                assert inside == 1
                inside -= 1

    contending = [Running(contend) for _ in range(2)]
    interruptions = 0
    with raising_handler():
        before = signal.signal(signal.SIGALRM, signal.getsignal(signal.SIGUSR1))
        try:
            for number in range(300):
                try:
                    # It rings once, and nowhere but in this block.
                    signal.setitimer(signal.ITIMER_REAL, 0.0002 + number % 17 * 0.0003)
                    for _ in range(20):
                        with lock:
                            inside += 1
                            assert inside == 1
                            inside -= 1
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except Interrupted:
                    interruptions += 1
                    # The body may have been cut in half.
                    with lock.hold(timeout=20):
                        inside = 0
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            # Else they would disturb the tests that follow.
            done = True
            for each in contending:
                each.thread.join(30)
    for each in contending:
        each.result()
    assert interruptions > 20
    until(lambda: client.statistics().held_leases == 0)


def test_a_release_that_is_interrupted_is_carried_out(
    clients: ClientFactory, look: redis_py.Redis
) -> None:
    client = clients()
    lock = client.get_lock("k")
    lock.acquire()
    look.client_pause(60_000, all=False)
    try:
        with raising_handler():
            sent = client.statistics().commands_sent
            watching = signal_when(lambda: until(lambda: client.statistics().commands_sent > sent))
            with pytest.raises(Interrupted):
                lock.release()
            watching.result()
    finally:
        look.client_unpause()
    until(lambda: not look.exists("k"))


def test_the_first_call_of_a_thread_that_is_interrupted_at_any_point(client: Redisson) -> None:
    step = 0
    # Each thread has made no call before.
    while Running(partial(interrupted_at, step, partial(lock, client))).result():
        step += 1
    assert step > 50
    gc.collect()
    until(lambda: client.statistics().held_leases == 0)
    assert not client.get_lock("k").locked()
