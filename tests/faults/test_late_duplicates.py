"""Bytes of an old connection are executed late: no ghost, and no harm to a newer hold."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from redis.asyncio import Redis

from redisson_py import ConnectionLostError, Lease, LeaseLostError, Redisson
from redisson_py.testing import EmbeddedServer, FaultProxy
from tests.fixtures.client import ClientFactory
from tests.support.kinds import Kind
from tests.support.leases import renew_now
from tests.support.lost_reply_calls import (
    CALLS,
    KINDS,
    LEASE,
    WATCHED,
    Call,
    holders,
    notice_soon,
)
from tests.support.stragglers import Stragglers, lose_and_keep
from tests.support.streams import answered

pytestmark = pytest.mark.heart

#: A renewal cannot be timed into a buffer: the connection is given up for idle first.
TIMED = {name: call for name, call in CALLS.items() if name != "renewal"}
#: A force_release that runs for the first time frees whoever holds then, as it was asked to.
OWNED = {name: call for name, call in TIMED.items() if name != "force_release"}


@pytest.fixture
async def far(
    clients: ClientFactory, link: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> Redisson:
    """A client behind the proxy, connected, which soon notices that a reply is lost."""
    notice_soon(monkeypatch)
    client = clients(link.url, lease_time=WATCHED)
    await answered(client)
    return client


async def give_back(leases: list[Lease]) -> None:
    """Release what is still held."""
    for lease in reversed(leases):
        with suppress(LeaseLostError):
            await lease.release()


async def give_up(asking: asyncio.Task[None]) -> None:
    """Cancel a call half-way."""
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def assert_unharmed(newer: Lease, redis: Redis) -> None:
    """Fail unless it is held once, alone, and for as long as it was."""
    assert await holders(redis) == {newer.owner: 1}
    assert LEASE / 2 < await redis.pttl("k") / 1000 <= LEASE
    newer.check()


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_call_that_was_asked_twice_comes_once_more(
    call: Call,
    kind: Kind,
    far: Redisson,
    link: FaultProxy,
    client: Redisson,
    redis: Redis,
    url_of_k: str,
) -> None:
    lock = kind.one(far)
    leases = await call.prepare(lock)
    sent = lose_and_keep(link)
    await call.make(far, lock, leases)
    # A busy server may answer only after the client gave the connection up.
    await link.wait_until(lambda link: link.triggered == 1)
    assert len(sent) == 1
    await give_back(leases)
    newer = await kind.rival_of(client).acquire(lease_time=LEASE)
    tokens = await redis.get("redisson_lock_token:{k}")
    async with Stragglers(url_of_k) as late:
        await late.deliver(sent)
        await assert_unharmed(newer, redis)
        assert await redis.get("redisson_lock_token:{k}") == tokens
        await newer.release()
        await late.deliver(sent)
    assert await holders(redis) == {}


async def test_an_acquire_delivered_again_after_its_hold_was_lost_takes_nothing(
    far: Redisson, link: FaultProxy, client: Redisson, redis: Redis, url_of_k: str
) -> None:
    sent = lose_and_keep(link)
    lease = await far.get_lock("k").acquire()
    # A busy server may answer only after the client gave the connection up.
    await link.wait_until(lambda link: link.triggered == 1)
    assert len(sent) == 1
    assert await client.get_lock("k").force_release()
    renew_now(far)
    await lease.wait_lost()
    await answered(far)
    async with Stragglers(url_of_k) as late:
        await late.deliver(sent)
    assert await holders(redis) == {}
    await give_back([lease])


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("call", OWNED.values(), ids=OWNED)
async def test_the_network_delivers_what_a_client_sent_before_it_closed(
    call: Call, kind: Kind, far: Redisson, link: FaultProxy, client: Redisson, redis: Redis
) -> None:
    lock = kind.one(far)
    leases: list[Lease] = []

    async def ask() -> None:
        leases.extend(await call.prepare(lock))
        link.hold()
        await call.make(far, lock, leases)

    asking = asyncio.create_task(ask())
    await link.wait_until(lambda link: link.held > 0)
    await give_up(asking)
    await far.aclose()
    await kind.one(client).force_release()
    newer = await kind.rival_of(client).acquire(lease_time=LEASE)
    link.release_held()
    await link.wait_until(lambda link: link.connections == 0)
    await assert_unharmed(newer, redis)
    await newer.release()
    assert await holders(redis) == {}


async def test_an_acquire_timed_out_on_a_stopped_server_leaves_no_ghost(
    clients: ClientFactory, own_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    notice_soon(monkeypatch)
    far, other = clients(own_server.url), clients(own_server.url)
    await answered(far)
    await own_server.pause()
    with pytest.raises(ConnectionLostError) as caught:
        await far.get_lock("k").acquire(timeout=1)
    assert caught.value.maybe_held
    await own_server.resume()
    async with other.get_lock("k").hold(timeout=20):
        pass
    await answered(far)
    assert not await other.get_lock("k").locked()
