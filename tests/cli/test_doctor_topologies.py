"""`redisson-py doctor` on real clusters, Sentinels and lists of servers that have each fault."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from redisson_py.testing import EmbeddedCluster, EmbeddedServer
from tests.cli.doctor_report import examine, printed
from tests.fixtures.redis_server import PASSWORD, documented_rules, url_of_user
from tests.fixtures.topologies import ClusterFactory, ReplicasFactory, SentinelFactory
from tests.support.waiting import until_async

#: As docs/topologies.md has it, "Settings of the servers".
GOOD = {"repl-timeout": "15"}
GOOD_CLUSTER = {**GOOD, "cluster-require-full-coverage": "no"}


@pytest.mark.parametrize("kind", ["valkey", "redis7", "redis62"])
async def test_good_cluster_has_no_finding_but_ok_and_an_odd_node_is_named(
    kind: str, cluster_factory: ClusterFactory
) -> None:
    cluster = await cluster_factory(kind, node_timeout=3.0, config=GOOD_CLUSTER)
    await keep_data(cluster.nodes)
    report = await examine(cluster.url, "--strict")
    assert report.checks("warning") == set(), report.found(*report.checks("warning"))
    assert report.status == 0
    assert report.checks("ok") == {each["check"] for each in report.document["findings"]}
    assert report.found("slots") == "all have a master (3 masters)"
    assert len(report.one("version")["where"]) == 6
    assert len(report.one("scripts")["where"]) == 3
    # A finding names the servers that it is about.
    odd = cluster.nodes[1]
    await odd.execute("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    rows = (await printed(cluster.url)).splitlines()
    assert rows[0].endswith("(a cluster)")
    (eviction,) = [row for row in rows if "allkeys-lru" in row]
    assert eviction.endswith(f"({odd.address})")
    (version,) = [row for row in rows if " version " in row]
    name = "Valkey" if kind == "valkey" else "Redis"
    assert version.endswith(f"{name} " + ".".join(map(str, odd.version)))


@pytest.mark.parametrize("kind", ["valkey", "redis62"])
async def test_documented_permissions_of_a_cluster_are_enough(
    kind: str, cluster_factory: ClusterFactory
) -> None:
    cluster = await cluster_factory(kind, node_timeout=3.0, config=GOOD_CLUSTER)
    await keep_data(cluster.nodes)
    sharded = ["--sharded-pubsub", "off"] if kind == "redis62" else []
    rules = documented_rules("", "--cluster", "--sync", *sharded)
    url = await allow(cluster, *rules)
    report = await examine(url)
    assert report.status == 0, report.document
    assert report.checks("warning") == set()
    assert report.checks("not visible") == {"settings"}
    assert "cluster-node-timeout" in report.found("settings")


async def test_user_that_one_node_lacks_is_found(cluster_factory: ClusterFactory) -> None:
    cluster = await cluster_factory("valkey")
    url = await allow(cluster, *documented_rules("", "--cluster", "--sync"))
    (replica,) = await cluster.replicas_of(cluster.nodes[0])
    await cluster.nodes[1].execute("ACL", "SETUSER", "app", "-wait")
    await replica.execute("ACL", "DELUSER", "app")
    report = await examine(url)
    assert report.status == 1
    (bad,) = [each for each in report.of("permissions") if each["level"] == "problem"]
    assert bad["found"] == "the user 'app' lacks +wait"
    assert bad["where"] == [cluster.nodes[1].address]
    assert "redisson-py acl --cluster --sync" in bad["todo"]
    (refused,) = [each for each in report.of("connection") if each["level"] != "ok"]
    assert "refused the credentials" in refused["found"]
    assert refused["where"] == [replica.address]
    # Clients notice it after a failover only.
    assert refused["level"] == "warning"


async def test_slot_without_a_master_is_a_problem(cluster_factory: ClusterFactory) -> None:
    cluster = await cluster_factory("valkey", replicas=0)
    for node in cluster.nodes:
        await node.execute("CLUSTER", "DELSLOTS", 7)
    report = await examine(cluster.url, timeout=8)
    assert report.status == 1
    assert report.found("slots") == "1 of 16384 have no master: 7"
    assert report.found("replicas") == "none: no server takes over when the master fails"
    # The embedded cluster is quicker than production should be.
    assert "1500 ms" in report.found("node timeout")
    assert report.level("node timeout") == report.level("coverage") == "warning"
    # All slots stop, as the finding says.
    assert report.level("lock") == "problem"


async def test_node_that_is_named_alone_and_master_that_is_away_are_problems(
    cluster_factory: ClusterFactory,
) -> None:
    # Nobody takes over: the slots stay with the dead.
    cluster = await cluster_factory("valkey", replicas=0, config=GOOD_CLUSTER)
    report = await examine(cluster.nodes[0].url)
    assert report.status == 1
    assert report.found("role") == "a node of a cluster, which refuses the other nodes' keys"
    dead = cluster.nodes[2]
    await cluster.kill(dead)
    report = await examine(cluster.url, timeout=8)
    assert report.status == 1
    (bad,) = [each for each in report.of("connection") if each["level"] == "problem"]
    assert bad["where"] == [dead.address]


async def test_detection_that_takes_long_is_a_warning(sentinel_factory: SentinelFactory) -> None:
    servers = await sentinel_factory("valkey", replicas=2, down_after=30.0, config=GOOD)
    await keep_data(servers.nodes)
    report = await examine(servers.url)
    assert report.status == 0
    assert report.level("sentinel") == "ok"
    assert report.checks("warning") == {"down-after", "min-replicas"}
    assert "30000 ms" in report.found("down-after")
    master = await servers.master()
    await master.execute("CONFIG", "SET", "min-replicas-to-write", 1)
    for sentinel in servers.sentinels:
        await sentinel.execute(
            "SENTINEL", "SET", servers.service, "down-after-milliseconds", "3000"
        )
    report = await examine(servers.url, "--strict")
    assert report.status == 0, report.document
    assert len(report.one("version")["where"]) == 3


async def test_unknown_service_is_69_and_too_few_sentinels_are_a_problem(
    sentinel_factory: SentinelFactory,
) -> None:
    servers = await sentinel_factory("valkey", replicas=1, down_after=60.0)
    report = await examine(servers.url.replace(f"/{servers.service}", "/other"), timeout=8)
    assert report.status == 69
    assert {each["level"] for each in report.of("sentinel")} == {"problem"}
    assert "No such master" in report.of("sentinel")[0]["found"]
    await servers.kill(servers.sentinels[0])
    await servers.kill(servers.sentinels[1])
    report = await examine(servers.url, timeout=8)
    assert report.status == 1
    (bad,) = [each for each in report.of("sentinel") if each["level"] == "problem"]
    assert bad["found"] == "1 of 3 answer, the quorum is 2: no failover is possible"
    assert len([each for each in report.of("sentinel") if each["level"] == "warning"]) == 2


async def test_writes_that_wait_for_replicas_are_a_problem(
    replicas_factory: ReplicasFactory,
) -> None:
    servers = await replicas_factory("valkey", replicas=1, config=GOOD)
    await keep_data(servers.nodes)
    master, replica = servers.nodes
    await master.execute("CONFIG", "SET", "min-replicas-to-write", 2)
    report = await examine(servers.url, timeout=8)
    assert report.status == 1
    assert "the master refuses all writes" in report.found("min-replicas")
    assert "NOREPLICAS" in report.found("lock")
    await master.execute("CONFIG", "SET", "min-replicas-to-write", 0)
    assert (await examine(servers.url, "--strict")).status == 0
    await replica.kill()
    await until_async(lambda: _has_replicas(master, 0))
    report = await examine(servers.url, timeout=5)
    assert report.level("replicas") == "warning"
    assert report.level("master") == "ok"


async def test_lone_replica_and_two_masters_in_a_list_are_problems(
    replicas_factory: ReplicasFactory,
) -> None:
    servers = await replicas_factory("valkey", replicas=1)
    report = await examine(servers.nodes[1].url)
    assert report.status == 1
    assert "a replica, which refuses every lock" in report.found("role")
    await servers.nodes[1].execute("REPLICAOF", "NO", "ONE")
    report = await examine(servers.url, timeout=8)
    assert report.status == 1
    assert "claim to be master" in report.found("master")
    assert report.level("lock") == "problem"


async def keep_data(servers: Iterable[EmbeddedServer]) -> None:
    """Have the servers of a topology keep their data, which embedded ones do not."""
    for server in servers:
        await server.execute("CONFIG", "SET", "appendonly", "yes")


async def allow(cluster: EmbeddedCluster, *rules: str) -> str:
    """Make a user on every node; return the cluster's URL for it."""
    for node in cluster.nodes:
        await node.execute("ACL", "SETUSER", "app", "reset", "on", f">{PASSWORD}", *rules)
    return url_of_user(cluster.url, "app")


async def _has_replicas(master: EmbeddedServer, count: int) -> bool:
    return f"connected_slaves:{count}\r\n" in await master.execute("INFO", "replication")
