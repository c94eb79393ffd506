"""What a client names of a latch or a read-write lock, and others do not: said once, if known."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from redisson_py import CountDownLatch, Redisson
from redisson_py.locks.read_write_lock import Prefer
from tests.fixtures.client import ClientFactory
from tests.support.waiting import until_async, until_listening, until_waiting


def messages(caplog: pytest.LogCaptureFixture, level: int, words: str) -> list[str]:
    """Return the records of a level that have these words."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno == level and words in record.getMessage()
    ]


async def by_count(latch: CountDownLatch) -> None:
    await latch.count()


async def by_count_down(latch: CountDownLatch) -> None:
    await latch.count_down(2)


async def by_wait(latch: CountDownLatch) -> None:
    with pytest.raises(TimeoutError):
        await latch.wait(timeout=0)


Use = Callable[[CountDownLatch], Awaitable[None]]
uses = pytest.mark.parametrize("use", [by_count, by_count_down, by_wait])


class TestLatch:
    SAYS = "a latch that is set keeps its count. To change it, call delete() and try_set_count(10)"

    @uses
    async def test_a_greater_count_is_another(
        self, use: Use, clients: ClientFactory, caplog: pytest.LogCaptureFixture
    ) -> None:
        await clients().get_latch("k").try_set_count(12)
        client = clients()
        for _ in range(2):
            await use(client.get_latch("k", 10))
        assert messages(caplog, logging.WARNING, "latch") == [
            f"latch 'k' has a count of 12, not 10: {self.SAYS}"
        ]
        await client.get_latch("k").delete()

    @uses
    async def test_one_that_was_set_so_and_counted_down_is_no_news(
        self, use: Use, clients: ClientFactory, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Nor is a smaller count: nobody can tell it from that."""
        maker = clients().get_latch("k", 10)
        for _ in range(4):
            await use(clients().get_latch("k", 10))
            await maker.count_down()
        assert messages(caplog, logging.WARNING, "latch") == []
        await maker.delete()

    async def test_a_wait_that_returns_at_once_says_why(
        self, client: Redisson, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG, "redisson_py")
        for name in ("unset", "unset", "counted"):
            if name == "counted":
                await client.get_latch(name, 1).count_down()
            await client.get_latch(name).wait()
        assert messages(caplog, logging.DEBUG, "is open") == [
            f"latch {name!r} is open, so wait() returned at once: nobody has set it, or it was"
            " counted down to zero"
            for name in ("unset", "counted")
        ]
        assert [each for each in caplog.records if each.levelno > logging.DEBUG] == []

    async def test_a_wait_that_waited_does_not(
        self, clients: ClientFactory, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG, "redisson_py")
        waiter, other = clients(), clients()
        wait = asyncio.create_task(waiter.get_latch("k", 2).wait())
        await until_waiting(waiter, 1)
        # It listens once it has seen that the latch is closed.
        await until_listening(waiter)
        await other.get_latch("k").count_down(2)
        await wait
        assert messages(caplog, logging.DEBUG, "is open") == []


class TestPrefer:
    SAYS = (
        "read-write lock 'k' is used with prefer='readers' and with prefer='writers': readers with"
        " 'readers' do not let a waiting writer go first. Use one value for a name"
    )

    async def test_one_client_that_says_both(
        self, client: Redisson, caplog: pytest.LogCaptureFixture
    ) -> None:
        for _ in range(2):
            client.get_read_write_lock("k")
            client.get_read_write_lock("k", prefer="writers")
        client.get_read_write_lock("other", prefer="writers")
        assert messages(caplog, logging.WARNING, "prefer") == [self.SAYS]

    @pytest.mark.parametrize("block", [True, False])
    async def test_a_reader_that_meets_a_writer_of_the_other_kind(
        self, block: bool, clients: ClientFactory, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It is let in all the same."""
        reader, writer, other = clients(), clients(), clients()
        async with reader.get_read_write_lock("k").read_lock():
            task = asyncio.create_task(
                writer.get_read_write_lock("k", prefer="writers").write_lock().acquire()
            )
            await until_waiting(writer, 1)
            await until_async(lambda: _keeps_readers_out(writer))
            for _ in range(2):
                lock = other.get_read_write_lock("k").read_lock()
                if block:
                    async with lock:
                        pass
                else:
                    lease = await lock.try_acquire()
                    assert lease is not None
                    await lease.release()
        await (await task).release()
        assert messages(caplog, logging.WARNING, "prefer") == [self.SAYS]

    @pytest.mark.parametrize("prefer", ["readers", "writers"])
    async def test_clients_that_say_the_same(
        self, prefer: Prefer, clients: ClientFactory, caplog: pytest.LogCaptureFixture
    ) -> None:
        reader, writer, other = clients(), clients(), clients()
        async with reader.get_read_write_lock("k", prefer=prefer).read_lock():
            task = asyncio.create_task(
                writer.get_read_write_lock("k", prefer=prefer).write_lock().acquire()
            )
            await until_waiting(writer, 1)
            lease = await other.get_read_write_lock("k", prefer=prefer).read_lock().try_acquire()
            if lease is not None:
                await lease.release()
        await (await task).release()
        assert messages(caplog, logging.WARNING, "prefer") == []


async def _keeps_readers_out(client: Redisson) -> bool:
    key = b"{k}:redisson_py:writers"
    return await client._executor.exists(key)


async def test_parties_that_differ_are_an_error(clients: ClientFactory) -> None:
    """Of the one that comes second; those that wait are not disturbed."""
    first, second = clients(), clients()
    wait = asyncio.create_task(first.get_barrier("k", 2).wait())
    await until_async(lambda: _waits(second))
    with pytest.raises(ValueError, match="in use for 2 parties, not for 3"):
        await second.get_barrier("k", 3).wait()
    assert sorted([await second.get_barrier("k", 2).wait(), await wait]) == [0, 1]


async def _waits(client: Redisson) -> bool:
    return await client.get_barrier("k", 2).n_waiting() == 1
