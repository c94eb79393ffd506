"""The semaphore mutex of ZooKeeper when answers are lost while others come and go."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace

import pytest
from kazoo.client import KazooClient

from redisson_py._stores.contract import Busy, Granted
from redisson_py._stores.zookeeper import ZooKeeperStore
from redisson_py._time import now
from redisson_py.zookeeper import ZooKeeper
from tests.stores.backends import LEASE, Backend
from tests.stores.conftest import assert_idle
from tests.stores.test_interop import LONG
from tests.stores.zookeeper.proxy import CREATE, GET_CHILDREN, ZooKeeperProxy
from tests.stores.zookeeper.support import Bell, opened, soon, wish
from tests.stores.zookeeper.test_semaphore import nodes, semaphore_wish, until_nodes

pytestmark = pytest.mark.usefixtures("no_polls")

_numbers = itertools.count(1)


@pytest.fixture
def path() -> str:
    return f"/semaphores/faults{next(_numbers)}"


async def ask(store: ZooKeeperStore, path: str, owner: str) -> Granted | Busy:
    return await store.ask(semaphore_wish(path, owner), soon())


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


async def test_one_that_lost_the_gate_leaves_its_place_to_the_next(
    backend: Backend, kazoo: KazooClient, path: str
) -> None:
    async with (
        opened(backend.url) as holder,
        opened(backend.url) as one,
        opened(backend.url) as two,
    ):
        assert isinstance(await ask(holder, path, "holder:1"), Granted)
        assert await ask(one, path, "one:1") == Busy(None)
        (contender,) = nodes(kazoo, path)[0]
        kazoo.delete(f"{path}/locks/{contender}")
        # Both have a node in `leases` then: each would wait for the other.
        assert await ask(two, path, "two:1") == Busy(None)
        assert [len(each) for each in nodes(kazoo, path)] == [1, 3]
        assert await ask(one, path, "one:1") == Busy(None)
        assert [len(each) for each in nodes(kazoo, path)] == [2, 2]
        await holder.give_back(path, "holder:1", False, soon())
        assert isinstance(await ask(two, path, "two:1"), Granted)
        assert await ask(one, path, "one:1") == Busy(None)
        await two.give_back(path, "two:1", False, soon())
        assert isinstance(await ask(one, path, "one:1"), Granted)


async def test_a_release_before_the_watch_is_not_missed(backend: Backend, path: str) -> None:
    async with (
        opened(backend.url) as holder,
        ZooKeeperProxy(backend.server.port) as proxy,
        opened(proxy.url) as waiter,
    ):
        assert isinstance(await ask(holder, path, "holder:1"), Granted)
        # The directory of the gate, that of leases, and that again with a watch.
        for fate in ("pass", "pass", "hold"):
            proxy.next(GET_CHILDREN, fate)
        asking = asyncio.create_task(ask(waiter, path, "waiter:1"))
        async with asyncio.timeout(LONG):
            while proxy.seen.get(GET_CHILDREN, 0) < 3:
                await asyncio.sleep(0)
            await holder.give_back(path, "holder:1", False, soon())
            proxy.release()
            assert isinstance(await asking, Granted)


async def test_a_forced_release_ends_no_wait(
    backend: Backend, kazoo: KazooClient, path: str
) -> None:
    async with opened(backend.url) as holder, opened(backend.url) as waiter:
        assert isinstance(await ask(holder, path, "holder:1"), Granted)
        (held,) = nodes(kazoo, path)[1]
        assert await ask(waiter, path, "waiter:1") == Busy(None)
        (waits,) = {*nodes(kazoo, path)[1]} - {held}
        assert await waiter.force_release(path, soon(), "semaphore") is True
        assert nodes(kazoo, path)[1] == [waits]
        assert isinstance(await ask(waiter, path, "waiter:1"), Granted)
        assert nodes(kazoo, path)[1] == [waits]


async def test_a_watch_is_set_again_on_a_new_connection(backend: Backend, path: str) -> None:
    bell = Bell()
    async with (
        opened(backend.url) as holder,
        ZooKeeperProxy(backend.server.port) as proxy,
        opened(proxy.url, bell) as waiter,
        asyncio.timeout(LONG),
    ):
        assert isinstance(await ask(holder, path, "holder:1"), Granted)
        assert await ask(waiter, path, "waiter:1") == Busy(None)
        proxy.cut()
        await bell.until_all(1)
        assert await ask(waiter, path, "waiter:1") == Busy(None)
        await holder.give_back(path, "holder:1", False, soon())
        await bell.until_rung(path)
        assert isinstance(await ask(waiter, path, "waiter:1"), Granted)


async def test_a_look_names_the_holder_and_the_waiters(backend: Backend, path: str) -> None:
    async with opened(backend.url) as holder, opened(backend.url) as waiter:
        held = await ask(holder, path, "holder:1")
        assert isinstance(held, Granted)
        for owner in ("waiter:1", "waiter:2"):
            assert await ask(waiter, path, owner) == Busy(None)
        state = await waiter.look(path, soon(), "semaphore")
        assert state.holder is not None
        assert (state.holder.owner, state.holder.token) == ("holder:1", held.token)
        assert state.waiters == ("waiter:1", "waiter:2")


async def test_a_hold_with_a_lease_of_its_own_ends_no_later(backend: Backend, path: str) -> None:
    async with opened(backend.url, lease=2 * LEASE) as store:
        for _ in range(2):
            asked = replace(wish(path, "holder:1", lease=LEASE), kind="semaphore")
            before = now()
            answer = await store.ask(asked, soon())
            assert isinstance(answer, Granted)
            assert before < answer.until <= now() + LEASE
