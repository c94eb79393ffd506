"""A reply is lost, and the repetition of the call is refused.

A refused copy has changed nothing. The one before it may have been executed, or its bytes may still
be under way.
"""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from redisson_py import ScriptError
from redisson_py.testing import FaultProxy
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import Permit, ProxyFactory
from tests.lifecycle.late_bytes import (
    REENTRANT,
    deliver_late,
    executed,
    shortest_lease,
)
from tests.support.kinds import DISTINCT, KINDS, Stage
from tests.support.stragglers import lose_and_keep
from tests.support.streams import answered

each_kind = pytest.mark.parametrize(
    "stage", [name for name in DISTINCT if KINDS[name].servers == 1], indirect=True
)


@each_kind
async def test_a_grant_whose_repetition_is_refused_is_given_back(
    stage: Stage, proxy: ProxyFactory
) -> None:
    link = await proxy()
    far = stage.party(url=link.url)
    await (await far.thing.acquire()).release()
    acquiring = await executed(link, far.thing.acquire())
    assert await stage.out() == 1
    async with stage.no_memory():
        link.pass_through()
        with pytest.raises(ScriptError):
            await acquiring
    await stage.assert_nothing_held(far)


@each_kind
async def test_a_request_that_was_refused_twice_is_not_granted_late(
    stage: Stage, proxy: ProxyFactory, url_of_k: str
) -> None:
    link = await proxy()
    far = stage.party(url=link.url)
    await (await far.thing.acquire()).release()
    async with stage.no_memory():
        late = lose_and_keep(link)
        with pytest.raises(ScriptError):
            await far.thing.try_acquire()
        await answered(far.clients[0])
    await deliver_late(url_of_k, late)
    await stage.assert_nothing_held(far)


@pytest.mark.usefixtures("one_server")
@pytest.mark.parametrize("kind", REENTRANT)
async def test_a_shorter_lease_counts_although_its_repetition_is_refused(
    kind: str, clients: ClientFactory, allow: Permit, redis: Redis
) -> None:
    async with FaultProxy.in_front_of(await allow()) as link:
        client = clients(link.url)
        lease = await REENTRANT[kind](client).acquire()
        extending = await executed(link, lease.extend(10))
        await allow("pexpire")
        link.pass_through()
        with pytest.raises(ScriptError):
            await extending
        left = await shortest_lease(redis) / 1000
        assert lease.remaining < left, "Redis ends it sooner than its holder knows"
        await allow()
        await lease.release()
        await client.aclose()
