"""A user that lacks what the queue of a read-write lock needs: nothing is half done."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from tests.lua.conftest import Forbid
from tests.lua.test_client_queue_model import PatientScripts
from tests.lua.test_client_queue_refusals import QUEUE_NEEDS, attempt
from tests.lua.test_client_queue_sides import ALIVE, NEW, R1, R2, R3, W1, Sides
from tests.lua.test_client_queue_sides import sides as sides
from tests.support.scripts.calls import LEASE, TOMBSTONE, ask
from tests.support.scripts.client_queue import BOTH_WAYS, HOLDER, owner_of
from tests.support.scripts.read_write import Side

each_way = pytest.mark.parametrize("lease_ms", BOTH_WAYS)
#: What else an acquire uses.
MORE = ["-zcount", "-zrank", "-zrangebyscore", "-hkeys", "-hlen", "-hset", "-set", "-pexpire"]


@pytest_asyncio.fixture
async def poor(poor_redis: Redis) -> Sides:
    """The same lock, as a user that lacks what `forbid` names."""
    return Sides(await PatientScripts.on(poor_redis), poor_redis)


@each_way
@pytest.mark.parametrize("rule", [*QUEUE_NEEDS, "-zcount"])
@pytest.mark.parametrize("held", ["read", "write"])
async def test_a_holder_releases_all_the_same(
    sides: Sides, poor: Sides, forbid: Forbid, rule: str, held: Side, lease_ms: Any
) -> None:
    # Of a crowd of readers there is an index, which needs commands of its own.
    for tombstone_ms in (0, TOMBSTONE, None):
        await ask(sides.redis, "FLUSHDB")
        await sides.in_line(*((W1,) if held == "read" else (R1, R2, W1)), held=held)
        await forbid(rule, sides.rw.channel)
        side = poor.side("", held)
        if tombstone_ms is None:
            assert await side.force_release() == 1
        elif rule == "-zrem" and held == "read":
            # A reader's release takes it out of the index: its acquire asks for that.
            continue
        else:
            assert await side.release(HOLDER, 0, lease_ms, tombstone_ms) is not None
        assert await sides.rw.fields() == {}
        assert "all" in await sides.heard()


@each_way
@pytest.mark.parametrize("rule", [*QUEUE_NEEDS, *MORE])
@pytest.mark.parametrize("asks", [R1, R3, NEW])
@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize("waits", [0, 1])
async def test_a_reader_holds_with_a_lease_or_not_at_all(
    sides: Sides,
    poor: Sides,
    forbid: Forbid,
    rule: str,
    asks: str,
    called: bool,
    waits: int,
    lease_ms: Any,
) -> None:
    await sides.in_line(R1, R2, R3, W1)
    if called:
        await sides.rw.write.release(HOLDER)
    else:
        await ask(sides.redis, "DEL", sides.rw.key)
    await forbid(rule, sides.rw.channel)
    if asks == NEW:
        result = await attempt(poor.comes("read", lease_ms=lease_ms, waits=waits))
    else:
        result = await attempt(poor.asks(asks, lease_ms=lease_ms, waits=waits))
    assert result in ("granted", "busy", "refused")
    owner = owner_of(asks)
    assert await sides.rw.fields() == ({"mode": "read", owner: "1"} if result == "granted" else {})
    if result == "granted":
        assert 0 < await sides.rw.left() <= LEASE
        assert asks not in await sides.waiting()
        await sides.rw.read.release(owner)
    else:
        assert await sides.rw.hold_keys() == []
    # The others still come, in spite of it.
    for _ in range(4):
        if (reply := await sides.asks(R2)) is None:
            break
        await sides.silence()
    assert reply is None


@each_way
@pytest.mark.parametrize("rule", [*QUEUE_NEEDS, *MORE])
async def test_a_writer_that_goes_first_holds_with_a_lease_or_not_at_all(
    sides: Sides, poor: Sides, forbid: Forbid, rule: str, lease_ms: Any
) -> None:
    await sides.in_line(W1, held="read", waits=ALIVE)
    await sides.rw.read.release(HOLDER)
    await forbid(rule, sides.rw.channel)
    result = await attempt(poor.asks(W1, lease_ms=lease_ms, waits=ALIVE))
    held = {"mode": "write", owner_of(W1) + ":write": "1"}
    assert await sides.rw.fields() == (held if result == "granted" else {})
    if result == "granted":
        assert 0 < await sides.rw.left() <= LEASE
        assert await sides.waiting() == []
    else:
        assert result == "refused"
