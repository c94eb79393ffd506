"""The semaphore mutex of ZooKeeper: its gate, its leases, and answers that are lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kazoo.client import KazooClient

from redisson_py import AcquireTimeoutError
from redisson_py._stores.contract import Busy
from redisson_py._stores.zookeeper import ZooKeeperStore
from redisson_py.zookeeper import ZooKeeper
from tests.stores.backends import LEASE
from tests.stores.conftest import NewClient, assert_idle
from tests.stores.test_interop import queued
from tests.stores.zookeeper.proxy import CREATE, DELETE, Fate, ZooKeeperProxy
from tests.stores.zookeeper.server import ZooKeeperServer
from tests.stores.zookeeper.support import (
    LONG,
    ask,
    give_back,
    granted,
    new_owner,
    nodes,
    opened,
    soon,
)
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("no_polls")


@pytest.fixture
def name(name: str, kazoo: KazooClient) -> str:
    """A name whose directories are there: each step is one request."""
    kazoo.ensure_path(f"{name}/locks")
    kazoo.ensure_path(f"{name}/leases")
    return name


def counts(kazoo: KazooClient, name: str) -> tuple[int, int]:
    """Return how many wait at the gate, and how many nodes of holders there are."""
    return len(nodes(kazoo, f"{name}/locks")), len(nodes(kazoo, f"{name}/leases"))


@pytest.mark.usefixtures("old_busy_counts")
async def test_one_task_holds_it_and_cannot_enter_again(
    client: Any, other: Any, kazoo: KazooClient, name: str
) -> None:
    lock, theirs = client.get_semaphore_mutex(name), other.get_semaphore_mutex(name)
    async with lock:
        (held,) = nodes(kazoo, name, "semaphore")
        assert "-lease-" in held
        assert (await lock.inspect()).keys == (name, f"{name}/leases/{held}")
        with pytest.raises(RuntimeError, match="this task already holds"):
            await lock.acquire()
        assert await theirs.locked()
        assert await theirs.try_acquire() is None
        with pytest.raises(AcquireTimeoutError):
            await theirs.acquire(timeout=2)
        # A timeout gives back in the background.
        await until(lambda: counts(kazoo, name) == (0, 1))
    assert counts(kazoo, name) == (0, 0)


@pytest.mark.parametrize("number", [0, 1], ids=["for the holder", "at the gate"])
async def test_a_cancelled_waiter_leaves_no_node(
    new_client: NewClient, kazoo: KazooClient, name: str, number: int
) -> None:
    locks = [new_client().get_semaphore_mutex(name) for _ in range(3)]  # type: ignore[union-attr]
    lease = await locks[0].acquire()
    waiting = []
    for count, lock in enumerate(locks[1:], 1):
        waiting.append(asyncio.create_task(lock.acquire()))
        await queued(locks[0], count)
    await until(lambda: counts(kazoo, name) == (2, 2))
    waiting[number].cancel()
    await queued(locks[0], 1)
    await lease.release()
    async with asyncio.timeout(LONG):
        last = await waiting[1 - number]
    assert counts(kazoo, name) == (0, 1)
    await last.release()
    assert counts(kazoo, name) == (0, 0)


@pytest.mark.parametrize("fate", ["cut before", "cut after", "swallow"])
@pytest.mark.parametrize("step", ["the gate", "the lease", "leaving the gate", "the release"])
async def test_a_request_without_an_answer_leaves_nothing(
    store: ZooKeeperStore,
    proxy: ZooKeeperProxy,
    kazoo: KazooClient,
    name: str,
    step: str,
    fate: Fate,
) -> None:
    owner = new_owner()
    if step == "the lease":
        proxy.next(CREATE, "pass")
    elif step == "the release":
        proxy.next(DELETE, "pass")
    proxy.next(CREATE if step in {"the gate", "the lease"} else DELETE, fate)
    await granted(store, name, owner, "semaphore")
    if step != "the release":
        assert counts(kazoo, name) == (0, 1)
    await give_back(store, name, owner, unsure=True)
    assert proxy.hit.is_set()
    assert counts(kazoo, name) == (0, 0)


async def test_a_try_that_is_asked_again_leaves_the_gate(
    proxy: ZooKeeperProxy, kazoo: KazooClient, name: str
) -> None:
    async with ZooKeeper.from_url(proxy.url, lease_time=LEASE) as client:
        await client.ping()
        proxy.next(CREATE, "cut after")
        proxy.refuse(True)
        asking = asyncio.create_task(client.get_semaphore_mutex(name).try_acquire())
        async with asyncio.timeout(LONG):
            await proxy.hit.wait()
            # Another one takes the lease before the client asks again.
            taken = kazoo.create(f"{name}/leases/lease-", ephemeral=True, sequence=True)
            proxy.refuse(False)
            assert await asking is None
        assert counts(kazoo, name)[1] == 1
        kazoo.delete(taken)
        await until(lambda: counts(kazoo, name) == (0, 0))
        await assert_idle(client)


async def test_one_that_lost_the_gate_leaves_its_position_to_the_next(
    store: ZooKeeperStore,
    theirs: ZooKeeperStore,
    server: ZooKeeperServer,
    kazoo: KazooClient,
    name: str,
) -> None:
    async with opened(server.url) as next_one:
        await granted(theirs, name, "holder:1", "semaphore")
        assert await ask(store, name, "one:1", "semaphore") == Busy(None)
        (contender,) = nodes(kazoo, f"{name}/locks")
        kazoo.delete(f"{name}/locks/{contender}")
        # Both have a node in `leases` then: each would wait for the other.
        assert await ask(next_one, name, "two:1", "semaphore") == Busy(None)
        assert counts(kazoo, name) == (1, 3)
        assert await ask(store, name, "one:1", "semaphore") == Busy(None)
        assert counts(kazoo, name) == (2, 2)
        await give_back(theirs, name, "holder:1")
        await granted(next_one, name, "two:1", "semaphore")
        assert await ask(store, name, "one:1", "semaphore") == Busy(None)
        await give_back(next_one, name, "two:1")
        await granted(store, name, "one:1", "semaphore")


async def test_a_forced_release_ends_no_wait(
    store: ZooKeeperStore, theirs: ZooKeeperStore, kazoo: KazooClient, name: str
) -> None:
    await granted(theirs, name, "holder:1", "semaphore")
    held = nodes(kazoo, f"{name}/leases")
    assert await ask(store, name, "waiter:1", "semaphore") == Busy(None)
    (waits,) = {*nodes(kazoo, f"{name}/leases")} - {*held}
    assert await store.force_release(name, soon(), "semaphore") is True
    assert nodes(kazoo, f"{name}/leases") == [waits]
    await granted(store, name, "waiter:1", "semaphore")
    assert nodes(kazoo, f"{name}/leases") == [waits]
