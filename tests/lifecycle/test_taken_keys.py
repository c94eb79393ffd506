"""Keys that somebody overwrote with another type: the hold is lost, and the error names it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import LeaseLostError, Redisson, ScriptError
from tests.fixtures.client import ClientFactory
from tests.support.waiting import until

Make = Callable[[Redisson], Any]

#: Everything that can be held, under a name that errors must contain.
MAKES: dict[str, Make] = {
    "lock": lambda client: client.get_lock("orders"),
    "non_reentrant_lock": lambda client: client.get_lock("orders", reentrant=False),
    "fenced_lock": lambda client: client.get_fenced_lock("orders"),
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
KINDS = pytest.mark.parametrize("kind", MAKES)


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


@KINDS
async def test_a_release_finds_the_hold_taken(
    kind: str, client: Redisson, overwritten: Callable[[], Any]
) -> None:
    lease = await MAKES[kind](client).acquire()
    await overwritten()
    with pytest.raises(LeaseLostError, match="orders") as caught:
        await lease.release()
    assert caught.value.reason == "taken"  # type: ignore[attr-defined,unused-ignore]
    assert "taken" in str(caught.value)
    assert lease.lost
    assert lease.remaining == 0
    assert client.statistics().held_leases == 0


@KINDS
async def test_an_extension_finds_the_hold_taken(
    kind: str, client: Redisson, overwritten: Callable[[], Any]
) -> None:
    lease = await MAKES[kind](client).acquire()
    await overwritten()
    with pytest.raises(LeaseLostError, match="orders") as caught:
        await lease.extend(20)
    assert caught.value.reason == "taken"  # type: ignore[attr-defined,unused-ignore]
    assert lease.lost
    with pytest.raises(LeaseLostError):
        lease.check()
    async with asyncio.timeout(5):
        await lease.wait_lost()
    with pytest.raises(LeaseLostError):
        await lease.release()


@KINDS
async def test_the_end_of_a_block_finds_the_hold_taken(
    kind: str, client: Redisson, overwritten: Callable[[], Any]
) -> None:
    with pytest.raises(LeaseLostError) as caught:
        async with MAKES[kind](client) as lease:
            await overwritten()
    assert caught.value.reason == "taken"  # type: ignore[attr-defined,unused-ignore]
    assert lease.lost


@pytest.mark.parametrize(
    "kind", [kind for kind in MAKES if "semaphore" not in kind and not kind.startswith("non")]
)
async def test_a_partial_release_finds_the_hold_taken(
    kind: str, client: Redisson, overwritten: Callable[[], Any]
) -> None:
    lock = MAKES[kind](client)
    outer, inner = await lock.acquire(), await lock.acquire()
    await overwritten()
    with pytest.raises(LeaseLostError) as caught:
        await inner.release()
    assert caught.value.reason == "taken"  # type: ignore[attr-defined,unused-ignore]
    assert outer.lost
    with pytest.raises(LeaseLostError):
        await outer.release()


@KINDS
async def test_a_renewal_finds_the_hold_taken_and_keeps_the_others(
    kind: str, clients: ClientFactory, overwritten: Callable[[], Any]
) -> None:
    client = clients(lease_time=3)
    lease = await MAKES[kind](client).acquire()
    others = [await client.get_lock(f"k{n}").acquire() for n in range(5)]
    await overwritten()
    await until(lambda: lease.lost, 20)
    renewals = client.statistics().renewals
    await until(lambda: client.statistics().renewals >= renewals + 2, 20)
    for other in others:
        other.check()
        await other.release()
    with pytest.raises(LeaseLostError):
        await lease.release()


@KINDS
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
