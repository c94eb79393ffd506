"""Sentinels name the master, replace it and end as `redisson_py.testing` says."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis, Sentinel
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError

from redisson_py.testing import EmbeddedSentinel, EmbeddedServer, TopologyError, embedded_sentinel
from tests.fixtures.topologies import SentinelFactory


def client_of(sentinel: EmbeddedSentinel, **options: str) -> Sentinel:
    """Return redis-py's idea of these sentinels."""
    addresses = [(each.host, each.port) for each in sentinel.sentinels]
    return Sentinel(  # type: ignore[no-untyped-call]  # redis-py's
        addresses, sentinel_kwargs=options
    )


async def close(client: Sentinel) -> None:
    for each in client.sentinels:
        await each.aclose()


async def named(sentinel: EmbeddedSentinel) -> tuple[str, int]:
    client = client_of(sentinel)
    try:
        host, port = await client.discover_master(sentinel.service)
    finally:
        await close(client)
    return str(host), int(port)


def address(node: EmbeddedServer) -> tuple[str, int]:
    return node.host, node.port


async def test_sentinels_name_the_master_and_fail_over(own_sentinel: EmbeddedSentinel) -> None:
    old = await own_sentinel.master()
    assert old is own_sentinel.nodes[0]
    assert len(own_sentinel.nodes) == 3
    assert len(own_sentinel.sentinels) == 3
    assert await named(own_sentinel) == address(old)
    await old.execute("SET", "k", "v")
    new = await own_sentinel.failover()
    assert new is not old
    assert await named(own_sentinel) == address(new)
    assert await new.execute("GET", "k") == "v"
    assert new in await own_sentinel.masters()


async def test_a_coordinated_failover_leaves_one_master(
    own_sentinel: EmbeddedSentinel,
) -> None:
    old = await own_sentinel.master()
    if own_sentinel.version >= (9, 0, 0):
        new = await own_sentinel.failover(coordinated=True)
        await own_sentinel.wait_healthy()
        assert await own_sentinel.masters() == [new]
        assert new is not old
    else:
        with pytest.raises(TopologyError, match="SENTINEL FAILOVER"):
            await own_sentinel.failover(coordinated=True)


async def test_passwords_and_users_of_both(sentinel_factory: SentinelFactory) -> None:
    rules = "on >spw ~* &* +sentinel|get-master-addr-by-name +ping"
    watched = await sentinel_factory(
        password="d w",
        sentinel_password="s w",
        sentinel_users={"app": rules},
        service="my-master",
    )
    assert watched.url.startswith("redis+sentinel://:d%20w@")
    assert watched.url.endswith("/my-master?sentinel_password=s%20w")
    new = await watched.failover()
    one = watched.sentinels[0]
    async with Redis(host=one.host, port=one.port, username="app", password="spw") as client:
        reply = await client.execute_command(  # type: ignore[no-untyped-call]  # redis-py's
            "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "my-master"
        )
        assert reply == [new.host.encode(), str(new.port).encode()]
    stranger = Redis(host=one.host, port=one.port, protocol=2, retry=Retry(NoBackoff(), 0))
    async with stranger as client:
        with pytest.raises(AuthenticationError):
            await client.ping()
    async with Redis(host=new.host, port=new.port, password="d w") as client:
        assert await client.set("k", "v")


async def test_nothing_is_left() -> None:
    watched = EmbeddedSentinel(replicas=1, sentinels=1)
    async with watched:
        servers = [*watched.nodes, *watched.sentinels]
        assert len(servers) == 3
        assert all(server.running for server in servers)
    assert not any(server.running or server.directory.exists() for server in servers)


async def test_embedded_sentinel_gives_a_url() -> None:
    async with embedded_sentinel(replicas=1, sentinels=1, service="s") as url:
        assert url.startswith("redis+sentinel://127.0.0.1:")
        assert url.endswith("/s")
