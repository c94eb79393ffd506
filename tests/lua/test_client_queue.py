"""The queue of clients: who joins, who goes first, and who is called by whom."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from tests.support.scripts.calls import LEASE, TOMBSTONE, ask, everything
from tests.support.scripts.client_queue import (
    BOTH_WAYS,
    HOLDER,
    JAVA,
    LONG,
    MOMENT,
    NEWCOMER,
    NOT_YET,
    Hearing,
    QueueScripts,
    X,
    Y,
    Z,
    freed,
    owner_of,
    queue_up,
)

each_way = pytest.mark.parametrize("lease_ms", BOTH_WAYS)


class TestJoining:
    async def test_the_first_two_hear_when_the_lease_ends(self, queue: QueueScripts) -> None:
        await queue.acquire(HOLDER)
        for position, client in enumerate((X, Y)):
            left, *others = await queue.asks(client)
            assert LEASE - 20_000 < left <= LEASE
            assert others == [position, 0]
        assert await queue.asks(Z) == [-1, 2, 0]
        assert await queue.waiting() == [X, Y, Z]
        assert 40_000 < await ask(queue.redis, "PTTL", queue.clients) <= 60_000

    async def test_the_first_two_hear_of_a_holder_that_calls_nobody(
        self, queue: QueueScripts
    ) -> None:
        await queue.acquire(JAVA)
        assert [(await queue.asks(client))[1:] for client in (X, Y, Z)] == [[0, 1], [1, 1], [2, 0]]

    async def test_a_lock_without_lease_names_no_end(self, queue: QueueScripts) -> None:
        await queue.acquire(HOLDER)
        await queue.redis.persist(queue.key)
        assert await queue.asks(X) == [-1, 0, 0]
        await queue.release(HOLDER)

    async def test_who_does_not_wait_leaves_nothing(
        self, queue: QueueScripts, redis: Redis
    ) -> None:
        await queue.acquire(HOLDER)
        before = await everything(redis)
        left = await queue.acquire(owner_of(X))
        assert left is not None
        assert LEASE - 20_000 < left <= LEASE
        assert await everything(redis) == before

    async def test_who_has_left_does_not_join(self, queue: QueueScripts, redis: Redis) -> None:
        await queue.acquire(HOLDER)
        await queue.release(owner_of(X), tombstone_ms=TOMBSTONE)
        before = await everything(redis)
        assert await queue.asks(X) == -3
        await queue.release(HOLDER)
        assert await queue.asks(X) == -3
        assert await queue.waiting() == []
        assert before.keys() >= (await everything(redis)).keys()


@each_way
class TestWhoTakesIt:
    async def test_a_newcomer_takes_it_from_those_who_have_not_waited_long(
        self, queue: QueueScripts, heard: Hearing, lease_ms: int
    ) -> None:
        await freed(queue, X)
        await queue.joined_ago(X, NOT_YET)
        assert await queue.acquire(owner_of(NEWCOMER), lease_ms=lease_ms) is None
        assert await queue.waiting() == [X]
        assert await heard(X) == []

    @pytest.mark.parametrize("yields", [0, 1])
    async def test_a_newcomer_calls_one_that_has_waited_or_to_which_it_yields(
        self, queue: QueueScripts, heard: Hearing, lease_ms: int, yields: int
    ) -> None:
        await freed(queue, X)
        await queue.joined_ago(X, 0 if yields else LONG)
        reply = await queue.asks(NEWCOMER, lease_ms=lease_ms, yields=yields)
        assert reply == [51, 1, 0]
        assert await heard(X) == ["0"]
        assert await queue.called() == X
        assert await queue.waiting() == [X, NEWCOMER]
        assert await queue.holds() == {}

    @pytest.mark.parametrize(("client", "position"), [(Y, 1), (Z, 2)])
    async def test_the_others_leave_one_that_was_called_a_moment(
        self, queue: QueueScripts, heard: Hearing, lease_ms: int, client: str, position: int
    ) -> None:
        await freed(queue, X, Y, Z)
        await queue.joined_ago(X, LONG)
        await queue.called_ago(X, MOMENT)
        look_ms, *others = await queue.asks(client, lease_ms=lease_ms)
        # The second is told when to look.
        assert look_ms == (51 - MOMENT if client == Y else -1)
        assert others == [position, 0]
        assert await heard(X) == await heard(Y) == await heard(Z) == []
        assert await queue.called() == X

    async def test_after_a_tombstone_nobody_gets_anything_or_goes(
        self, queue: QueueScripts, heard: Hearing, lease_ms: int
    ) -> None:
        await freed(queue, X, Y)
        await queue.release(owner_of(X), tombstone_ms=TOMBSTONE)
        before = await queue.entries()
        assert await queue.asks(X, lease_ms=lease_ms) == -3
        assert await queue.entries() == before
        assert await queue.holds() == {}


@each_way
class TestReleasing:
    async def test_it_calls_the_first_alone(
        self, queue: QueueScripts, heard: Hearing, lease_ms: int
    ) -> None:
        await queue_up(queue, X, Y)
        assert await queue.release(HOLDER, lease_ms=lease_ms) == -1
        assert await queue.holds() == {}
        assert (await queue.called(), await queue.waiting()) == (X, [X, Y])
        assert (await heard(X), await heard(Y), await heard("all")) == (["0"], [], ["00"])
        # Twice is once.
        assert await queue.release(HOLDER, lease_ms=lease_ms) is None
        assert await heard(X) == []
        # As Redisson, a writer says of what is free already that it is.
        assert await heard("all") == ([] if queue.suffix == "" else ["0"])

    async def test_a_lease_that_ends_sooner_is_reported_to_the_first_two(
        self, queue: QueueScripts, heard: Hearing, lease_ms: int
    ) -> None:
        await queue_up(queue, X, Y, Z)
        await queue.acquire(HOLDER, 2, 10 * LEASE)
        assert await queue.release(HOLDER, 1, lease_ms=lease_ms) == 0
        assert [await heard(each) for each in (X, Y, Z, "all")] == [["0"], ["0"], [], ["0"]]
        assert await queue.set_lease(HOLDER, LEASE // 2) == 1
        assert [await heard(each) for each in (X, Y, Z, "all")] == [["0"], ["0"], [], ["0"]]
        assert await queue.called() is None


async def test_a_forced_release_calls_the_first_once(queue: QueueScripts, heard: Hearing) -> None:
    await queue_up(queue, "dead", X, Y)
    for messages in (["0"], []):
        assert await queue.force_release() == 1
        assert await heard(X) == messages
        assert await heard("all") == ["00"] * len(messages)
    assert (await queue.called(), await queue.waiting()) == (X, [X, Y])
    assert await queue.force_release("another") == 0
    assert await heard(X) == []


class TestLeaving:
    async def test_late_it_spares_a_hold(self, queue: QueueScripts, redis: Redis) -> None:
        await queue_up(queue, X)
        await queue.release(HOLDER)
        await queue.asks(X)
        before = await everything(redis)
        assert await queue.leaves(X) == 0
        assert await everything(redis) == before
