"""A message that the server refuses to publish: the call is an error and has changed nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.lua.conftest import Forbid
from tests.support.scripts.barrier import BarrierScripts
from tests.support.scripts.calls import Scripts, everything
from tests.support.scripts.latch import LatchScripts


@pytest_asyncio.fixture
async def refused(poor_scripts: Scripts, forbid: Forbid) -> Scripts:
    """The scripts, run by a user that may publish nothing."""
    await forbid("resetchannels")
    return poor_scripts


async def assert_nothing_changed(call: Awaitable[object], redis: Redis) -> None:
    before = await everything(redis)
    with pytest.raises(ResponseError, match="channel"):
        await call
    assert await everything(redis) == before


LATCH_CALLS: dict[str, tuple[int, Callable[[LatchScripts], Awaitable[object]]]] = {
    "set": (0, lambda latch: latch.set(3)),
    "count_down to zero": (1, lambda latch: latch.down()),
    "count_down of the first count": (0, lambda latch: latch.down(counts=3)),
    "count of the first count": (0, lambda latch: latch.count(3)),
    "delete": (3, lambda latch: latch.delete()),
}


@pytest.mark.parametrize(("count", "call"), LATCH_CALLS.values(), ids=LATCH_CALLS)
async def test_a_latch_is_as_it_was(
    count: int,
    call: Callable[[LatchScripts], Awaitable[object]],
    scripts: Scripts,
    refused: Scripts,
    redis: Redis,
) -> None:
    latch = LatchScripts(scripts)
    if count:
        await latch.set(count, caller="b")
    await assert_nothing_changed(call(LatchScripts(refused)), redis)
    await latch.delete(caller="b")


BARRIER_CALLS: dict[str, Callable[[BarrierScripts], Awaitable[object]]] = {
    "the last arrival": lambda barrier: barrier.wait("c"),
    "an arrival that ends sooner": lambda barrier: barrier.wait("c", parties=4, lease_ms=1000),
    "leave": lambda barrier: barrier.leave("a"),
    "abort": lambda barrier: barrier.abort(),
    "reset": lambda barrier: barrier.reset(),
}


@pytest.mark.parametrize("name", BARRIER_CALLS)
async def test_a_barrier_is_as_it_was(
    name: str, scripts: Scripts, refused: Scripts, redis: Redis
) -> None:
    barrier = BarrierScripts(scripts, parties=4 if "sooner" in name else 3)
    await barrier.fill("a", "b")
    await assert_nothing_changed(BARRIER_CALLS[name](BarrierScripts(refused)), redis)
    assert {*(await barrier.look()).waiting} == {"a", "b"}


async def test_a_death_that_cannot_be_announced_changes_nothing(
    scripts: Scripts, refused: Scripts, redis: Redis
) -> None:
    barrier = BarrierScripts(scripts)
    seen, _ = await barrier.fill("a", "b")
    await barrier.die("b")
    look = BarrierScripts(refused).wait("a", str(seen.generation))
    await assert_nothing_changed(look, redis)
    assert (await barrier.look()).broken
