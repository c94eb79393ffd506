"""The semaphore mutex of ZooKeeper when answers are lost while others come and go."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from redisson_py.zookeeper import ZooKeeper
from tests.stores.backends import LEASE, Backend
from tests.stores.conftest import assert_idle, running
from tests.stores.test_interop import LONG
from tests.stores.test_zookeeper_semaphore import nodes, until_nodes
from tests.stores.zookeeper_proxy import CREATE, ZooKeeperProxy

pytestmark = pytest.mark.usefixtures("no_polls")

_numbers = itertools.count(1)


@pytest.fixture
def backend(servers: dict[str, Backend]) -> Backend:
    return running(servers, "zookeeper")


@pytest.fixture
def kazoo(backend: Backend) -> Iterator[KazooClient]:
    client = KazooClient(f"127.0.0.1:{backend.server.port}")
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def path() -> str:
    return f"/semaphores/faults{next(_numbers)}"


async def test_a_try_that_is_asked_again_leaves_the_gate(
    backend: Backend, kazoo: KazooClient, path: str
) -> None:
    kazoo.ensure_path(f"{path}/locks")
    kazoo.ensure_path(f"{path}/leases")
    async with (
        ZooKeeperProxy(backend.server.port) as proxy,
        ZooKeeper.from_url(proxy.url, lease_time=LEASE) as client,
    ):
        await client.ping()
        proxy.next(CREATE, "cut after")
        proxy.refuse(True)
        asking = asyncio.create_task(client.get_semaphore_mutex(path).try_acquire())
        async with asyncio.timeout(LONG):
            await proxy.hit.wait()
            # Another one takes the lease before the client asks again.
            theirs = kazoo.create(f"{path}/leases/lease-", ephemeral=True, sequence=True)
            proxy.refuse(False)
            assert await asking is None
        assert len(nodes(kazoo, path)[1]) == 1
        kazoo.delete(theirs)
        await until_nodes(kazoo, path, 0, 0)
        await assert_idle(client)
