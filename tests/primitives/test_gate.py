"""The example of a primitive has all that locks have: one acquire, one release, every way out."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from redisson_py import AcquireTimeoutError, LeaseLostError, Redisson
from tests.fixtures.client import ClientFactory
from tests.primitives.gate import Gate, get_gate
from tests.support.leases import renew_now
from tests.support.waiting import until_async, until_waiting


@pytest.fixture
def gate(client: Redisson) -> Gate:
    return get_gate(client, "k")


@pytest.fixture
def far(clients: ClientFactory) -> Gate:
    """The same gate for another client."""
    return get_gate(clients(), "k")


async def test_one_task_of_two_clients_is_inside_at_a_time(gate: Gate, far: Gate) -> None:
    inside = 0

    async def work(side: Gate) -> None:
        nonlocal inside
        async with side:
            inside += 1
            await asyncio.sleep(0)
            assert inside == 1
            inside -= 1

    await asyncio.gather(*[work(side) for _ in range(20) for side in (gate, far)])
    assert not await gate.locked()


async def test_nobody_gets_in_while_it_is_closed(client: Redisson, gate: Gate, far: Gate) -> None:
    lease = await gate.acquire()
    await far.close()
    await lease.release()
    assert await gate.try_acquire() is None
    with pytest.raises(AcquireTimeoutError):
        await gate.acquire(timeout=0.05)
    waiting = [asyncio.create_task(gate.acquire()) for _ in range(2)]
    await until_waiting(client, 2)
    await far.open()
    for done in asyncio.as_completed(waiting):
        await (await done).release()


async def test_a_closed_gate_keeps_out_the_next_task_of_the_same_client(
    client: Redisson, gate: Gate
) -> None:
    async with gate:
        waiting = asyncio.create_task(gate.acquire())
        await until_waiting(client, 1)
        await gate.close()
    assert not await gate.locked()
    assert not waiting.done()
    await gate.open()
    await (await waiting).release()


@pytest.mark.parametrize("closed", [False, True])
async def test_a_cancelled_waiter_leaves_nothing(
    client: Redisson, gate: Gate, far: Gate, closed: bool
) -> None:
    if closed:
        await far.close()
    else:
        await far.acquire()
    waiting = asyncio.create_task(gate.acquire())
    await until_waiting(client, 1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await (far.open() if closed else far.release())
    async with far:
        assert (await far.inspect()).waiters == ()


async def test_an_acquire_cancelled_on_its_way_holds_nothing(gate: Gate, far: Gate) -> None:
    for steps in range(6):
        acquiring = asyncio.create_task(gate.acquire())
        for _ in range(steps):
            await asyncio.sleep(0)
        if acquiring.cancel():
            with pytest.raises(asyncio.CancelledError):
                await acquiring
        else:
            await acquiring.result().release()
        async with far.hold(timeout=30):
            pass


async def test_a_lost_hold_cancels_its_block(client: Redisson, gate: Gate, redis: Redis) -> None:
    with pytest.raises(LeaseLostError) as lost:
        async with gate:
            await redis.delete("k")
            renew_now(client)
            await asyncio.Event().wait()
    assert lost.value.reason == "taken"


async def test_who_is_inside_does_not_get_in_again(gate: Gate) -> None:
    async with gate:
        with pytest.raises(RuntimeError, match="not reentrant"):
            await gate.acquire()
        assert await gate.hold_count() == 1


async def test_it_excludes_a_lock_of_the_same_name(client: Redisson, gate: Gate) -> None:
    async with gate:
        assert await client.get_lock("k").try_acquire() is None
    await until_async(lambda: _is_free(gate))


async def _is_free(gate: Gate) -> bool:
    return not await gate.locked()
