"""A user that lacks what the queue of clients needs: nothing is half done, and holders release."""

from __future__ import annotations

import re
from collections.abc import Awaitable
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.lua.conftest import Forbid
from tests.support.scripts.calls import LEASE, TOMBSTONE, Scripts, everything
from tests.support.scripts.client_queue import (
    BOTH_WAYS,
    HOLDER,
    LONG,
    NEWCOMER,
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
#: What only the queue needs of a release: its commands, and the channels of the clients.
QUEUE_NEEDS = ["-zrange", "-zcard", "-zrem", "-zadd", "-time", "own channels"]

REFUSED = re.compile(r"(?i)permission|NOPERM|can't (run|publish)")


@pytest.fixture
def poor(queue: QueueScripts, poor_scripts: Scripts) -> QueueScripts:
    """The same lock, as a user that lacks what `forbid` names."""
    return type(queue)(poor_scripts, fenced=queue.fenced)


@each_way
@pytest.mark.parametrize("rule", QUEUE_NEEDS)
@pytest.mark.parametrize("first", [X, "dead"])
async def test_a_holder_releases_all_the_same(
    queue: QueueScripts,
    poor: QueueScripts,
    forbid: Forbid,
    heard: Hearing,
    lease_ms: int,
    rule: str,
    first: str,
) -> None:
    await in_line(queue, first, Y, Z)
    await forbid(rule, queue.channel)
    for tombstone_ms in (0, TOMBSTONE, None):
        await heard("all")
        if tombstone_ms is None:
            assert await poor.force_release() == 1
        else:
            assert await poor.release(HOLDER, 0, lease_ms, tombstone_ms) is not None
        assert await queue.holds() == {}
        # Where nobody is called, those that look hear of it.
        assert await heard("all") == ["00"]
        await queue.put(HOLDER)
    assert await poor.set_lease(HOLDER, LEASE // 2) == 1
    assert await queue.holds() == {HOLDER: 1}


#: What an acquire uses of the queue and of the lock.
ACQUIRE_USES = [*QUEUE_NEEDS, "-zrank", "-hkeys", "-hlen", "-hincrby", "-pexpire", "-exists"]


async def attempt(call: Awaitable[Any]) -> str:
    """Return what came of an acquire: "granted", "busy" or "refused"."""
    try:
        return "granted" if await call is None else "busy"
    except ResponseError as error:
        return "refused" if REFUSED.search(str(error)) else str(error)


@pytest.mark.parametrize("rule", ACQUIRE_USES)
@pytest.mark.parametrize("asks", [X, NEWCOMER])
@pytest.mark.parametrize(
    ("called", "lease_ms"), [(False, LEASE), *((True, lease_ms) for lease_ms in BOTH_WAYS)]
)
async def test_an_acquire_holds_with_a_lease_or_not_at_all(
    queue: QueueScripts,
    poor: QueueScripts,
    forbid: Forbid,
    heard: Hearing,
    lease_ms: int,
    rule: str,
    asks: str,
    called: bool,
) -> None:
    await freed(queue, X, Y, Z)
    await queue.joined_ago(X, LONG)
    if called:
        await queue.called_ago(X, LONG)
    await forbid(rule, queue.channel)
    result = await attempt(poor.asks(asks, lease_ms=lease_ms))
    assert result in ("granted", "busy", "refused")
    assert await queue.holds() == ({owner_of(asks): 1} if result == "granted" else {})
    if result == "granted":
        assert 0 < await queue.left() <= LEASE
        assert asks not in await queue.waiting()
        # A release of the write side needs HLEN too, of which the first acquire of a client asks.
        may = queue if (queue.suffix, rule) == (":write", "-hlen") else poor
        assert await may.release(owner_of(asks)) is not None
    # The others still come, in spite of it.
    for _ in range(4):
        reply = await queue.asks(Z)
        if reply is None:
            break
        if (silent := await queue.called()) is not None:
            await queue.called_ago(silent, LONG)
    assert await queue.holds() == {owner_of(Z): 1}


@pytest.mark.parametrize("rule", ACQUIRE_USES)
async def test_a_refused_ask_for_a_held_lock_leaves_the_hold(
    queue: QueueScripts, poor: QueueScripts, redis: Redis, forbid: Forbid, rule: str
) -> None:
    await in_line(queue, Y)
    await forbid(rule, queue.channel)
    assert await attempt(poor.asks(X)) in ("busy", "refused")
    assert await queue.holds() == {HOLDER: 1}
    assert await queue.release(HOLDER) is not None
    # It was in the queue, or not: it leaves as those do that are cancelled.
    assert await queue.leaves(X) in (0, 1)
    assert await queue.waiting() in ([], [Y])


async def test_without_the_first_look_nothing_changes(
    queue: QueueScripts, poor: QueueScripts, redis: Redis, forbid: Forbid
) -> None:
    await in_line(queue, X)
    before = await everything(redis)
    await forbid("-exists")
    assert await attempt(poor.asks(Y)) == "refused"
    assert await everything(redis) == before
