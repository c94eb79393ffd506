"""The queue of clients of a semaphore: who is called for what is free, and who may take it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from tests.lua.test_golden_vectors import Listener, listening
from tests.support.scripts.any_semaphore import SEMAPHORES
from tests.support.scripts.calls import LEASE, Scripts, ask, everything
from tests.support.scripts.client_queue import (
    LONG,
    MOMENT,
    NEWCOMER,
    NOT_YET,
    Hearing,
    X,
    Y,
    Z,
)
from tests.support.scripts.unit_queue import FULL, UnitQueue, queue_up

#: A client that wants three units, another one that waits.
BIG, W = "client-b:3", "client-w"


@pytest_asyncio.fixture(params=SEMAPHORES)
async def queue(request: pytest.FixtureRequest, scripts: Scripts) -> UnitQueue:
    """A semaphore of either kind, and its queue, while time stands still."""
    await scripts.stop_clock()
    return UnitQueue(scripts, request.param)


@pytest_asyncio.fixture(autouse=True)
async def heard(queue: UnitQueue, redis: Redis) -> AsyncIterator[Hearing]:
    """Keep some clients alive; return what one of them, or the channel of all, has heard."""
    channels = {each: queue.own_channel(each) for each in (X, Y, Z, W, BIG)}
    channels["all"] = queue.channel
    listeners: dict[str, Listener] = {}
    async with AsyncExitStack() as stack:
        for each, channel in channels.items():
            listeners[each] = await stack.enter_async_context(listening(redis, channel))

        async def heard(who: str) -> list[str]:
            return [message.decode() for message in await listeners[who].heard()]

        yield heard
    await redis.flushdb()


class TestJoining:
    async def test_the_first_two_hear_when_a_lease_ends(self, queue: UnitQueue) -> None:
        await queue_up(queue)
        for position, client in enumerate((X, Y)):
            left, *others = await queue.asks(client)
            assert LEASE - 20_000 < left <= LEASE
            assert others == [position, 0, 0]
        assert await queue.asks(Z) == [-1, 2, 0, 0]
        assert await queue.waiting() == [X, Y, Z]
        assert 40_000 < await ask(queue.redis, "PTTL", queue.clients) <= 60_000

    async def test_the_first_eight_hear_that_others_may_have_units(self, queue: UnitQueue) -> None:
        await queue.semaphore.start(1)
        await ask(queue.redis, "DECR", queue.key)
        if queue.kind == "with ids":
            permits = queue.semaphore.keys[1]
            await ask(queue.redis, "ZADD", permits, 922337203685477, b"0123456789abcdef")
        crowd = [X, Y, *(f"client-{number}" for number in range(8))]
        replies = [await queue.asks(client, start_units=1) for client in crowd]
        missing = 0 if queue.kind == "with ids" else -5
        seconds, others = [[-1, 1, 1, missing]] * 7, [[-1, 2, 0, missing]] * 2
        assert replies == [[-1, 0, 1, missing], *seconds, *others]

    async def test_one_waits_for_a_semaphore_that_is_not_there(self, queue: UnitQueue) -> None:
        assert await queue.asks(X) == [-1, 0, 1, -4]
        assert await queue.waiting() == [X]
        assert not await queue.redis.exists(queue.key)

    async def test_who_does_not_wait_leaves_nothing(self, queue: UnitQueue, redis: Redis) -> None:
        await queue_up(queue, X)
        before = await everything(redis)
        assert await queue.asks(NEWCOMER, waits=False) >= 0
        assert await everything(redis) == before

    async def test_who_has_left_does_not_join(self, queue: UnitQueue) -> None:
        await queue_up(queue, Y)
        await queue.undo(X)
        assert await queue.asks(X) == -3
        assert await queue.waiting() == [Y]


class TestCalling:
    async def test_a_release_calls_the_first(self, queue: UnitQueue, heard: Hearing) -> None:
        await queue_up(queue, X, Y, Z)
        assert await queue.release(FULL) == -1
        assert await queue.called() == {X}
        assert (await heard(X), await heard(Y), await heard(Z)) == (["0"], [], ["2"])
        # Redisson's clients read a number; to ours it is no call.
        assert await heard("all") == ["01"]
        assert await queue.asks(X) is None
        assert await queue.waiting() == [Y, Z]

    async def test_two_releases_call_two(self, queue: UnitQueue, heard: Hearing) -> None:
        await queue_up(queue, X, Y, Z, W)
        assert [await queue.release(FULL, number) for number in (1, 2)] == [-1, -1]
        assert await queue.called() == {X, Y}
        assert [await heard(each) for each in (X, Y, Z, W)] == [["0"], ["0"], ["2"], ["2"]]
        for client in (Y, X):
            assert await queue.asks(client) is None
        assert await queue.waiting() == [Z, W]

    async def test_who_wants_more_than_there_is_keeps_its_position(
        self, queue: UnitQueue, heard: Hearing
    ) -> None:
        await queue_up(queue, BIG, X, Y, waited=NOT_YET)
        assert await queue.release(FULL) == -1
        assert await queue.called() == {X}
        assert (await heard(BIG), await heard(X), await heard(Y)) == ([], ["0"], ["2"])
        assert await queue.asks(X) is None
        assert await queue.waiting() == [BIG, Y]
        # When there is enough it comes first.
        assert await queue.release(X) == -1
        assert await queue.called() == {Y}
        for number in (2, 3):
            await queue.release(FULL, number)
        assert await queue.called() == {Y}
        await queue.gives(1)
        assert await queue.asks(Y) is None
        assert await queue.called() == {BIG}
        assert await queue.asks(BIG) is None

    async def test_the_dead_are_passed_over(self, queue: UnitQueue, heard: Hearing) -> None:
        dead = [f"dead-{number}" for number in range(5)]
        await queue_up(queue, *dead, X, Y, Z)
        assert await queue.release(FULL) == -1
        assert (await queue.called(), await queue.waiting()) == ({X}, [X, Y, Z])
        assert (await heard(X), await heard(Y), await heard(Z)) == (["0"], ["2"], ["2"])

    async def test_two_thousand_dead_are_passed_over(self, queue: UnitQueue) -> None:
        await queue_up(queue)
        rows = [word for n in range(2000) for word in (str(n + 1), f"dead-{n}")]
        await ask(queue.redis, "ZADD", queue.clients, *rows)
        await queue.asks(X)
        assert await queue.release(FULL) == -1
        assert (await queue.called(), await queue.waiting()) == ({X}, [X])

    async def test_an_undo_calls(self, queue: UnitQueue) -> None:
        await queue_up(queue, X)
        assert await queue.undo(FULL) == -1
        assert await queue.called() == {X}

    async def test_a_hundred_are_called_at_once_and_each_calls_others(
        self, queue: UnitQueue, redis: Redis
    ) -> None:
        crowd = [f"crowd-{number:03}" for number in range(103)]
        async with AsyncExitStack() as stack:
            pubsub = redis.pubsub()
            stack.push_async_callback(pubsub.aclose)
            await pubsub.subscribe(*map(queue.own_channel, crowd))
            await queue_up(queue, *crowd)
            await queue.counts.add(200)
            called = [await queue.called()]
            # One that was not called waits for its turn, and so does a newcomer.
            busy = [await queue.asks(crowd[101]), await queue.asks(NEWCOMER, waits=False)]
            granted = await queue.asks(crowd[0])
            called.append(await queue.called())
            assert called == [{*crowd[:100]}, {*crowd[1:101]}]
            assert (busy[0][1], granted) == (1, None)
            assert isinstance(busy[1], int)


class TestWhoTakesIt:
    async def test_a_newcomer_takes_what_is_not_reserved(
        self, queue: UnitQueue, heard: Hearing
    ) -> None:
        await queue_up(queue, X)
        for number in (1, 2):
            await queue.release(FULL, number)
        assert await queue.called() == {X}
        assert await queue.asks(NEWCOMER) is None
        assert (await queue.asks(NEWCOMER, number=2))[1] == 1
        assert await queue.asks(X) is None

    async def test_a_newcomer_comes_before_one_that_has_not_waited_long(
        self, queue: UnitQueue
    ) -> None:
        await queue_up(queue, X)
        await queue.joined_ago(X, NOT_YET)
        await queue.release(FULL)
        assert isinstance(await queue.asks(NEWCOMER, yields=1), list)
        assert await queue.asks(NEWCOMER, number=2, waits=False) is None
        assert isinstance(await queue.asks(X), list)

    async def test_a_newcomer_calls_those_that_nobody_called(
        self, queue: UnitQueue, heard: Hearing
    ) -> None:
        await queue_up(queue, "dead", X, Y)
        await queue.gives(1)
        assert await queue.asks(NEWCOMER) == [51, 1, 0, 0]
        assert await queue.called() == {X}
        assert await heard(X) == ["0"]
        await queue.gives(5)
        assert await queue.asks(NEWCOMER, number=2, waits=False) is None
        # Nobody hears the newcomer's name called, so it is gone from the queue.
        assert (await queue.called(), await queue.waiting()) == ({X, Y}, [X, Y])

    async def test_one_in_the_queue_takes_what_those_before_it_do_not_need(
        self, queue: UnitQueue
    ) -> None:
        await queue_up(queue, BIG, X, Y, waited=NOT_YET)
        await queue.gives(1)
        assert await queue.asks(X, yields=1) is None
        await queue.gives(2)
        assert await queue.asks(Y, yields=1) is None
        assert await queue.waiting() == [BIG]

    async def test_one_that_was_called_finds_nothing_and_keeps_its_position(
        self, queue: UnitQueue, heard: Hearing
    ) -> None:
        await queue_up(queue, X, Y)
        await queue.release(FULL)
        before = (await queue.entries())[X]
        await ask(queue.redis, "DECR", queue.key)
        assert (await queue.asks(X))[1] == 0
        assert (await queue.called(), await queue.waiting()) == (set(), [X, Y])
        assert (await queue.entries())[X] == before

    async def test_who_is_silent_is_passed_over(self, queue: UnitQueue, heard: Hearing) -> None:
        await queue_up(queue, X, Y, Z, W)
        await queue.gives(1)
        await queue.called_ago(X, LONG)
        assert await queue.asks(Y) is None
        assert await queue.waiting() == [Z, W]
        assert (await heard(Z), await heard(W)) == ([], ["2"])
        # It lives after all: it is one of those that come.
        assert (await queue.asks(X))[1] == 2

    async def test_who_was_called_a_moment_ago_is_waited_for(self, queue: UnitQueue) -> None:
        await queue_up(queue, X, Y, Z)
        await queue.gives(1)
        await queue.called_ago(X, MOMENT)
        replies = [await queue.asks(each) for each in (Y, Z, NEWCOMER)]
        assert [each[0] for each in replies] == [51 - MOMENT, 51 - MOMENT, -1]
        assert [each[1] for each in replies] == [1, 1, 2]
        assert await queue.called() == {X}

    async def test_a_repeated_grant_changes_nothing(self, queue: UnitQueue, redis: Redis) -> None:
        await queue_up(queue, X, Y)
        await queue.release(FULL)
        assert await queue.asks(X) is None
        free, entries = await queue.semaphore.value(), await queue.entries()
        assert await queue.asks(X) is None
        assert (await queue.semaphore.value(), await queue.entries()) == (free, entries)

    async def test_units_gather_for_one_that_wants_many_for_a_part_of_the_time(
        self, queue: UnitQueue, heard: Hearing
    ) -> None:
        await queue_up(queue, BIG, X, Y)
        await ask(queue.redis, "ZADD", queue.clients, "XX", await queue.now() - 20_000_000, BIG)
        replies = [
            await queue.release(FULL),
            await queue.asks(X, yields=1),
            await queue.asks(NEWCOMER, waits=False),
        ]
        called, said = await queue.called(), [await heard(each) for each in (BIG, X, Y)]
        # The first of the others looks in a while.
        assert (called, said) == (set(), [[], ["2", "2"], []])
        assert replies[0] == 1
        assert replies[1] == [51, 1, 0, 0]
        assert replies[2] >= 0
        # Then they are called again.
        await ask(queue.redis, "ZADD", queue.clients, "XX", await queue.now() - 20_050_000, BIG)
        assert await queue.asks(X, yields=1) is None

    @pytest.mark.parametrize("newcomer", [False, True])
    async def test_one_behind_several_that_want_many_looks_in_a_while(
        self, queue: UnitQueue, heard: Hearing, newcomer: bool
    ) -> None:
        """Nobody else knows that it could have what gathers."""
        await queue_up(queue, BIG, "client-c:3", *([] if newcomer else [X]))
        await ask(queue.redis, "ZADD", queue.clients, "XX", await queue.now() - 20_000_000, BIG)
        await queue.gives(1)
        reply = await queue.asks(X, yields=1)
        assert reply == [51, 1, 0, 0]

    async def test_who_wants_many_is_called_when_there_are_enough(
        self, queue: UnitQueue, heard: Hearing
    ) -> None:
        await queue_up(queue, BIG, X)
        await queue.gives(2)
        assert await queue.release(FULL) == -1
        assert await queue.called() == {BIG}
