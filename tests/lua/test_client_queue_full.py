"""The queue of clients on a full server: what is held is given back, and the next is called."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.lua.test_out_of_memory import fill
from tests.lua.test_out_of_memory import full_server as full_server
from tests.lua.test_out_of_memory import redis as redis
from tests.support.scripts.calls import LEASE, TOMBSTONE
from tests.support.scripts.client_queue import (
    BOTH_WAYS,
    HOLDER,
    LONG,
    Hearing,
    QueueScripts,
    X,
    Y,
    Z,
    freed,
    in_line,
    owner_of,
)

each_way = pytest.mark.parametrize("lease_ms", BOTH_WAYS)


async def unless_full(call: Awaitable[Any]) -> Any:
    """Return what a call is answered, or "full" if it is refused."""
    with suppress(ResponseError):
        return await call
    return "full"


@each_way
@pytest.mark.parametrize("tombstone_ms", [0, TOMBSTONE])
@pytest.mark.parametrize("first", [X, "dead"])
async def test_a_release_calls_the_next(
    queue: QueueScripts,
    redis: Redis,
    heard: Hearing,
    lease_ms: int,
    tombstone_ms: int,
    first: str,
) -> None:
    await in_line(queue, first, Y)
    await fill(redis)
    assert await queue.release(HOLDER, 0, lease_ms, tombstone_ms) == -1
    assert await queue.holds() == {}
    next_one = Y if first == "dead" else X
    assert (await queue.called(), (await heard(next_one))[-1:]) == (next_one, ["0"])


async def test_a_forced_release_and_a_leave_call_the_next(
    queue: QueueScripts, redis: Redis, heard: Hearing
) -> None:
    await in_line(queue, X, Y, Z)
    await fill(redis)
    assert await queue.force_release() == 1
    assert await heard(X) == ["0"]
    assert await queue.leaves(X) == 1
    assert (await queue.called(), await queue.waiting()) == (Y, [Y, Z])


@each_way
async def test_an_acquire_holds_with_a_lease_or_not_at_all(
    queue: QueueScripts, redis: Redis, heard: Hearing, lease_ms: int
) -> None:
    await freed(queue, X, Y, Z)
    await queue.joined_ago(X, LONG)
    await queue.called_ago(X, LONG)
    await fill(redis)
    for client in (Z, X, Y):
        granted = await unless_full(queue.asks(client, lease_ms=lease_ms)) is None
        # Redis 6.2 grants where a script has written already, as it has when somebody leaves.
        assert await queue.holds() == ({owner_of(client): 1} if granted else {})
        if granted:
            assert 0 < await queue.left() <= LEASE
            assert client not in await queue.waiting()
            assert await queue.release(owner_of(client)) in (-1, 1, 2)


async def test_who_waits_is_refused_or_joins(queue: QueueScripts, redis: Redis) -> None:
    await queue.acquire(HOLDER)
    await fill(redis)
    assert await unless_full(queue.asks(X)) in (
        "full",
        [pytest.approx(LEASE - 10_000, abs=10_000), 0, 0],
    )
    assert await queue.release(HOLDER) in (1, -1)
    assert await queue.holds() == {}
