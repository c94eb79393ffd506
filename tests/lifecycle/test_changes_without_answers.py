"""Until a change is answered, the earlier of the old and the new end of a lease counts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import ConnectionLostError, Lease, LeaseLostError, ReleaseFailedError
from redisson_py._on_redis import executor
from redisson_py._time import now
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.lifecycle.late_bytes import REENTRANT, executed, recorded, shortest_lease
from tests.support.waiting import until, until_async

#: What is allowed for the server's rounding to whole milliseconds.
ROUNDING = 0.005

each_kind = pytest.mark.parametrize("kind", ["lock", "read_lock", "multi_lock"])
"""Which answer counts is decided here, in one way for all single locks."""


def change(lease: Lease, seconds: float | None) -> asyncio.Task[Any]:
    """Begin to extend a lease, or to release it."""
    return asyncio.create_task(lease.release() if seconds is None else lease.extend(seconds))


async def until_executed(redis: Redis, least: float, most: float) -> float:
    """Return the seconds that Redis has left, when they are between these."""
    left = 0.0

    async def executed() -> bool:
        nonlocal left
        left = await shortest_lease(redis) / 1000
        return least < left <= most

    await until_async(executed)
    return left


@pytest.mark.parametrize("seconds", [None, 10], ids=["released", "extended"])
@each_kind
async def test_the_outer_lease_ends_with_what_redis_may_have(
    kind: str, seconds: float | None, clients: ClientFactory, proxy: ProxyFactory, redis: Redis
) -> None:
    link = await proxy()
    lock = REENTRANT[kind](clients(link.url, lease_time=30))
    outer = await lock.acquire()
    inner = await lock.acquire(lease_time=100)
    assert outer.remaining > 90
    link.black_hole("down")
    changing = change(inner, seconds)
    left = await until_executed(redis, 0, 30)
    assert 0 < outer.remaining <= left + ROUNDING
    link.pass_through()
    link.cut()
    await changing
    if seconds is not None:
        await inner.release()
    await outer.release()


@pytest.mark.parametrize(
    ("first", "second"),
    [((1, 100), (1, 10)), ((2, None), (1, None)), ((1, 100), (1, None)), ((2, None), (1, 10))],
    ids=["extended twice", "released twice", "extended, released", "released, extended"],
)
@each_kind
async def test_the_answer_to_a_change_does_not_count_after_the_next_was_sent(
    kind: str,
    first: tuple[int, float | None],
    second: tuple[int, float | None],
    clients: ClientFactory,
    proxy: ProxyFactory,
    redis: Redis,
) -> None:
    link = await proxy()
    lock = REENTRANT[kind](clients(link.url, lease_time=30))
    leases = [await lock.acquire(lease_time=seconds) for seconds in (None, 50, None)]
    # The answer to the first is on its way for as long as this test likes.
    link.dribble(1, 0.5)
    answers = link.down.frames + (2 if kind == "multi_lock" else 1)
    begun = change(leases[first[0]], first[1])
    await until_executed(redis, 40 if first[1] is None else 90, 100)
    await link.wait_until(lambda link: link.down.frames >= answers)
    link.black_hole("down")
    next_one = change(leases[second[0]], second[1])
    left = await until_executed(redis, 0, 30)
    assert not begun.done()
    link.dribble(0, 0)
    await begun
    assert 0 < leases[0].remaining <= left + ROUNDING
    link.pass_through()
    link.cut()
    await next_one
    for lease in leases:
        if lease.remaining:
            await lease.release()


@each_kind
async def test_a_release_that_is_repeated_when_the_rest_has_ended_was_no_loss(
    kind: str,
    clients: ClientFactory,
    proxy: ProxyFactory,
    redis: Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It left Redis what the inner lease needs, which was over before the repetition came."""
    # Otherwise the repetition would have to come within the second for which a release is tried.
    monkeypatch.setattr(executor, "RELEASE_LEAST", 20.0)
    link = await proxy()
    lock = REENTRANT[kind](clients(link.url, lease_time=30))
    outer, inner = await lock.acquire(), await lock.acquire(lease_time=1)
    releasing = await executed(link, outer.release())

    async def ended() -> bool:
        return not await recorded(redis)

    await until_async(ended)
    link.pass_through()
    await releasing
    with pytest.raises(LeaseLostError):
        await inner.release()


@pytest.mark.parametrize("again", [False, True], ids=["extended", "re-entered"])
@pytest.mark.parametrize("kind", REENTRANT)
@pytest.mark.more
async def test_a_release_is_repeated_for_a_long_lease_without_an_answer(
    kind: str, again: bool, clients: ClientFactory, proxy: ProxyFactory, redis: Redis
) -> None:
    """Its holder relies on the short lease of before, and Redis may keep the long one."""
    link = await proxy()
    lock = REENTRANT[kind](clients(link.url, command_timeout=0.5))
    lease = await lock.acquire(timeout=20, lease_time=2)
    link.cut_after_execution(b"EVALSHA")
    link.refuse()
    with pytest.raises(ConnectionLostError):
        await (lock.try_acquire(timeout=0.5, lease_time=100) if again else lease.extend(100))
    await link.wait_until(lambda link: link.triggered == 1)
    with pytest.raises((LeaseLostError, ReleaseFailedError)):
        await lease.release()
    # The outage outlasts by far what the holder relied on.
    over_at = now() + 3
    await until(lambda: now() > over_at)
    assert await recorded(redis)
    link.pass_through()

    async def free() -> bool:
        return not await recorded(redis)

    await until_async(free)


@pytest.mark.more
async def test_a_release_is_repeated_for_a_renewal_without_an_answer(
    clients: ClientFactory, proxy: ProxyFactory, redis: Redis
) -> None:
    """Redis may keep what it renewed for longer than its holder knows."""
    link = await proxy()
    client = clients(link.url, lease_time=9, command_timeout=0.5)
    lease = await client.get_lock("k").acquire(timeout=20)
    known_until = now() + 9
    link.cut_after_execution(b"EVALSHA")
    link.refuse()
    # A third of the lease later.
    await link.wait_until(lambda link: link.triggered == 1)
    with pytest.raises(ReleaseFailedError):
        await lease.release()
    async with redis.pubsub() as listening:
        await listening.subscribe("redisson_lock__channel:{k}")
        assert await listening.get_message(timeout=20)
        await until(lambda: now() > known_until)
        assert await recorded(redis)
        link.pass_through()
        # An end of its lease would tell nobody.
        assert await listening.get_message(ignore_subscribe_messages=True, timeout=20)
    assert not await recorded(redis)
