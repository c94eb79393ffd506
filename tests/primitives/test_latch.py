"""What is special about the latch; waiting for it is in test_latch_waiting."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import AcquireTimeoutError, ClientClosedError, Redisson, ScriptError
from redisson_py.barriers.latch import CountDownLatch, LatchSnapshot
from tests.fixtures.client import ClientFactory
from tests.support import repository
from tests.support.counting import Counted
from tests.support.latch_and_barrier import get_latch
from tests.support.streams import answered, stream_of
from tests.support.waiting import until_async, until_listening, until_waiting


@pytest_asyncio.fixture
async def latch(client: Redisson) -> AsyncIterator[CountDownLatch]:
    """A latch of a client that is connected, deleted in the end."""
    await answered(client)
    latch = get_latch(client)
    yield latch
    await latch.delete()


@pytest.mark.also("cluster")
class TestCounting:
    async def test_it_counts_down_to_zero_and_stays_there(self, latch: CountDownLatch) -> None:
        """RedissonCountDownLatchTest.testCountDown."""
        await latch.try_set_count(2)
        assert await latch.count() == 2
        assert await latch.count_down() == 1
        assert await latch.count() == 1
        assert await latch.count_down() == 0
        assert await latch.count() == 0
        await latch.wait()
        assert await latch.count_down() == 0
        assert await latch.count() == 0
        await latch.wait(timeout=0)

    async def test_an_unset_latch_is_open_and_counting_it_down_is_harmless(
        self, latch: CountDownLatch, redis: Redis
    ) -> None:
        """RedissonCountDownLatchTest.testCount."""
        assert await latch.count() == 0
        await latch.wait()
        assert await latch.count_down() == 0
        assert await latch.count() == 0
        await latch.wait()
        assert await redis.exists(latch.key) == 0

    async def test_it_is_set_if_it_is_unset_and_deleted_if_it_is_set(
        self, latch: CountDownLatch
    ) -> None:
        """RedissonCountDownLatchTest.testTrySetCount, testDelete, testDeleteFailed."""
        assert await latch.try_set_count(1) is True
        assert await latch.try_set_count(2) is False
        assert await latch.count() == 1
        assert await latch.delete() is True
        assert await latch.count() == 0
        assert await latch.delete() is False

    async def test_calls_one_after_the_other_leave_one_receipt(
        self, latch: CountDownLatch, redis: Redis
    ) -> None:
        await latch.try_set_count(50)
        for _ in range(20):
            await latch.count_down()
        receipts = await redis.keys("*receipt*")
        assert len(receipts) == 1
        await asyncio.gather(*[latch.count_down() for _ in range(20)])
        await asyncio.gather(*[latch.count_down() for _ in range(10)])
        receipts = await redis.keys("*receipt*")
        assert len(receipts) == 20
        assert all([await redis.pttl(key) > 0 for key in receipts])
        assert await latch.count() == 0


@pytest.mark.also("cluster")
class TestEnd:
    async def test_it_is_unset_by_itself(
        self, latch: CountDownLatch, client: Redisson, redis: Redis
    ) -> None:
        assert await latch.try_set_count(2, expire_in=0.05)
        await until_async(lambda: _is_unset(redis, latch.key))
        assert await latch.count() == 0
        assert await latch.count_down() == 0
        await latch.wait(timeout=0)
        assert await latch.delete() is False
        assert await latch.try_set_count(1) is True
        assert (await latch.inspect()).ends_in is None

    @pytest.mark.parametrize("end", [60, 60.0, timedelta(minutes=1)])
    async def test_a_snapshot_tells_when(
        self, latch: CountDownLatch, redis: Redis, end: float | timedelta
    ) -> None:
        assert await latch.try_set_count(2, end)
        found = await latch.inspect()
        assert found.count == 2
        assert found.ends_in is not None
        assert 0 < found.ends_in <= 60.001
        assert 0 < await redis.pttl(latch.key) <= 60_000

    async def test_a_latch_that_is_set_keeps_what_it_has(
        self, latch: CountDownLatch, redis: Redis
    ) -> None:
        assert await latch.try_set_count(2)
        assert await latch.try_set_count(2, expire_in=60) is False
        assert await redis.pttl(latch.key) == -1
        await latch.delete()
        assert await latch.try_set_count(2, expire_in=60)
        assert await latch.try_set_count(2, expire_in=3600) is False
        assert await latch.count_down() == 1
        assert 0 < await redis.pttl(latch.key) <= 60_000

    async def test_a_time_out_of_range_is_refused_before_anything_is_sent(
        self, client: Redisson
    ) -> None:
        latch = get_latch(client)
        for bad in (0, -1, float("nan"), float("inf"), 0.0001, 1e12):
            with pytest.raises(ValueError, match="expire_in must be between"):
                await latch.try_set_count(1, expire_in=bad)
        with pytest.raises(TypeError, match="expire_in must be seconds"):
            await latch.try_set_count(1, expire_in="60")  # type: ignore[arg-type]
        assert client.statistics().commands_sent == 0


async def _is_unset(redis: Redis, key: bytes) -> bool:
    return not await redis.exists(key)


FIRST_USES: dict[str, Callable[[CountDownLatch], Awaitable[Any]]] = {
    "count": lambda latch: latch.count(),
    "count_down": lambda latch: latch.count_down(),
    "wait": lambda latch: _times_out(latch),
}


async def _times_out(latch: CountDownLatch) -> None:
    with pytest.raises(AcquireTimeoutError):
        await latch.wait(0.5)


@pytest.mark.also("cluster")
class TestInitialCount:
    @pytest.mark.usefixtures("old_busy_counts")
    @pytest.mark.parametrize("use", FIRST_USES.values(), ids=FIRST_USES)
    async def test_the_first_use_sets_an_unset_latch_and_no_later_one_does(
        self,
        use: Callable[[CountDownLatch], Awaitable[Any]],
        latch: CountDownLatch,
        client: Redisson,
    ) -> None:
        mine = get_latch(client, count=3)
        await use(mine)
        left = await latch.count()
        assert left == (2 if use is FIRST_USES["count_down"] else 3)
        await latch.count_down(left)
        await mine.wait(timeout=10)
        assert await mine.count() == 0
        assert await mine.count_down() == 0
        assert await latch.count() == 0

    async def test_a_waiter_with_a_count_is_not_released_by_one_without(
        self, latch: CountDownLatch, client: Redisson
    ) -> None:
        """The question of the second, which is asked for the third too, would not set it."""
        mine = get_latch(client, count=1)
        first, second, third = (
            asyncio.create_task(each.wait(timeout=10)) for each in (latch, latch, mine)
        )
        await first
        await until_listening(client)
        assert not third.done()
        assert await latch.count_down() == 0
        await asyncio.gather(second, third)

    async def test_parties_that_all_bring_the_count(self, clients: ClientFactory) -> None:
        latches = [get_latch(clients(), count=4) for _ in range(4)]
        left = await asyncio.gather(*[latch.count_down() for latch in latches])
        assert sorted(left) == [0, 1, 2, 3]
        await asyncio.gather(*[latch.wait(timeout=10) for latch in latches])


@pytest.mark.also("cluster")
class TestArguments:
    async def test_counts_out_of_range(self, client: Redisson) -> None:
        latch = get_latch(client)
        for bad in (0, -1, 2**53):
            for call in (latch.try_set_count(bad), latch.count_down(bad)):
                with pytest.raises(ValueError, match="must be at least 1"):
                    await call
        for bad in (0, -1, 2**53):
            with pytest.raises(ValueError, match="count must be at least 1"):
                get_latch(client, count=bad)
        assert client.statistics().commands_sent == 0

    async def test_a_closed_client(self, clients: ClientFactory) -> None:
        client = clients()
        latch = get_latch(client)
        await client.aclose()
        calls = (latch.wait(), latch.count(), latch.count_down(), latch.try_set_count(1))
        for call in (*calls, latch.delete(), latch.inspect()):
            with pytest.raises(ClientClosedError):
                await call

    async def test_what_is_no_latch(self, latch: CountDownLatch, redis: Redis) -> None:
        await redis.hset("c", "mine", "1")
        calls = (latch.wait(), latch.count(), latch.count_down(), latch.try_set_count(1))
        for call in (*calls, latch.delete(), latch.inspect()):
            with pytest.raises(ScriptError, match="WRONGTYPE"):
                await call
        await redis.delete("c")

    @pytest.mark.usefixtures("one_server")
    @pytest.mark.parametrize("name", ["{t}l", "a{b", "a}b", "{}x", b"\xff\x00"])
    async def test_names_with_braces_and_bytes_wake_too(
        self, clients: ClientFactory, name: str | bytes
    ) -> None:
        """Weakness 13: outside of a cluster any name does."""
        one, other = clients(), clients()
        await get_latch(one, name).try_set_count(1)
        waiting = asyncio.create_task(get_latch(other, name).wait(timeout=10))
        await until_listening(other)
        assert await get_latch(one, name).count_down() == 0
        await waiting


@pytest.mark.also("cluster")
class TestLooking:
    async def test_a_snapshot_tells_the_count_and_the_waiters_here(
        self, latch: CountDownLatch, client: Redisson
    ) -> None:
        assert await latch.inspect() == LatchSnapshot(0, 0, ("c",))
        await latch.try_set_count(3)
        waiting = [asyncio.create_task(latch.wait()) for _ in range(2)]
        await until_waiting(client, 2)
        assert await latch.inspect() == LatchSnapshot(3, 2, ("c",))
        assert (latch.statistics().waiters, latch.statistics().held_leases) == (2, 0)
        assert get_latch(client, "another").statistics().waiters == 0
        await latch.delete()
        await asyncio.gather(*waiting)
        assert latch.statistics().waiters == 0


@pytest.mark.also("cluster")
class TestCosts:
    async def test_each_call_is_one_script_and_one_write(
        self, latch: CountDownLatch, client: Redisson, redis: Redis
    ) -> None:
        calls: tuple[Callable[[], Awaitable[object]], ...] = (
            lambda: latch.try_set_count(100),
            latch.count_down,
            latch.count,
            latch.inspect,
            latch.delete,
            latch.wait,
            get_latch(client, count=1).count_down,
            get_latch(client, count=1).count,
        )
        for call in calls:
            await call()
        traffic = stream_of(client, "c").traffic
        for call in calls:
            writes, commands = traffic.writes, traffic.commands
            async with Counted(redis) as counted:
                await call()
            assert (traffic.writes - writes, traffic.commands - commands) == (1, 1)
            assert counted.calls["evalsha"] == 1
            assert "subscribe" not in counted.calls


TITLE = "## A latch and jobs that are delivered twice\n"

JOBS = ["a", "b", "c"]


def documented() -> dict[str, Any]:
    """Return what the code in that section defines."""
    text = (repository.ROOT / "docs" / "safety.md").read_text("utf-8")
    section = text.partition(TITLE)[2].partition("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    defined: dict[str, Any] = {}
    exec(code, defined)
    return defined


async def test_a_run_is_finished_when_each_job_is_done_however_often(
    clients: ClientFactory, redis: Redis
) -> None:
    code = documented()
    coordinator, worker = clients(), clients()
    queue: list[tuple[str, str]] = []

    async def send(run: str, job: str) -> None:
        queue.append((run, job))

    run = await code["begin"](coordinator, JOBS, send)
    assert queue == [(run, job) for job in JOBS]
    for _ in range(3):
        await code["done"](worker, *queue[0])
    await code["done"](worker, *queue[1])
    # Four deliveries are done, and one job of three is not.
    with pytest.raises(TimeoutError):
        await code["finished"](coordinator, run, JOBS, 0.5)
    waiting = asyncio.create_task(code["finished"](coordinator, run, JOBS, 60))
    await code["done"](worker, *queue[2])
    await waiting
    for delivery in queue:
        await code["done"](worker, *delivery)
    await code["finished"](coordinator, run, JOBS, 60)
    assert [key async for key in redis.scan_iter(f"run:{run}:*")] == []
