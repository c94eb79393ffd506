"""Semaphores, latch, barrier, read-write lock and client, in threads."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis.asyncio import Redis

from redisson_py import (
    AcquireTimeoutError,
    BrokenBarrierError,
    ClientClosedError,
    Leader,
    NotHeldError,
)
from redisson_py.sync import Leadership, Permit, Redisson
from tests.sync.threads import (
    BUSY_WAIT,
    ClientFactory,
    Running,
    in_thread,
    until,
    until_waiting,
)

pytestmark = pytest.mark.also("newest")


def test_semaphore(client: Redisson) -> None:
    semaphore = client.get_semaphore("semaphore", 2)
    with semaphore as permit:
        assert isinstance(permit, Permit)
        assert (permit.units, semaphore.available()) == (1, 1)
        assert in_thread(lambda: semaphore.try_acquire(2)) is None
    taken = semaphore.acquire(2, timeout=5)
    in_thread(lambda: semaphore.release(1))
    in_thread(taken.release)
    with semaphore.hold(2):
        assert semaphore.available() == 0
        assert [each.holds for each in semaphore.inspect().holders] == [2]
    assert semaphore.available() == 2
    assert not semaphore.release_if_exists()


def test_permit_expirable_semaphore(client: Redisson) -> None:
    semaphore = client.get_permit_expirable_semaphore("semaphore", 3)
    first, second = semaphore.acquire_many(2)
    assert isinstance(first, Permit)
    assert len(first.id) == 32
    assert semaphore.update_lease_time(first, 20)
    assert 15 < semaphore.lease_time(first.id) <= 20
    in_thread(lambda: semaphore.release(first))
    assert semaphore.try_release_many([second.id]) == 1
    with pytest.raises(NotHeldError):
        semaphore.release(second)
    assert semaphore.try_acquire_many(4) is None
    with semaphore.hold(lease_time=20) as permit:
        assert semaphore.acquired() == 1
        semaphore.release_many([permit])
    assert semaphore.permits() == semaphore.available() == 3


def test_read_write_lock(client: Redisson) -> None:
    lock = client.get_read_write_lock("k")
    with lock.read_lock():
        reading = in_thread(lock.read_lock().acquire)
        assert in_thread(lock.write_lock().try_acquire) is None
        assert len(lock.inspect().readers) == 2
        reading.release()
        with pytest.raises(RuntimeError):
            lock.write_lock().acquire()
    with lock.write_lock(), lock.read_lock():
        assert lock.statistics().held_leases == 2


@pytest.mark.usefixtures("old_busy_counts")
def test_latch(client: Redisson) -> None:
    latch = client.get_latch("k", 2)
    with pytest.raises(AcquireTimeoutError):
        latch.wait(timeout=BUSY_WAIT)
    waiting = [Running(latch.wait) for _ in range(3)]
    until(lambda: latch.statistics().waiters == 3)
    assert [latch.count_down(), latch.count_down()] == [1, 0]
    for each in waiting:
        each.result()


def test_barrier(client: Redisson) -> None:
    barrier = client.get_barrier("k", 3)

    def meet() -> int:
        with barrier as position:
            return position

    parties = [Running(meet) for _ in range(3)]
    assert sorted(each.result() for each in parties) == [0, 1, 2]
    late = Running(barrier.wait)
    until(lambda: barrier.n_waiting() == 1)
    barrier.abort()
    assert isinstance(late.error(), BrokenBarrierError)
    barrier.reset()


def test_close_releases_and_sends_waiters_away(clients: ClientFactory) -> None:
    client, other = clients(), clients()
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


def test_clients_of_a_file_and_of_a_redis_client(server_url: str, tmp_path: Path) -> None:
    file = tmp_path / "redisson.json"
    file.write_text(f'{{"singleServerConfig": {{"address": "{server_url}"}}}}')
    with Redisson.from_file(file, lease_time=20) as client:
        client.ping(timeout=5)
    with Redisson(Redis.from_url(server_url), client_name="ours") as client, client.get_lock("k"):
        assert client.statistics().held_leases == 1


def test_a_latch_with_an_end(client: Redisson) -> None:
    latch = client.get_latch("latch")
    assert latch.try_set_count(2, expire_in=1)
    ends_in = latch.inspect().ends_in
    assert ends_in is not None
    assert 0 < ends_in <= 1.001
    latch.wait(timeout=30)
    assert latch.count() == 0
    with pytest.raises(ValueError, match="expire_in must be between"):
        latch.try_set_count(1, expire_in=0)


def test_rate_limiter(client: Redisson) -> None:
    limiter = client.get_rate_limiter("limiter", 3, 600)
    try:
        with limiter as entered:
            assert entered is limiter
            assert limiter.available() == 2

        @limiter
        def double(number: int) -> int:
            return 2 * number

        assert double(4) == 8
        assert in_thread(limiter.acquire)
        refused = limiter.try_acquire()
        assert not refused
        assert refused.retry_after > 500
        with pytest.raises(AcquireTimeoutError):
            limiter.acquire(timeout=BUSY_WAIT)
        waiting = Running(lambda: limiter.acquire(2))
        until_waiting(client, 1)
        limiter.set_rate(2, 600)
        assert waiting.result()
        assert limiter.inspect().available == 0
    finally:
        assert limiter.delete()


def test_election(client: Redisson, clients: ClientFactory) -> None:
    election, others = client.get_election("leaders"), clients().get_election("leaders")
    assert others.leader() is None
    states = others.observe()
    assert next(states) is None
    with election.campaign("host-1", timeout=10) as leadership:
        assert isinstance(leadership, Leadership)
        assert next(states) == Leader(b"host-1", leadership.token)
        leadership.proclaim("host-2")
        assert next(states) == others.leader() == Leader(b"host-2", leadership.token)
        with pytest.raises(AcquireTimeoutError):
            in_thread(lambda: others.acquire("host-3", timeout=0))
        assert [each.owner for each in others.inspect().holders] == [leadership.owner]
    assert next(states) is None
    states.close()
    until(lambda: others.statistics().waiters == 0)
    by_hand = others.acquire("host-4")
    in_thread(by_hand.release)
    with pytest.raises(NotHeldError):
        by_hand.proclaim("host-5")
    with pytest.raises(TypeError, match="value must be str or bytes"):
        election.campaign(4)  # type: ignore[arg-type]

    @client.get_election("leaders:{shard}").campaign("host-6")
    def lead(shard: int) -> Leader | None:
        return client.get_election(f"leaders:{shard}").leader()

    led = lead(7)
    assert led is not None
    assert led.text == "host-6"
