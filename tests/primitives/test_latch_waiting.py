"""Waiting for a latch: one seat and one question for all waiters of a client."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import AcquireTimeoutError, ConnectionLostError, Redisson, ScriptError
from redisson_py.barriers.latch import CountDownLatch
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.counting import Counted
from tests.support.latch_and_barrier import get_latch
from tests.support.streams import answered, stream_of
from tests.support.waiting import (
    set_safety_poll,
    until,
    until_async,
    until_listening,
    until_waiting,
)

pytestmark = pytest.mark.also("cluster")


@pytest_asyncio.fixture
async def latch(client: Redisson) -> AsyncIterator[CountDownLatch]:
    """A latch that is set to 1, and deleted in the end."""
    latch = get_latch(client)
    await latch.try_set_count(1)
    yield latch
    await latch.delete()


@pytest_asyncio.fixture
async def waiter(clients: ClientFactory) -> Redisson:
    """Another client, connected, which waits; its connection outlives a busy minute."""
    client = clients(lease_time=300)
    await answered(client)
    return client


@pytest.fixture
def far(waiter: Redisson) -> CountDownLatch:
    """The same latch of the client that waits."""
    return get_latch(waiter)


def start(
    count: int, latch: CountDownLatch, timeout: float | None = 30
) -> list[asyncio.Task[None]]:
    """Have so many tasks wait."""
    return [asyncio.create_task(latch.wait(timeout)) for _ in range(count)]


class TestLettingGo:
    @pytest.mark.parametrize("timeout", [0, 1, timedelta(seconds=1)])
    async def test_a_waiter_whose_time_is_up_is_notified(
        self, latch: CountDownLatch, far: CountDownLatch, timeout: float
    ) -> None:
        """RedissonCountDownLatchTest.testAwaitTimeoutFail."""
        with pytest.raises(AcquireTimeoutError, match="was not open"):
            await far.wait(timeout)
        with pytest.raises(TimeoutError):
            await far.wait(timeout=0)

    async def test_nobody_is_let_go_before_all_have_counted(self, clients: ClientFactory) -> None:
        """RedissonCountDownLatchConcurrentTest.testSingleCountDownAwait_SingleInstance."""
        count = 3 * (os.cpu_count() or 1)
        latch = get_latch(clients(), count=count)
        counted = 0

        async def work() -> None:
            nonlocal counted
            counted += 1
            await latch.count_down()

        async def wait() -> int:
            await latch.wait(timeout=10)
            return counted

        waiting = [asyncio.create_task(wait()) for _ in range(count)]
        await asyncio.sleep(0)
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(work())
        assert await asyncio.gather(*waiting) == [count] * count

    async def test_one_zero_message_lets_all_ten_waiters_go(
        self, latch: CountDownLatch, far: CountDownLatch, waiter: Redisson, redis: Redis
    ) -> None:
        """CountDownLatchPubSubTest.testOnZeroMessageAllListenersExecuted."""
        waiting = start(10, far)
        await until_listening(waiter)
        # As Redisson's last countDown does.
        await redis.delete("c")
        assert await redis.publish("redisson_countdownlatch__channel__{c}", "0") == 1
        await asyncio.gather(*waiting)

    async def test_a_zero_message_that_is_not_true_any_more_lets_nobody_go(
        self, latch: CountDownLatch, far: CountDownLatch, waiter: Redisson, redis: Redis
    ) -> None:
        (waiting,) = start(1, far)
        await until_listening(waiter)
        before = waiter.statistics().commands_sent
        await redis.publish("redisson_countdownlatch__channel__{c}", "0")
        await until(lambda: waiter.statistics().commands_sent > before)
        await until_listening(waiter)
        assert not waiting.done()
        await latch.count_down()
        await waiting

    async def test_deleting_lets_waiters_go(
        self,
        latch: CountDownLatch,
        far: CountDownLatch,
        waiter: Redisson,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Weakness 13: Redisson's delete shuts the gate, and nobody looks again."""
        set_safety_poll(monkeypatch, 60)
        waiting = start(3, far, None)
        await until_listening(waiter)
        assert await latch.delete()
        async with asyncio.timeout(20):  # before the safety poll
            await asyncio.gather(*waiting)

    async def test_the_end_of_an_abandoned_latch_lets_waiters_go_without_a_poll(
        self,
        client: Redisson,
        far: CountDownLatch,
        waiter: Redisson,
        redis: Redis,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Nobody announces it: the first of the waiters was told the moment."""
        set_safety_poll(monkeypatch, 60)
        assert await get_latch(client).try_set_count(1, expire_in=1.5)
        waiting = start(10, far, None)
        await until_listening(waiter)
        before = waiter.statistics().commands_sent
        async with asyncio.timeout(20):  # before the safety poll
            await asyncio.gather(*waiting)
        assert await redis.exists("c") == 0
        # One question at the end; a second one if the key was there for a millisecond more.
        assert 1 <= waiter.statistics().commands_sent - before <= 2

    async def test_a_latch_that_is_set_again_is_waited_for_to_its_own_end(
        self,
        client: Redisson,
        far: CountDownLatch,
        waiter: Redisson,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        set_safety_poll(monkeypatch, 60)
        latch = get_latch(client)
        await latch.try_set_count(1, expire_in=300)
        waiting = start(1, far, None)
        await until_listening(waiter)
        await latch.delete()
        await asyncio.gather(*waiting)
        await latch.try_set_count(1)
        waiting = start(3, far, None)
        await until_listening(waiter)
        await latch.delete()
        await latch.try_set_count(1, expire_in=0.5)
        async with asyncio.timeout(20):  # before the safety poll
            await asyncio.gather(*waiting)

    async def test_a_lost_message_costs_time_only(
        self,
        latch: CountDownLatch,
        far: CountDownLatch,
        waiter: Redisson,
        redis: Redis,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Weakness 28: Redisson's await waits for one message, and for no other reason."""
        set_safety_poll(monkeypatch, 0.1)
        waiting = start(3, far, None)
        await until_listening(waiter)
        await redis.delete("c")  # and no message at all
        async with asyncio.timeout(30):
            await asyncio.gather(*waiting)

    async def test_zero_while_the_waiter_was_cut_off_is_not_missed(
        self,
        latch: CountDownLatch,
        clients: ClientFactory,
        proxy: ProxyFactory,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Weakness 28: after a reconnect Redisson subscribes again, and does not look."""
        set_safety_poll(monkeypatch, 60)
        link = await proxy("c")
        waiter = clients(link.url)
        waiting = start(3, get_latch(waiter), None)
        await until_listening(waiter)
        link.refuse()
        link.cut()
        await latch.count_down()
        link.pass_through()
        async with asyncio.timeout(20):  # before the safety poll
            await asyncio.gather(*waiting)

    @pytest.mark.more
    async def test_an_earlier_answer_does_not_release_a_later_waiter(
        self, client: Redisson, clients: ClientFactory, proxy: ProxyFactory, redis: Redis
    ) -> None:
        latch, link = get_latch(client), await proxy("c")
        waiter = clients(link.url)
        far = get_latch(waiter)
        await far.wait()
        await redis.config_resetstat()
        link.delay(2, direction="down")
        asks, comes_late = start(1, far), start(2, far)
        await until_async(lambda: _scripts_run(redis))
        # The question is answered, with zero, and the answer is on its way.
        assert await latch.try_set_count(1)
        comes_late += start(2, far)
        await asyncio.gather(*asks)
        link.pass_through()
        await until_listening(waiter)
        assert not any(task.done() for task in comes_late)
        await latch.count_down()
        await asyncio.gather(*comes_late)


async def _scripts_run(redis: Redis) -> bool:
    return "cmdstat_evalsha" in await redis.info("commandstats")


class TestOneForAll:
    async def test_ten_thousand_waiters_are_one_subscription_and_one_question(
        self,
        latch: CountDownLatch,
        far: CountDownLatch,
        waiter: Redisson,
        redis: Redis,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        set_safety_poll(monkeypatch, 1000)
        async with Counted(redis) as waits:
            waiting = start(10_000, far, 300)
            await until_waiting(waiter, 10_000)
            await until_listening(waiter)
        assert waits.calls["subscribe"] == 1
        assert waits.calls["evalsha"] == 2  # the first question, and one after SUBSCRIBE
        traffic = stream_of(waiter, "c").traffic
        commands, writes = traffic.commands, traffic.writes
        async with Counted(redis) as lets_go:
            await latch.count_down()
            await asyncio.gather(*waiting)
        assert (traffic.commands - commands, traffic.writes - writes) == (1, 1)
        assert lets_go.calls["evalsha"] == 2  # the count_down, and one question
        assert "subscribe" not in lets_go.calls

    async def test_an_error_is_raised_in_every_waiter_that_shares_the_request(
        self, far: CountDownLatch, waiter: Redisson, redis: Redis
    ) -> None:
        await redis.hset("c", "mine", "1")
        async with Counted(redis) as counted:
            outcomes = await asyncio.gather(*start(100, far), return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {ScriptError}
        assert counted.calls["evalsha"] == 2  # of the first, and of the first after that
        await redis.delete("c")

    async def test_no_answer_fails_every_waiter_without_a_timeout_of_its_own(
        self,
        latch: CountDownLatch,
        clients: ClientFactory,
        proxy: ProxyFactory,
    ) -> None:
        link = await proxy("c")
        waiter = clients(link.url, command_timeout=1)
        await waiter.ping(timeout=30)
        far = get_latch(waiter)
        others, (patient,) = start(20, far, None), start(1, far, 10)
        await until_waiting(waiter, 21)
        await until_listening(waiter)
        link.refuse()
        link.cut()
        outcomes = await asyncio.gather(*others, return_exceptions=True)
        assert all(isinstance(outcome, ConnectionLostError) for outcome in outcomes)
        link.pass_through()
        await latch.count_down()
        await patient
