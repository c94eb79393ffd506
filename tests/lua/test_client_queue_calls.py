"""The queue of clients: who is called by whom that releases or leaves."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from tests.support.scripts.calls import LEASE, everything
from tests.support.scripts.client_queue import (
    BOTH_WAYS,
    HOLDER,
    Hearing,
    QueueScripts,
    X,
    Y,
    Z,
    in_line,
)

each_way = pytest.mark.parametrize("lease_ms", BOTH_WAYS)


@each_way
class TestReleasing:
    async def test_it_calls_the_first_alone(
        self, queue: QueueScripts, heard: Hearing, lease_ms: int
    ) -> None:
        await in_line(queue, X, Y)
        assert await queue.release(HOLDER, lease_ms=lease_ms) == -1
        assert await queue.holds() == {}
        assert (await queue.called(), await queue.waiting()) == (X, [X, Y])
        assert (await heard(X), await heard(Y), await heard("all")) == (["0"], [], ["00"])
        # Twice is once.
        assert await queue.release(HOLDER, lease_ms=lease_ms) is None
        assert await heard(X) == []
        # As Redisson, a writer says of what is free already that it is.
        assert await heard("all") == ([] if queue.suffix == "" else ["0"])

    async def test_a_lease_that_ends_sooner_is_told_to_the_first_two(
        self, queue: QueueScripts, heard: Hearing, lease_ms: int
    ) -> None:
        await in_line(queue, X, Y, Z)
        await queue.acquire(HOLDER, 2, 10 * LEASE)
        assert await queue.release(HOLDER, 1, lease_ms=lease_ms) == 0
        assert [await heard(each) for each in (X, Y, Z, "all")] == [["0"], ["0"], [], ["0"]]
        assert await queue.set_lease(HOLDER, LEASE // 2) == 1
        assert [await heard(each) for each in (X, Y, Z, "all")] == [["0"], ["0"], [], ["0"]]
        assert await queue.called() is None


async def test_a_forced_release_calls_the_first_once(queue: QueueScripts, heard: Hearing) -> None:
    await in_line(queue, "dead", X, Y)
    for messages in (["0"], []):
        assert await queue.force_release() == 1
        assert await heard(X) == messages
        assert await heard("all") == ["00"] * len(messages)
    assert (await queue.called(), await queue.waiting()) == (X, [X, Y])
    assert await queue.force_release("another") == 0
    assert await heard(X) == []


class TestLeaving:
    async def test_late_it_spares_a_hold(self, queue: QueueScripts, redis: Redis) -> None:
        await in_line(queue, X)
        await queue.release(HOLDER)
        await queue.asks(X)
        before = await everything(redis)
        assert await queue.leaves(X) == 0
        assert await everything(redis) == before
