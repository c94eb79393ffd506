"""The ZooKeeper store on an ensemble of three servers, with some of them cut off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest
import pytest_asyncio
from kazoo.client import KazooClient

from redisson_py import LeaseLostError
from redisson_py._stores.contract import Granted, Kind
from redisson_py._stores.zookeeper import ZooKeeperStore
from redisson_py._time import now
from redisson_py.errors import ConnectionLostError
from redisson_py.zookeeper import StoreOptions, ZooKeeper
from tests.fixtures.redis_server import unavailable
from tests.stores.backends import LEASE
from tests.stores.conftest import assert_idle
from tests.stores.zookeeper.proxy import CREATE, ZooKeeperProxy
from tests.stores.zookeeper.server import (
    HOST,
    ZooKeeperNotFoundError,
    ZooKeeperServer,
    running_ensemble,
)
from tests.stores.zookeeper.support import Bell, granted, new_owner, opened, renewal, soon, wish
from tests.stores.zookeeper.test_semaphore import nodes, until_nodes
from tests.support.waiting import until

#: Seconds for what must happen soon, the end of a session among it.
SOON = 10.0


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ZooKeeperServer]]:
    """Three servers; the last one leads."""
    try:
        with running_ensemble(tmp_path_factory.mktemp("ensemble")) as running:
            yield sorted(running, key=lambda server: b"Mode: leader" in server.tell("srvr"))
    except ZooKeeperNotFoundError as error:
        unavailable(str(error))


@pytest_asyncio.fixture
async def proxies(servers: list[ZooKeeperServer]) -> AsyncIterator[list[ZooKeeperProxy]]:
    async with (
        ZooKeeperProxy(servers[0].port) as one,
        ZooKeeperProxy(servers[1].port) as two,
    ):
        yield [one, two]


async def test_a_creation_that_another_server_still_has_is_refused(
    proxies: list[ZooKeeperProxy], servers: list[ZooKeeperServer]
) -> None:
    old, new = proxies
    new.refuse(True)
    bell, owner = Bell(), new_owner()
    async with opened(f"zookeeper://{HOST}:{old.port},{HOST}:{new.port}", bell) as store:
        await granted(store, "/moved", "warm:1")
        await store.give_back("/moved", "warm:1", False, soon())
        old.next(CREATE, "hold")
        with pytest.raises(ConnectionLostError) as caught:
            await store.ask(wish("/moved", owner), soon(1.5))
        assert caught.value.maybe_held
        old.refuse(True)
        new.refuse(False)
        old.cut()
        await bell.until_all(1)
        assert await store.give_back("/moved", owner, True, soon()) is False
        assert old.links == 1
        old.release()
        # The server ends the connection instead of an answer: the session has moved.
        while old.links:
            await asyncio.sleep(0.01)
        assert old.errors == []
        async with opened(servers[2].url) as other:
            assert (await other.look("/moved", soon())).holder is None


async def test_a_hold_moves_to_another_server_with_its_session(
    servers: list[ZooKeeperServer], proxies: list[ZooKeeperProxy]
) -> None:
    bell, owner = Bell(), new_owner()
    async with opened(f"zookeeper://{HOST}:{proxies[0].port},{HOST}:{proxies[1].port}", bell) as it:
        hold = await granted(it, "/moving", owner)
        used = next(proxy for proxy in proxies if proxy.links)
        used.refuse(True)
        used.cut()
        await bell.until_all(1)
        assert await it.renew([renewal("/moving", owner, hold)], soon()) != [None]
        assert await it.give_back("/moving", owner, False, soon()) is True


@pytest.mark.parametrize("call", ["renew", "ask"])
async def test_a_follower_that_is_cut_off_confirms_nothing(
    servers: list[ZooKeeperServer], call: str
) -> None:
    follower, *others = servers
    reader, owner, name = KazooClient(f"{HOST}:{follower.port}"), new_owner(), f"/cut-off-{call}"
    async with opened(follower.url, lease=30.0) as store:
        hold = await granted(store, name, owner)
        batch = [renewal(name, owner, hold)]
        reader.start()
        for server in others:
            server.pause()
        try:
            deadline = soon(1.5)
            asking = (
                store.renew(batch, deadline)
                if call == "renew"
                else store.ask(wish(name, owner), deadline)
            )
            # It answers reads all the same.
            assert len(await asyncio.to_thread(reader.get_children, name)) == 1
            with pytest.raises(ConnectionLostError):
                await asking
        finally:
            for server in others:
                server.resume()
            await asyncio.to_thread(reader.stop)
            reader.close()
        assert await store.renew(batch, soon()) != [None]


@pytest.mark.parametrize("kind", ["lock", "read", "write", "semaphore"])
async def test_a_follower_that_is_cut_off_does_not_say_busy(
    servers: list[ZooKeeperServer], kind: Kind
) -> None:
    follower, *others = servers
    name, held = f"/cut-off-busy-{kind}", "write" if kind == "read" else kind
    async with opened(follower.url, lease=30.0) as store:
        hold = await store.ask(replace(wish(name, new_owner()), kind=held), soon())
        assert isinstance(hold, Granted)
        for server in others:
            server.pause()
        try:
            # Perhaps it was given back meanwhile, and the others know.
            asked = replace(wish(name, new_owner(), waits=False), kind=kind)
            with pytest.raises(ConnectionLostError):
                await store.ask(asked, soon(0.4))
        finally:
            for server in others:
                server.resume()


async def test_a_hold_is_kept_until_its_end_by_those_that_were_not_told(
    servers: list[ZooKeeperServer],
) -> None:
    """A server is cut off, with its client, before the leader has heard of the last renewal."""
    follower, _, leader = servers
    async with opened(leader.url) as other, opened(follower.url, lease=4.0) as store:
        owner = new_owner()
        hold = await granted(store, "/not-told", owner)
        until = hold.until
        for _ in range(3):
            # Longer than the leader takes to hear of a renewal; the third is cut off at once.
            await asyncio.sleep(0.5)
            (renewed,) = await store.renew([renewal("/not-told", owner, hold)], soon())
            assert renewed is not None
            assert renewed >= until
            until = renewed
        follower.pause()
        try:
            while (await other.look("/not-told", soon())).holder is not None:
                await asyncio.sleep(0.005)
            assert now() > until
        finally:
            follower.resume()


async def test_a_hold_survives_the_death_of_the_leader(servers: list[ZooKeeperServer]) -> None:
    hosts = ",".join(f"{HOST}:{server.port}" for server in servers)
    bell, owner = Bell(), new_owner()
    async with opened(f"zookeeper://{hosts}", bell, 30.0) as store:
        hold = await granted(store, "/survives", owner)
        leader = servers[2]
        leader.kill()
        try:
            async with opened(f"zookeeper://{hosts}") as other:
                assert (await other.look("/survives", soon())).holder is not None
                assert await store.renew([renewal("/survives", owner, hold)], soon()) != [None]
                assert await store.give_back("/survives", owner, False, soon()) is True
                assert (await granted(other, "/survives", new_owner())).token > hold.token
        finally:
            leader.start()


@pytest.fixture
def kazoo(servers: list[ZooKeeperServer]) -> Iterator[KazooClient]:
    client = KazooClient(f"{HOST}:{servers[2].port}")
    client.start()
    yield client
    client.stop()
    client.close()


class Inside:
    """Bodies of one semaphore mutex, of which none may run beside another."""

    def __init__(self, path: str) -> None:
        self.order: list[str] = []
        self._path = path
        self._inside = 0

    async def enter(self, client: ZooKeeper, leave: asyncio.Event | None = None) -> None:
        """Run a body, until it may leave."""
        async with client.get_semaphore_mutex(self._path):
            self.order.append(client.id)
            self._inside += 1
            try:
                assert self._inside == 1
                await (asyncio.sleep(0) if leave is None else leave.wait())
                assert self._inside == 1
            finally:
                self._inside -= 1


@asynccontextmanager
async def contending(urls: list[str]) -> AsyncGenerator[list[ZooKeeper]]:
    """Make clients for the time of a block, which must leave them idle."""
    # Their requests wait for as long as the connections are broken.
    options: StoreOptions = {"lease_time": LEASE, "command_timeout": 3 * SOON}
    async with AsyncExitStack() as made:
        clients = [
            await made.enter_async_context(ZooKeeper.from_url(url, **options)) for url in urls
        ]
        yield clients
        for client in clients:
            await assert_idle(client)


async def until_sessions_ended(
    proxies: list[ZooKeeperProxy], kazoo: KazooClient, path: str, gate: int, leases: int
) -> None:
    """Break connections until so many nodes are left; then they may be made again."""
    for proxy in proxies:
        proxy.refuse(True)
        proxy.cut()
    async with asyncio.timeout(3 * SOON):
        while [len(each) for each in nodes(kazoo, path)] != [gate, leases]:
            await asyncio.sleep(0.005)
    for proxy in proxies:
        proxy.refuse(False)


async def test_sessions_that_end_while_a_semaphore_mutex_is_waited_for(
    proxies: list[ZooKeeperProxy], servers: list[ZooKeeperServer], kazoo: KazooClient
) -> None:
    path, leave = "/semaphore-of-waiters", asyncio.Event()
    inside = Inside(path)
    async with contending([servers[2].url, *(proxy.url for proxy in proxies)]) as clients:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(inside.enter(clients[0], leave))
            await until_nodes(kazoo, path, 0, 1)
            # One waits for the holder, and one for that one, at the gate.
            for count, client in enumerate(clients[1:], 1):
                tasks.create_task(inside.enter(client))
                await until_nodes(kazoo, path, count, 2)
            await until_sessions_ended(proxies, kazoo, path, 0, 1)
            await until_nodes(kazoo, path, 2, 2)
            assert inside.order == [clients[0].id]
            leave.set()
        assert sorted(inside.order) == sorted(client.id for client in clients)
        await until_nodes(kazoo, path, 0, 0)


async def test_a_holders_session_ends_with_that_of_a_waiter(
    proxies: list[ZooKeeperProxy], servers: list[ZooKeeperServer], kazoo: KazooClient
) -> None:
    path, leave = "/semaphore-of-a-holder", asyncio.Event()
    inside = Inside(path)
    urls = [*(proxy.url for proxy in proxies), servers[2].url]
    async with contending(urls) as (holder, first, second):
        holding = asyncio.create_task(inside.enter(holder, asyncio.Event()))
        await until_nodes(kazoo, path, 0, 1)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(inside.enter(first))
            await until_nodes(kazoo, path, 1, 2)
            tasks.create_task(inside.enter(second, leave))
            await until_nodes(kazoo, path, 2, 2)
            # The second one holds it then, alone; the body of the holder has been told.
            await until_sessions_ended(proxies, kazoo, path, 0, 1)
            await until(lambda: len(inside.order) == 2)
            with pytest.raises(LeaseLostError):
                await holding
            await until_nodes(kazoo, path, 1, 2)
            assert inside.order == [holder.id, second.id]
            leave.set()
        assert inside.order == [holder.id, second.id, first.id]
        await until_nodes(kazoo, path, 0, 0)
        await inside.enter(holder)


def test_the_store_says_where_it_is_without_credentials() -> None:
    store = ZooKeeperStore.from_url("zookeeper://ann:secret@a:1,b,[::1]:3/apps")
    assert store.where == "a:1,b:2181,[::1]:3/apps"
    assert "secret" not in repr(store)
