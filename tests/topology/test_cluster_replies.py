"""Replies that are lost, late or double, while the slot moves or its master is replaced."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Coroutine
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import Lease, LeaseLostError, Redisson
from redisson_py.testing import EmbeddedCluster, EmbeddedServer, FaultProxy
from tests.fixtures.client import ClientFactory
from tests.support.kinds import Kind
from tests.support.lost_reply_calls import CALLS, KINDS, LEASE, Call, holders
from tests.support.streams import answered

#: A renewal cannot be timed, and a re-entry is much like a partial release.
TIMED = {name: call for name, call in CALLS.items() if name not in ("renewal", "re-entry")}
#: Each way of changing what is held, where a test takes long.
SOME = {name: CALLS[name] for name in ("acquire", "partial release")}
#: Write locks and fenced locks ask as plain locks do; `test_lost_replies` has them all.
FEW = {name: KINDS[name] for name in ("lock", "fair_lock", "read_lock")}
PERMITS = 3


class Veil:
    """A proxy in front of each node."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self.links = {node: FaultProxy(node.host, node.port) for node in cluster.nodes}

    def address_map(self) -> dict[tuple[str, int], tuple[str, int]]:
        """Return where a client reaches each node."""
        links = self.links.items()
        return {(node.host, node.port): (link.host, link.port) for node, link in links}

    async def master(self) -> EmbeddedServer:
        """Return the node that serves `k`."""
        return await self.cluster.master_of("k")

    async def link(self) -> FaultProxy:
        """Return the proxy in front of that node."""
        return self.links[await self.master()]


@pytest.fixture
async def veil(cluster: EmbeddedCluster) -> AsyncIterator[Veil]:
    """Proxies in front of all nodes."""
    veil = Veil(cluster)
    async with AsyncExitStack() as stack:
        for link in veil.links.values():
            await stack.enter_async_context(link)
        yield veil


@pytest.fixture
async def far(veil: Veil, clients: ClientFactory) -> AsyncIterator[Redisson]:
    """A client behind the proxies, connected everywhere."""
    seeds = ",".join(f"{link.host}:{link.port}" for link in veil.links.values())
    options: dict[str, Any] = {"address_map": veil.address_map(), "sync_replicas": 0}
    client = clients(f"redis+cluster://{seeds}", lease_time=3, **options)
    await answered(client)
    yield client
    # Before the proxies go.
    await client.aclose()


async def give_back(leases: list[Lease]) -> None:
    """Release what is still held."""
    for lease in reversed(leases):
        with suppress(LeaseLostError):
            await lease.release()


async def during(disturbance: Coroutine[Any, Any, None], call: Awaitable[None]) -> None:
    """Have something happen while a call waits; both end."""
    other = asyncio.create_task(disturbance)
    try:
        async with asyncio.timeout(60):
            await call
            await other
    finally:
        other.cancel()


async def move_and_pass(veil: Veil) -> None:
    """Move the slot when a reply has been lost, and lose none from then on."""
    link = await veil.link()
    before = link.triggered
    await link.wait_until(lambda link: link.triggered > before)
    await veil.cluster.migrate("k")
    for link in veil.links.values():
        link.pass_through()


async def assert_once(call: Call, leases: list[Lease], veil: Veil) -> None:
    """Fail unless a call had its effect, and had it once."""
    async with Redis.from_url((await veil.master()).url) as redis:
        held = {leases[0].owner: call.after} if call.after else {}
        assert await holders(redis) == held
        if call.after:
            left = await redis.pttl("k") / 1000
            assert call.lease / 2 < left <= call.lease
        for lease in leases if call.after else ():
            lease.check()
        await give_back(leases)
        assert await holders(redis) == {}


@pytest.mark.parametrize("kind", FEW.values(), ids=FEW)
@pytest.mark.parametrize("call", TIMED.values(), ids=TIMED)
async def test_a_reply_is_lost_and_the_slot_has_moved(
    veil: Veil, far: Redisson, call: Call, kind: Kind
) -> None:
    lock = kind.one(far)
    leases = await call.prepare(lock)
    link = await veil.link()
    link.refuse()
    link.cut_after_execution(b"EVALSHA")

    async def disturb() -> None:
        await link.wait_until(lambda link: link.triggered == 1)
        await veil.cluster.migrate("k")

    # In this task, which is the owner.
    await during(disturb(), call.make(far, lock, leases))
    await assert_once(call, leases, veil)
    assert far.statistics().losses == (call is CALLS["force_release"])


@pytest.mark.parametrize("kind", FEW.values(), ids=FEW)
@pytest.mark.parametrize("call", SOME.values(), ids=SOME)
async def test_replies_are_lost_again_and_again_while_the_slot_moves(
    veil: Veil, far: Redisson, call: Call, kind: Kind
) -> None:
    """The errors that say where it is are lost as well."""
    lock = kind.one(far)
    # Once away and once back.
    for _ in range(2):
        leases = await call.prepare(lock)
        for link in veil.links.values():
            link.cut_after_execution(b"EVALSHA", sys.maxsize)
        await during(move_and_pass(veil), call.make(far, lock, leases))
        await assert_once(call, leases, veil)


@pytest.mark.parametrize("kind", FEW.values(), ids=FEW)
@pytest.mark.parametrize("call", SOME.values(), ids=SOME)
async def test_a_call_comes_late_when_the_slot_is_back(
    veil: Veil, far: Redisson, clients: ClientFactory, call: Call, kind: Kind
) -> None:
    """Its client had it done elsewhere meanwhile; by now somebody else holds."""
    client = clients(veil.cluster.url)
    lock = kind.one(far)
    leases = await call.prepare(lock)
    home, link = await veil.master(), await veil.link()
    link.hold()

    async def disturb() -> None:
        await link.wait_until(lambda link: link.held >= 1)
        await veil.cluster.migrate("k")

    # Given up after a while, and asked at the new place.
    await during(disturb(), call.make(far, lock, leases))
    await give_back(leases)
    newer = await kind.rival_of(client).acquire(lease_time=LEASE, timeout=20)
    await veil.cluster.migrate("k", home)
    link.release_held()
    await link.wait_until(lambda link: link.held == 0)
    await answered(far)
    await answered(client)
    async with Redis.from_url(home.url) as redis:
        assert await holders(redis) == {newer.owner: 1}
        assert LEASE / 2 < await redis.pttl("k") / 1000 <= LEASE
    newer.check()
    await newer.release()


async def test_replies_are_lost_and_the_master_is_replaced(veil: Veil, far: Redisson) -> None:
    locks = [
        far.get_lock("{k}lock"),
        far.get_fenced_lock("{k}fenced"),
        far.get_fair_lock("{k}fair"),
        far.get_read_write_lock("{k}read").read_lock(),
        far.get_read_write_lock("{k}write").write_lock(),
    ]
    semaphore = far.get_semaphore("{k}semaphore", PERMITS)
    expirable = far.get_permit_expirable_semaphore("{k}semaphore_expirable", PERMITS)
    await semaphore.try_set_permits(PERMITS)
    await expirable.try_set_permits(PERMITS)
    barrier_and_latch = far.get_latch("k", 5)
    await barrier_and_latch.try_set_count(5)

    async def across(*calls: Any) -> list[Any]:
        """Lose the replies of all of these, and have them repeated at the next master."""
        link = await veil.link()
        before = link.triggered
        link.refuse()
        link.cut_after_execution(b"EVALSHA")
        asking = [asyncio.create_task(call()) for call in calls]
        await link.wait_until(lambda link: link.triggered > before)
        await veil.cluster.failover("k")
        done: list[Any] = await asyncio.wait_for(asyncio.gather(*asking), 60)
        link.pass_through()
        return done

    *leases, left = await across(
        *(partial(lock.acquire, lease_time=LEASE) for lock in locks),
        semaphore.acquire,
        expirable.acquire,
        barrier_and_latch.count_down,
    )
    assert left == 4
    assert await semaphore.available() == await expirable.available() == PERMITS - 1
    assert [await lock.locked() for lock in locks] == [True] * len(locks)
    *_, left = await across(*(lease.release for lease in leases), barrier_and_latch.count_down)
    assert left == 3
    assert await semaphore.available() == await expirable.available() == PERMITS
    assert [await lock.locked() for lock in locks] == [False] * len(locks)
    assert await barrier_and_latch.delete()
    assert far.statistics().losses == 0
