"""A reply is lost after the script ran: the effect is exactly once, the answer right."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from redis.asyncio import Redis

from redisson_py import LeaseLostError, Redisson
from redisson_py.locks.lock import ServerLock
from redisson_py.testing import FaultProxy
from tests.faults.conftest import LOSSES, Loss
from tests.fixtures.client import ClientFactory
from tests.support.kinds import Kind
from tests.support.lost_reply_calls import (
    CALLS,
    KINDS,
    LEASE,
    WATCHED,
    Call,
    holders,
    notice_soon,
)
from tests.support.streams import answered
from tests.support.waiting import until_listening

pytestmark = [pytest.mark.also("cluster", "sentinel", "cluster+sync"), pytest.mark.heart]

TOKENS = "redisson_lock_token:{k}"
#: Above the server's microseconds, so that the next token is known.
LAST_TOKEN = 2**52


@pytest.fixture
def far(clients: ClientFactory, link: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> Redisson:
    """A client behind the proxy, which soon notices that a reply is lost."""
    notice_soon(monkeypatch)
    return clients(link.url, lease_time=WATCHED)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    """What kind of lock `k` is."""
    return KINDS[request.param]


@pytest.fixture
def lock(far: Redisson, kind: Kind) -> ServerLock:
    """The lock of the client behind the proxy."""
    made: ServerLock = kind.one(far)
    return made


@pytest.fixture(params=CALLS)
def call(request: pytest.FixtureRequest) -> Call:
    """What is asked when the reply is lost."""
    return CALLS[request.param]


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
async def test_the_effect_is_exactly_once(
    call: Call, lock: ServerLock, loss: Loss, far: Redisson, link: FaultProxy, redis: Redis
) -> None:
    await answered(far)
    leases = await call.prepare(lock)
    async with loss(link):
        await call.make(far, lock, leases)
    left = await redis.pttl("k") / 1000
    assert await holders(redis) == ({leases[0].owner: call.after} if call.after else {})
    if call.after:
        # Set once from now, not added up, and not the lease of the call before.
        assert call.lease / 2 < left <= call.lease
        for lease in reversed(leases):
            assert not lease.lost
            await lease.release()
    elif leases:
        with pytest.raises(LeaseLostError):
            await leases[0].release()
    assert await holders(redis) == {}
    assert far.statistics().connections >= 2


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
async def test_a_grant_takes_one_range_of_tokens(
    loss: Loss, far: Redisson, link: FaultProxy, redis: Redis
) -> None:
    lock = far.get_fenced_lock("k")
    await redis.set(TOKENS, LAST_TOKEN)
    async with loss(link):
        lease = await lock.acquire(lease_time=LEASE)
    assert lease.token == LAST_TOKEN + 1
    assert await redis.get(TOKENS) == str(LAST_TOKEN + lock._ownership.commands.tokens).encode()
    async with loss(link):
        inner = await lock.acquire(lease_time=LEASE)
    assert inner.token == lease.token
    await inner.release()
    await lease.release()


async def test_a_repetition_harms_no_newer_hold(
    call: Call,
    kind: Kind,
    lock: ServerLock,
    far: Redisson,
    link: FaultProxy,
    client: Redisson,
    redis: Redis,
) -> None:
    async def ask() -> None:
        leases = await call.prepare(lock)
        link.refuse()
        link.cut_after_execution(b"EVALSHA")
        try:
            await call.make(far, lock, leases)
        finally:
            for lease in leases:
                with suppress(LeaseLostError):
                    await lease.release()

    await answered(far)
    asking = asyncio.create_task(ask())
    await link.wait_until(lambda link: link.triggered == 1)
    freed = await kind.one(client).force_release()
    assert freed is (call.after > 0)
    newer = await kind.rival_of(client).acquire(lease_time=LEASE)
    link.pass_through()
    if call is CALLS["acquire"]:
        # Told that it is busy, it waits like anybody.
        await until_listening(far)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    elif call.after:
        with pytest.raises(LeaseLostError):
            await asking
    else:
        await asking
    assert await holders(redis) == {newer.owner: 1}
    assert LEASE / 2 < await redis.pttl("k") / 1000 <= LEASE
    await newer.release()


# Two connections say nothing of the order.
@pytest.mark.usefixtures("unsynced")
@pytest.mark.parametrize("held", [False, True], ids=["free", "held by another"])
async def test_force_release_asked_twice_agrees_with_a_grant_in_between(
    held: bool, far: Redisson, link: FaultProxy, client: Redisson, redis: Redis
) -> None:
    # Both replies are lost, so the question and then the force are repeated. The question is
    # granted now; the force answers for its first run and must not be taken for that grant's.
    older = await client.get_lock("k").acquire(lease_time=LEASE) if held else None
    await answered(far)
    link.hold()
    asking = asyncio.create_task(far.get_lock("k").acquire(timeout=30, lease_time=LEASE))
    await link.wait_until(lambda link: link.held > 0)
    asked = link.held
    forcing = asyncio.create_task(far.get_lock("k").force_release())
    await link.wait_until(lambda link: link.held > asked)
    link.cut_after_execution(b"EVALSHA")
    link.release_held()
    lease = await asking
    assert await forcing
    await answered(far)
    assert await holders(redis) == ({} if lease.lost else {lease.owner: 1})
    assert not lease.lost
    await lease.release()
    if older is not None:
        with pytest.raises(LeaseLostError):
            await older.release()
