"""What a read-write lock keeps alive, and what no more."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from redisson_py import LeaseLostError, Redisson
from tests.fixtures.client import ClientFactory
from tests.support.waiting import until, until_async

SHORT_LEASE = 3.0


async def renewed(client: Redisson) -> None:
    """Return when everything was renewed once more."""
    before = client.statistics().renewals
    await until(lambda: client.statistics().renewals > before)


async def test_nested_reads_of_a_writer_leave_it_writing(
    client: Redisson, clients: ClientFactory
) -> None:
    lock, other = client.get_read_write_lock("k"), clients().get_read_write_lock("k")
    async with lock.write_lock() as writing:
        async with lock.read_lock():
            async with lock.read_lock():
                assert await lock.read_lock().hold_count() == 2
            assert await other.read_lock().try_acquire() is None
        assert await lock.write_lock().hold_count() == 1
        assert await other.read_lock().try_acquire() is None
        assert await other.write_lock().try_acquire() is None
        writing.check()
    async with other.write_lock():
        pass


async def test_what_was_released_is_not_renewed_any_more(
    clients: ClientFactory, redis: Redis
) -> None:
    client, other = clients(lease_time=SHORT_LEASE), clients()
    lock = client.get_read_write_lock("k")
    async with lock.write_lock():
        async with lock.read_lock():
            await renewed(client)
    reading = await lock.read_lock().acquire()
    stays = await other.get_read_write_lock("k").read_lock().acquire(lease_time=2.5)
    await renewed(client)
    await reading.release()
    renewals = client.statistics().renewals
    await stays.wait_lost()
    await until_async(lambda: _gone(redis))
    assert client.statistics().renewals == renewals
    with pytest.raises(LeaseLostError):
        await stays.release()


async def _gone(redis: Redis) -> bool:
    return not await redis.exists("k")
