"""The ZooKeeper store on an ensemble of three servers, with some of them cut off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest
import pytest_asyncio

from redisson_py._stores.contract import Kind, Renewal
from redisson_py._time import now
from redisson_py.errors import ConnectionLostError
from tests.fixtures.redis_server import unavailable
from tests.stores.bell import Bell
from tests.stores.zookeeper.proxy import CREATE, ZooKeeperProxy
from tests.stores.zookeeper.server import (
    HOST,
    ZooKeeperNotFoundError,
    ZooKeeperServer,
    running_ensemble,
)
from tests.stores.zookeeper.support import (
    KINDS,
    LEASE,
    give_back,
    granted,
    new_owner,
    opened,
    renewed,
    soon,
    stranger,
    wish,
)
from tests.support.waiting import until


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
        await give_back(store, "/moved", "warm:1")
        old.next(CREATE, "hold")
        with pytest.raises(ConnectionLostError) as caught:
            await store.ask(wish("/moved", owner), soon(1.5))
        assert caught.value.maybe_held
        old.refuse(True)
        new.refuse(False)
        old.cut()
        await bell.heard_all(1)
        assert await give_back(store, "/moved", owner, unsure=True) is False
        assert old.links == 1
        old.release()
        # The server ends the connection instead of an answer: the session has moved.
        await until(lambda: not old.links)
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
        await bell.heard_all(1)
        assert await renewed(it, "/moving", owner, hold) is not None
        assert await give_back(it, "/moving", owner) is True


@contextmanager
def cut_off(others: list[ZooKeeperServer]) -> Iterator[None]:
    """Stop the other servers for the time of a block."""
    for server in others:
        server.pause()
    try:
        yield
    finally:
        for server in others:
            server.resume()


@pytest.mark.parametrize("call", ["renew", "ask"])
async def test_a_follower_that_is_cut_off_confirms_nothing(
    servers: list[ZooKeeperServer], call: str, name: str
) -> None:
    follower, *others = servers
    owner = new_owner()
    async with opened(follower.url, lease=30.0) as store:
        hold = await granted(store, name, owner)
        batch = [Renewal(name, owner, hold.token, LEASE)]
        with stranger(follower) as reader, cut_off(others):
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
        assert await store.renew(batch, soon()) != [None]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_follower_that_is_cut_off_does_not_say_busy(
    servers: list[ZooKeeperServer], name: str, kind: Kind
) -> None:
    follower, *others = servers
    async with opened(follower.url, lease=30.0) as store:
        await granted(store, name, new_owner(), "write" if kind == "read" else kind)
        # Perhaps it was given back meanwhile, and the others know.
        with cut_off(others), pytest.raises(ConnectionLostError):
            await store.ask(wish(name, new_owner(), kind, waits=False), soon(0.4))


async def test_a_hold_is_kept_until_its_end_by_those_that_were_not_notified(
    servers: list[ZooKeeperServer],
) -> None:
    """A server is cut off, with its client, before the leader has heard of the last renewal."""
    follower, _, leader = servers
    async with opened(leader.url) as other, opened(follower.url, lease=4.0) as store:
        owner = new_owner()
        hold = await granted(store, "/not-told", owner)
        last = hold.until
        for _ in range(3):
            # Longer than the leader takes to hear of a renewal; the third is cut off at once.
            await asyncio.sleep(0.5)
            end = await renewed(store, "/not-told", owner, hold)
            assert end is not None
            assert end >= last
            last = end
        follower.pause()
        try:
            while (await other.look("/not-told", soon())).holder is not None:
                await asyncio.sleep(0.005)
            assert now() > last
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
                assert await renewed(store, "/survives", owner, hold) is not None
                assert await give_back(store, "/survives", owner) is True
                assert (await granted(other, "/survives", new_owner())).token > hold.token
        finally:
            leader.start()
