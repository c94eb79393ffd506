"""A latch that real Redisson clients and ours share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py.barriers.latch import CountDownLatch
from redisson_py.testing import EmbeddedCluster
from tests.fixtures.client import ClientFactory
from tests.fixtures.java import RedissonFactory
from tests.interop.java import MS, JavaError, JavaObject
from tests.interop.waits import soon, until_asleep
from tests.support.cluster_look import master_of
from tests.support.waiting import until, until_listening

pytestmark = [pytest.mark.also("interop-cluster"), pytest.mark.usefixtures("only_messages")]

CHANNEL = "redisson_countdownlatch__channel__{l}"


@pytest.fixture
def ours(client: Redisson) -> CountDownLatch:
    """The latch, as Python has it."""
    return client.get_latch("l")


@pytest_asyncio.fixture
async def theirs(redisson: JavaObject) -> AsyncIterator[JavaObject]:
    """The latch, as Java has it."""
    latch = await redisson.get("getCountDownLatch", "l")
    yield latch
    await latch.call("delete", thread="ends")


async def counted(ours: CountDownLatch, java: JavaObject) -> int:
    """Return what is left, on which both must agree."""
    left = await ours.count()
    assert await java.call("getCount", thread="looks on") == left
    return left


def wait_here(latch: CountDownLatch, count: int = 1) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(latch.wait()) for _ in range(count)]


class TestWaiting:
    @pytest.mark.parametrize("java_counts", [True, False])
    async def test_all_of_both_kinds_go_at_zero_and_nobody_before(
        self,
        client: Redisson,
        clients: ClientFactory,
        redissons: RedissonFactory,
        ours: CountDownLatch,
        theirs: JavaObject,
        java_counts: bool,
    ) -> None:
        counts = await (await redissons()).get("getCountDownLatch", "l")
        other = clients()
        await ours.try_set_count(3)
        there = [theirs.call("await", thread=thread) for thread in "ab"]
        there.append(theirs.call("await", 30_000, MS, thread="c"))
        there.append(theirs.call("awaitAsync", thread="d"))
        await until_asleep(theirs, *"abc")
        here = wait_here(ours, 3) + wait_here(other.get_latch("l"), 2)
        await until_listening(client)
        await until_listening(other)
        await ours.count_down()
        await counts.call("countDown")
        assert await counted(ours, theirs) == 1
        assert not any(waiting.done() for waiting in [*here, *there])
        await (counts.call("countDown") if java_counts else ours.count_down())
        assert await soon(asyncio.gather(*there)) == [None, None, True, None]
        await soon(asyncio.gather(*here))

    async def test_a_cancelled_task_or_interrupted_thread_leaves_the_others_waiting(
        self, client: Redisson, ours: CountDownLatch, theirs: JavaObject
    ) -> None:
        await ours.try_set_count(1)
        head, behind = wait_here(ours, 2)
        await until_listening(client)
        there = [theirs.call("await", thread=thread) for thread in "ab"]
        await until_asleep(theirs, *"ab")
        head.cancel()
        await theirs.java.driver.call("interrupt", "a")
        with pytest.raises(JavaError) as raised:
            await soon(there[0])
        assert raised.value.kind == "InterruptedException"
        await asyncio.wait([head])
        await until_listening(client)
        assert not behind.done()
        assert not there[1].done()
        await theirs.call("countDown")
        await soon(asyncio.gather(behind, there[1]))
        assert head.cancelled()


class TestEnd:
    async def test_java_counts_it_down_and_sets_it_again_after_it_has_ended(
        self, client: Redisson, ours: CountDownLatch, theirs: JavaObject, redis: Redis
    ) -> None:
        assert await ours.try_set_count(2, expire_in=600)
        assert await theirs.call("trySetCount", 5) is False
        await theirs.call("countDown")
        assert await counted(ours, theirs) == 1
        assert 0 < await redis.pttl("l") <= 600_000
        (here,) = wait_here(ours)
        await until_listening(client)
        await theirs.call("countDown")
        await soon(here)
        assert await ours.try_set_count(2, expire_in=0.1)
        # No message: the task asks when it was told to, and Java looks.
        await soon(asyncio.gather(*wait_here(ours)))
        assert await counted(ours, theirs) == 0
        assert await theirs.call("trySetCount", 1) is True
        assert await redis.pttl("l") == -1
        await theirs.call("countDown")


class TestDeletion:
    @pytest.mark.parametrize("java_deletes", [True, False])
    async def test_it_lets_tasks_go_and_threads_wait_for_the_next_zero(
        self, client: Redisson, ours: CountDownLatch, theirs: JavaObject, java_deletes: bool
    ) -> None:
        """Redisson's delete shuts the gate; that of this library has to say the same."""
        await ours.try_set_count(2)
        there = theirs.call("await", thread="a")
        await until_asleep(theirs, "a")
        (here,) = wait_here(ours)
        await until_listening(client)
        if java_deletes:
            assert await theirs.call("delete") is True
        else:
            assert await ours.delete() is True
        await soon(here)
        assert await counted(ours, theirs) == 0
        await until_asleep(theirs, "a")
        assert not there.done()
        if java_deletes:
            assert await ours.try_set_count(1) is True
        else:
            assert await theirs.call("trySetCount", 1) is True
        (here,) = wait_here(ours)
        await until_listening(client)
        assert not there.done()
        await ours.count_down()
        await soon(asyncio.gather(here, there))

    async def test_a_count_set_again_at_once_keeps_both_waiting(
        self,
        client: Redisson,
        ours: CountDownLatch,
        theirs: JavaObject,
        redis: Redis,
        session_cluster: EmbeddedCluster | None,
    ) -> None:
        await ours.try_set_count(1)
        there = theirs.call("await", thread="a")
        await until_asleep(theirs, "a")
        (here,) = wait_here(ours)
        await until_listening(client)
        wake_ups = client.statistics().wake_ups
        # Zero, said and not true any more when they look: in one go with the next count.
        publish = "PUBLISH" if session_cluster is None else "SPUBLISH"
        async with (await master_of(redis, "l")).pipeline(transaction=True) as both:
            both.delete("l")
            both.execute_command(publish, CHANNEL, "0")
            both.set("l", "2")
            both.execute_command(publish, CHANNEL, "1")
            await both.execute()
        await until(lambda: client.statistics().wake_ups > wake_ups)
        await until_listening(client)
        await until_asleep(theirs, "a")
        assert not here.done()
        assert not there.done()
        await ours.count_down()
        await theirs.call("countDown")
        await soon(asyncio.gather(here, there))
