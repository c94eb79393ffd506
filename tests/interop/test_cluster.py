"""What is special about clusters: failovers, slots that move, names, and classic pub/sub;
and one failover of Sentinel.

What both sides do on any server, `--server=cluster` shows with the other tests of this folder.
"""

from __future__ import annotations

from typing import Any, Literal

import pytest

from redisson_py import Redisson
from redisson_py.testing import EmbeddedCluster, EmbeddedSentinel, EmbeddedServer
from tests.fixtures.client import ClientFactory
from tests.fixtures.java import RedissonFactory
from tests.fixtures.topologies import ClusterFactory
from tests.interop.both_ways import BothWays
from tests.interop.java import JavaError, JavaObject
from tests.interop.sides import PRIMITIVES, JavaSide

pytestmark = pytest.mark.usefixtures("many_servers", "only_messages")

Mode = Literal["sharded", "classic"]
#: Seconds: longer than any test.
LEASE = 60
#: A slot of each of three masters.
SLOTS = (0, 6000, 16000)


class Services:
    """A client of each side for one cluster, told the same about its messages."""

    def __init__(
        self, cluster: EmbeddedCluster, mode: Mode, ours: Redisson, theirs: JavaObject
    ) -> None:
        self.cluster = cluster
        self.mode = mode
        self.ours = ours
        self.theirs = theirs

    @classmethod
    async def connected(
        cls,
        cluster: EmbeddedCluster,
        mode: Mode,
        clients: ClientFactory,
        redissons: RedissonFactory,
    ) -> Services:
        """Connect them."""
        options: dict[str, Any] = {"lease_time": LEASE}
        # So often Redisson looks for changes of the cluster.
        settings: dict[str, Any] = {"scanInterval": 500}
        if mode == "classic":
            options["sharded_pubsub"] = "off"
            settings["shardedSubscriptionMode"] = "OFF"
        ours = clients(cluster.url, **options)
        return cls(cluster, mode, ours, await redissons(cluster.url, **settings))

    async def waiting(self, *kinds: str) -> BothWays:
        """Return things that are taken and waited for; of all kinds if none is named."""
        primitives = {kind: PRIMITIVES[kind] for kind in kinds or PRIMITIVES}
        scene = await BothWays.made(self.ours, self.theirs, primitives)
        await scene.take_and_wait()
        await self.heard(scene)
        return scene

    async def heard(self, scene: BothWays) -> None:
        """Return when Java listens where the slots are now."""
        await scene.until_java_listens(self.cluster.master_of, sharded=self.mode == "sharded")


async def test_each_is_woken_by_the_other_on_redis_62(
    cluster_factory: ClusterFactory, clients: ClientFactory, redissons: RedissonFactory
) -> None:
    """Both find out that it has no sharded pub/sub."""
    cluster = await cluster_factory("redis62")
    ours, theirs = clients(cluster.url, lease_time=LEASE), await redissons(cluster.url)
    services = Services(cluster, "classic", ours, theirs)
    scene = await services.waiting()
    await scene.give_and_wake()


@pytest.mark.parametrize("how", ["graceful", "kill"])
@pytest.mark.parametrize("mode", ["sharded", "classic"])
async def test_each_is_woken_by_the_other_after_a_failover(
    how: str,
    mode: Mode,
    cluster: EmbeddedCluster,
    clients: ClientFactory,
    complaining_redissons: RedissonFactory,
) -> None:
    if mode == "sharded" and cluster.version < (7,):
        pytest.skip("has no sharded pub/sub")
    services = await Services.connected(cluster, mode, clients, complaining_redissons)
    scene = await services.waiting()
    if how == "graceful":
        for slot in SLOTS:
            await cluster.failover(slot)
    else:
        old = await cluster.master_of(SLOTS[0])
        await cluster.kill(old)
        await cluster.wait_master(SLOTS[0], other_than=old)
    await services.heard(scene)
    await scene.give_and_wake()


async def test_each_is_woken_by_the_other_after_a_slot_moved(
    cluster: EmbeddedCluster, clients: ClientFactory, complaining_redissons: RedissonFactory
) -> None:
    """With `shardedSubscriptionMode: OFF`, which is what docs/redisson.md says to set for it."""
    services = await Services.connected(cluster, "classic", clients, complaining_redissons)
    scene = await services.waiting()
    for pair in scene.pairs:
        await cluster.migrate(pair.name)
    await services.heard(scene)
    await scene.give_and_wake()


async def test_we_are_woken_after_a_slot_moved_and_java_is_not(
    cluster: EmbeddedCluster, clients: ClientFactory, complaining_redissons: RedissonFactory
) -> None:
    """Redisson loses who waits, with sharded pub/sub, through the move of a slot.

    If it wakes them one day, docs/redisson.md need not warn of it any more.
    """
    if cluster.version < (7,):
        pytest.skip("has no sharded pub/sub")
    services = await Services.connected(cluster, "sharded", clients, complaining_redissons)
    # A multi lock is made of locks, and its wait cannot be interrupted.
    scene = await services.waiting(*(kind for kind in PRIMITIVES if kind != "multi lock"))
    ours = BothWays([pair for pair in scene.pairs if not pair.java_waits])
    theirs = [pair for pair in scene.pairs if pair.java_waits]
    for pair in scene.pairs:
        await cluster.migrate(pair.name)
    for pair in theirs:
        await pair.holder.give()
    await ours.give_and_wake()
    for pair in theirs:
        assert isinstance(pair.waiter, JavaSide)
        assert pair.waiting is not None
        assert not pair.waiting.done()
        await pair.waiter.interrupt()
        with pytest.raises(JavaError, match="InterruptedException"):
            await pair.waiting


async def test_names_that_java_cannot_release_are_refused_here(
    cluster: EmbeddedCluster, clients: ClientFactory, redissons: RedissonFactory
) -> None:
    services = await Services.connected(cluster, "classic", clients, redissons)
    await services.ours.ping()
    sent = services.ours.statistics().commands_sent
    for name in ("a}b{c", "a}b", "{}x", "x{"):
        theirs = await services.theirs.get("getLock", name)
        # Java's watchdog keeps it from now on, and nothing of Java's frees it.
        assert await theirs.call("tryLock")
        for method in ("unlock", "forceUnlock"):
            with pytest.raises(JavaError, match="CROSSSLOT"):
                await theirs.call(method)
        with pytest.raises(ValueError, match="cannot be used in a cluster") as refused:
            services.ours.get_lock(name)
        assert repr(name) in str(refused.value)
    # A latch has a channel that ignores the name's own hash tag.
    theirs = await services.theirs.get("getCountDownLatch", "{x}y")
    with pytest.raises(JavaError, match="CROSSSLOT"):
        await theirs.call("trySetCount", 1)
    with pytest.raises(ValueError, match="cannot be used in a cluster"):
        services.ours.get_latch("{x}y")
    assert services.ours.statistics().commands_sent == sent


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
