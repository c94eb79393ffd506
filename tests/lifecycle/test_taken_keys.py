"""Keys that somebody overwrote with another type: the hold is lost, and the error names it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import LeaseLostError, Redisson, ScriptError
from tests.support.kinds import enter, leave
from tests.support.leases import renew_now, renewed_at_once
from tests.support.waiting import until

Make = Callable[[Redisson], Any]

#: What has scripts of its own to release, extend and renew it; errors must contain its name.
MAKES: dict[str, Make] = {
    "lock": lambda client: client.get_lock("orders"),
    "fair_lock": lambda client: client.get_fair_lock("orders"),
    "write_lock": lambda client: client.get_read_write_lock("orders").write_lock(),
    "read_lock": lambda client: client.get_read_write_lock("orders").read_lock(),
    "multi_lock": lambda client: client.get_multi_lock(
        client.get_lock("orders"), client.get_lock("other")
    ),
    "semaphore": lambda client: client.get_semaphore("semaphore-orders", 2),
    "expirable_semaphore": lambda client: client.get_permit_expirable_semaphore(
        "semaphore-orders", 2
    ),
}
each_kind = pytest.mark.parametrize("kind", MAKES)


async def overwrite(redis: Redis) -> None:
    """Put a list where the resource is, in all its keys, for a minute."""
    for key in await redis.keys("*orders*"):
        await redis.delete(key)
        await redis.rpush(key, "mine")
        await redis.expire(key, 60)


@pytest_asyncio.fixture
async def overwritten(redis: Redis) -> AsyncIterator[Callable[[], Any]]:
    """Overwrite the resource's keys; they are deleted in the end."""

    async def now() -> None:
        await overwrite(redis)

    yield now
    if keys := await redis.keys("*orders*"):
        await redis.delete(*keys)


def is_taken(caught: pytest.ExceptionInfo[LeaseLostError]) -> bool:
    """Whether an error says that the hold was taken, and of what."""
    error = caught.value
    return error.reason == "taken" and "taken" in str(error) and "orders" in str(error)


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "release": lambda thing, lease: lease.release(),
    "extend": lambda thing, lease: lease.extend(20),
    "leave": lambda thing, lease: leave(thing),
}


@each_kind
@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_finds_the_hold_taken(
    change: str, kind: str, client: Redisson, overwritten: Callable[[], Any]
) -> None:
    thing = MAKES[kind](client)
    lease = await (enter(thing) if change == "leave" else thing.acquire())
    await overwritten()
    with pytest.raises(LeaseLostError) as caught:
        await CHANGES[change](thing, lease)
    assert is_taken(caught)
    assert lease.lost
    assert lease.remaining == 0
    assert client.statistics().held_leases == 0
    with pytest.raises(LeaseLostError):
        lease.check()
    async with asyncio.timeout(5):
        await lease.wait_lost()
    if change == "extend":
        with pytest.raises(LeaseLostError):
            await lease.release()


@pytest.mark.parametrize("kind", [kind for kind in MAKES if "semaphore" not in kind])
async def test_a_partial_release_finds_the_hold_taken(
    kind: str, client: Redisson, overwritten: Callable[[], Any]
) -> None:
    lock = MAKES[kind](client)
    outer, inner = await lock.acquire(), await lock.acquire()
    await overwritten()
    with pytest.raises(LeaseLostError) as caught:
        await inner.release()
    assert is_taken(caught)
    assert outer.lost
    with pytest.raises(LeaseLostError):
        await outer.release()


@each_kind
async def test_a_renewal_finds_the_hold_taken_and_keeps_the_others(
    kind: str, client: Redisson, overwritten: Callable[[], Any]
) -> None:
    lease = await MAKES[kind](client).acquire()
    others = [await client.get_lock(f"k{n}").acquire() for n in range(5)]
    await overwritten()
    renew_now(client)
    await until(lambda: lease.lost)
    await renewed_at_once(client, 2)
    for other in others:
        other.check()
        await other.release()
    with pytest.raises(LeaseLostError):
        await lease.release()


@each_kind
async def test_a_script_error_names_the_resource(
    kind: str, client: Redisson, redis: Redis, overwritten: Callable[[], Any]
) -> None:
    lease = await MAKES[kind](client).acquire()
    await lease.release()
    await redis.set("orders", 1, ex=60)
    await redis.set("semaphore-orders", 1, ex=60)
    await overwritten()
    for ask in (MAKES[kind](client).acquire, MAKES[kind](client).try_acquire):
        with pytest.raises(ScriptError, match="orders") as caught:
            await ask()
        assert "WRONGTYPE" in caught.value.message


@pytest.mark.parametrize("call", ["count_down", "wait", "try_set_count"])
async def test_a_script_error_of_a_latch_names_it(
    call: str, client: Redisson, redis: Redis, overwritten: Callable[[], Any]
) -> None:
    latch = client.get_latch("orders")
    await redis.set("orders", 1, ex=60)
    await overwritten()
    calls: dict[str, Callable[[], Any]] = {
        "count_down": latch.count_down,
        "wait": latch.wait,
        "try_set_count": lambda: latch.try_set_count(2),
    }
    with pytest.raises(ScriptError, match="orders"):
        await calls[call]()


async def test_a_string_where_a_lock_was_is_a_loss_too(client: Redisson, redis: Redis) -> None:
    """The case in the issue: SET k x."""
    lease = await client.get_lock("k").acquire()
    await redis.set("k", "x")
    with pytest.raises(LeaseLostError) as caught:
        await lease.release()
    assert (caught.value.name, lease.lost) == ("k", True)
    assert await redis.get("k") == b"x"
    await redis.delete("k")
