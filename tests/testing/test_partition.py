"""Servers are cut off from each other as `redisson_py.testing` says."""

from __future__ import annotations

import subprocess
import sys

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ClusterDownError
from redis.exceptions import ConnectionError as RedisConnectionError

from redisson_py.testing import (
    CommandError,
    EmbeddedCluster,
    NetworkNotFoundError,
    connecting_from,
    embedded_cluster,
    embedded_sentinel,
    in_own_network,
    run_in_own_network,
)
from redisson_py.testing import _network as network_module
from tests.fixtures.redis_server import unavailable

CLIENT = "127.0.0.30"


def client_of(cluster_node_url: str) -> Redis:
    return Redis.from_url(cluster_node_url, retry=Retry(NoBackoff(), 0), socket_timeout=5)


@pytest.mark.own_network
async def test_a_master_cut_off_with_a_client_gives_up(split_cluster: EmbeddedCluster) -> None:
    old = await split_cluster.master_of("k")
    assert len({node.host for node in split_cluster.nodes}) == 6
    with connecting_from(CLIENT):
        async with client_of(old.url) as inside:
            await split_cluster.partition([old, CLIENT])
            await inside.set("k", "lost")
            new = await split_cluster.wait_master("k", other_than=old)
            with pytest.raises(ClusterDownError):
                while True:
                    await inside.set("k", "lost")
    async with client_of(new.url) as unbound:
        with pytest.raises(RedisConnectionError):
            await unbound.ping()
    await new.execute("SET", "k", "kept")
    with pytest.raises(CommandError, match="CLUSTERDOWN"):
        await old.execute("GET", "k")
    await split_cluster.heal()
    await split_cluster.wait_healthy()
    assert await split_cluster.replicas_of(new) == [old]
    async with client_of(new.url) as unbound:
        assert await unbound.get("k") == b"kept"


async def test_output_and_failure_of_a_program_come_back() -> None:
    try:
        code = "from redisson_py.testing import in_own_network as i; print('inside', i())"
        assert "inside True" in await run_in_own_network(sys.executable, "-c", code)
    except NetworkNotFoundError as error:
        unavailable(str(error))
    with pytest.raises(subprocess.CalledProcessError) as failed:
        await run_in_own_network("sh", "-c", "echo no; exit 3")
    assert failed.value.returncode == 3
    assert failed.value.output == "no\n"
    with pytest.raises(subprocess.TimeoutExpired):
        await run_in_own_network("sleep", "60", timeout=0.1)


async def test_where_there_is_no_such_network_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("sh", "-c", "echo unshare: Operation not permitted >&2; exit 1")
    monkeypatch.setattr(network_module, "_UNSHARE", command)
    network_module._obstacle.cache_clear()
    with pytest.raises(NetworkNotFoundError, match="not permitted"):
        await run_in_own_network("true")
    network_module._obstacle.cache_clear()


@pytest.mark.parametrize("embedded", [embedded_cluster, embedded_sentinel])
async def test_own_addresses_need_an_own_network(embedded: type) -> None:
    assert not in_own_network()
    with pytest.raises(NetworkNotFoundError, match="run_in_own_network"):
        async with embedded(own_addresses=True):
            pytest.fail("it started")


async def test_servers_that_share_an_address_cannot_be_cut_off(cluster: EmbeddedCluster) -> None:
    with pytest.raises(RuntimeError, match="own_addresses"):
        await cluster.partition(cluster.nodes[:1])
