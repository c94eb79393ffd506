"""A read inside a write hold never makes the write lease longer (issue 12, item 7)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import LeaseLostError, Redisson
from redisson_py._time import now
from tests.fixtures.client import ClientFactory
from tests.support.cluster_look import master_of
from tests.support.kinds import reason_of
from tests.support.waiting import until

#: Both ends are rounded to whole milliseconds.
ROUNDING = 0.003


async def end_of(redis: Redis, name: str = "k") -> float:
    """Return when the server ends the lease of a key, by its own clock; 0.0 if it is gone."""
    both: Any = (await master_of(redis, name)).pipeline(transaction=True)
    (seconds, microseconds), left = await both.time().pttl(name).execute()
    assert left != -1, "the key has no expiry"
    return float(seconds + microseconds / 1e6 + left / 1000) if left > 0 else 0.0


async def assert_not_longer(redis: Redis, end: float, since: float) -> None:
    """Fail if the server ends a lease later than at `end`, but for what a request took.

    A read that was asked for after `since` asks for what is left of the write lease then, and a
    busy machine executes it later.
    """
    on_its_way = now() - since
    assert await end_of(redis) <= end + on_its_way + ROUNDING


def renewed_since(client: Redisson, renewals: int) -> bool:
    return client.statistics().renewals > renewals


async def test_read_block_inside_a_write_block(client: Redisson, redis: Redis) -> None:
    lock = client.get_read_write_lock("k")
    async with lock.write_lock().hold(lease_time=10):
        end, since = await end_of(redis), now()
        async with lock.read_lock():
            await assert_not_longer(redis, end, since)
            assert (await lock.write_lock().remaining() or 0) <= 10 + now() - since
        await assert_not_longer(redis, end, since)


async def test_reads_entered_again_inside_a_write_block(client: Redisson, redis: Redis) -> None:
    lock = client.get_read_write_lock("k")
    async with lock.write_lock().hold(lease_time=10) as write:
        end, since = await end_of(redis), now()
        async with lock.read_lock(), lock.read_lock(), lock.read_lock().hold(lease_time=60):
            await assert_not_longer(redis, end, since)
            assert write.remaining <= 10
        await assert_not_longer(redis, end, since)


@pytest.mark.parametrize("watchdog", [4, 6])
@pytest.mark.more
async def test_renewals_of_a_read_inside_a_write_block(
    clients: ClientFactory, redis: Redis, watchdog: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = clients(lease_time=watchdog)
    lock = client.get_read_write_lock("k")
    sent: list[float] = []
    renew = client._executor.renew

    def note_and_renew(holds: Any, lease_time: float, *more: Any, **options: Any) -> Any:
        if lease_time:
            sent.append(now())
        return renew(holds, lease_time, *more, **options)

    monkeypatch.setattr(client._executor, "renew", note_and_renew)
    # Longer than the watchdog's lease, and shorter than what it would make of it in the end.
    async with lock.write_lock().hold(lease_time=watchdog * 1.5):
        end, longest = await end_of(redis), 0.0
        async with lock.read_lock():
            for _ in range(2):
                renewals = client.statistics().renewals
                await until(partial(renewed_since, client, renewals))
                longest = max(longest, now() - sent[renewals])
                await assert_not_longer(redis, end, now() - longest)


@pytest.mark.more
async def test_write_lease_ends_in_time_under_a_read(
    client: Redisson, clients: ClientFactory, redis: Redis
) -> None:
    """Other clients acquire when the write lease ends, not when the read lease would."""
    lock = client.get_read_write_lock("k")
    other = clients().get_read_write_lock("k")
    write = await lock.write_lock().acquire(lease_time=4)
    end, since = await end_of(redis), now()
    read = await lock.read_lock().acquire()
    await assert_not_longer(redis, end, since)
    # Far less than the read's lease, 30 s.
    async with other.read_lock().hold(timeout=15):
        assert write.lost
        assert not await lock.write_lock().locked()
    with pytest.raises(LeaseLostError) as caught:
        await write.release()
    await asyncio.gather(read.release(), return_exceptions=True)
    assert reason_of(caught.value) == "ended"


async def test_write_block_is_cancelled_at_its_end_under_a_read(
    client: Redisson, redis: Redis
) -> None:
    lock = client.get_read_write_lock("k")
    with pytest.raises(LeaseLostError) as caught:
        async with lock.write_lock().hold(lease_time=2):
            end, since = await end_of(redis), now()
            async with lock.read_lock():
                await assert_not_longer(redis, end, since)
                await asyncio.sleep(30)
    await until(lambda: client.statistics().held_leases == 0)
    async with lock.write_lock().hold(timeout=20):
        pass
    assert reason_of(caught.value) == "ended"


async def test_read_goes_on_for_its_full_lease_after_the_write_side(
    clients: ClientFactory, redis: Redis
) -> None:
    client, rival = clients(lease_time=9), clients()
    lock = client.get_read_write_lock("k")
    write = await lock.write_lock().acquire(lease_time=6)
    read = await lock.read_lock().acquire()
    await write.release()
    await until(partial(renewed_since, client, client.statistics().renewals))
    # A lease that was cut to the writer's would be over.
    assert not read.lost
    assert await redis.pttl("k") > 3000
    assert await rival.get_read_write_lock("k").write_lock().try_acquire() is None
    async with rival.get_read_write_lock("k").read_lock().hold(timeout=0):
        pass
    await read.release()
    assert not await redis.exists("k")


@pytest.mark.more
async def test_read_has_its_full_lease_soon_after_the_write_side(
    clients: ClientFactory, redis: Redis
) -> None:
    """It does not wait for its own first renewal, which would come too late."""
    client = clients(lease_time=30)
    lock = client.get_read_write_lock("k")
    write = await lock.write_lock().acquire(lease_time=5)
    async with lock.read_lock() as read:
        await write.release()
        await asyncio.sleep(5.5)
        assert not read.lost
        assert await redis.exists("k")
    assert not await redis.exists("k")
