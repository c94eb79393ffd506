"""Java and Python on one master that Sentinel names, before and after a failover."""

from __future__ import annotations

import pytest

from redisson_py.testing import EmbeddedSentinel, EmbeddedServer
from tests.fixtures.client import ClientFactory
from tests.fixtures.java import RedissonFactory
from tests.interop.both_ways import BothWays

pytestmark = [pytest.mark.usefixtures("many_servers", "only_messages")]


async def test_each_is_woken_by_the_other_before_and_after_a_failover(
    own_sentinel: EmbeddedSentinel,
    clients: ClientFactory,
    complaining_redissons: RedissonFactory,
) -> None:
    # Longer than the test.
    client = clients(own_sentinel.url, lease_time=60)
    # The replicas of a new master come to it later, and until then Redisson refuses to unlock.
    redisson = await complaining_redissons(
        own_sentinel.url, scanInterval=500, checkLockSyncedSlaves=False
    )
    before = await BothWays.made(client, redisson)
    await before.take_and_wait()
    await before.give_and_wake()
    after = await BothWays.made(client, redisson, prefix="another ")
    await after.take_and_wait()
    old = await own_sentinel.master()
    await own_sentinel.kill(old)
    new = await own_sentinel.wait_master(other_than=old)

    async def master_of(name: str) -> EmbeddedServer:
        return new

    await after.until_java_listens(master_of)
    await after.give_and_wake()
