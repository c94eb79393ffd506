"""The ZooKeeper store keeps the contract, on a real server."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from redisson_py._stores.contract import Busy, Granted, Renewal, State
from redisson_py._stores.zookeeper import ZooKeeperStore
from redisson_py._time import now
from redisson_py.errors import BackendError
from tests.stores.zookeeper.server import ZooKeeperServer
from tests.stores.zookeeper.support import (
    LEASE,
    Bell,
    granted,
    new_owner,
    opened,
    renewal,
    soon,
    wish,
    zookeeper_or_skip,
)


@pytest_asyncio.fixture
async def store(server: ZooKeeperServer, bell: Bell) -> AsyncIterator[ZooKeeperStore]:
    async with opened(server.url, bell) as started:
        yield started


@pytest.fixture
def other(server: ZooKeeperServer) -> Iterator[KazooClient]:
    """Another client of ZooKeeper."""
    client = KazooClient(f"127.0.0.1:{server.port}")
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


async def test_grants_a_free_name_with_a_token_and_a_moment(
    store: ZooKeeperStore, name: str
) -> None:
    before = now()
    answer = await granted(store, name, new_owner())
    assert before < answer.until <= now() + LEASE
    assert answer.token > 0


async def test_a_second_ask_changes_nothing(store: ZooKeeperStore, name: str) -> None:
    owner = new_owner()
    first, second = await granted(store, name, owner), await granted(store, name, owner)
    assert second.token == first.token
    assert second.until >= first.until
    state = await store.look(name, soon())
    assert state.waiters == ()


async def test_a_second_ask_of_a_waiter_keeps_its_place(store: ZooKeeperStore, name: str) -> None:
    holder, second, third = new_owner(), new_owner(), new_owner()
    await granted(store, name, holder)
    for owner in (second, third, second):
        assert await store.ask(wish(name, owner), soon()) == Busy(None)
    assert (await store.look(name, soon())).waiters == (second, third)


async def test_a_waiter_is_rung_for_and_granted_in_order(
    store: ZooKeeperStore, bell: Bell, name: str
) -> None:
    holder, second, third = new_owner(), new_owner(), new_owner()
    first = await granted(store, name, holder)
    assert await store.ask(wish(name, second), soon()) == Busy(None)
    assert await store.ask(wish(name, third), soon()) == Busy(None)
    assert bell.rung == []
    assert await store.give_back(name, holder, False, soon())
    await bell.until_rung(name)
    assert await store.ask(wish(name, third), soon()) == Busy(None)
    assert (await granted(store, name, second)).token > first.token
    bell.rung.clear()
    assert await store.give_back(name, second, False, soon())
    await bell.until_rung(name)
    assert isinstance(await store.ask(wish(name, third), soon()), Granted)


async def test_busy_without_waiting_leaves_nothing(
    store: ZooKeeperStore, other: KazooClient, name: str
) -> None:
    holder, late = new_owner(), new_owner()
    await granted(store, name, holder)
    assert await store.ask(wish(name, late, waits=False), soon()) == Busy(None)
    assert len(other.get_children(f"/redisson_py/{name}")) == 1
    assert await store.give_back(name, late, False, soon()) is False


async def test_a_waiter_that_will_not_wait_longer_leaves_nothing(
    store: ZooKeeperStore, other: KazooClient, name: str
) -> None:
    holder, late = new_owner(), new_owner()
    await granted(store, name, holder)
    assert await store.ask(wish(name, late), soon()) == Busy(None)
    assert len(other.get_children(f"/redisson_py/{name}")) == 2
    assert await store.ask(wish(name, late, waits=False), soon()) == Busy(None)
    assert len(other.get_children(f"/redisson_py/{name}")) == 1


async def test_a_waiter_that_gives_up_did_not_hold(
    store: ZooKeeperStore, bell: Bell, name: str
) -> None:
    holder, second, third = new_owner(), new_owner(), new_owner()
    await granted(store, name, holder)
    assert await store.ask(wish(name, second), soon()) == Busy(None)
    assert await store.ask(wish(name, third), soon()) == Busy(None)
    assert await store.give_back(name, second, False, soon()) is False
    # The third was told, and now watches the holder.
    await bell.until_rung(name)
    bell.rung.clear()
    assert await store.ask(wish(name, third), soon()) == Busy(None)
    await store.give_back(name, holder, False, soon())
    await bell.until_rung(name)
    await granted(store, name, third)


async def test_giving_back_twice_holds_once(store: ZooKeeperStore, name: str) -> None:
    owner = new_owner()
    await granted(store, name, owner)
    assert await store.give_back(name, owner, False, soon()) is True
    assert await store.give_back(name, owner, False, soon()) is False
    assert (await store.look(name, soon())).holder is None


async def test_an_owner_that_gave_back_is_granted_nothing(store: ZooKeeperStore, name: str) -> None:
    owner = new_owner()
    assert await store.give_back(name, owner, True, soon()) is False
    with pytest.raises(BackendError, match=r"gave .* back and cannot ask again"):
        await store.ask(wish(name, owner), soon())
    assert (await store.look(name, soon())).holder is None


def test_starts_again_in_another_event_loop(server: ZooKeeperServer) -> None:
    store = ZooKeeperStore.from_url(server.url, LEASE)

    async def hold() -> None:
        await store.start(Bell(), soon())
        await granted(store, "loops", new_owner())

    for _ in range(2):
        asyncio.run(hold())
        store.leave_behind()
    while any("zk_loop" in thread.name for thread in threading.enumerate()):
        time.sleep(0.01)


async def test_tokens_grow_over_names_and_emptied_directories(
    store: ZooKeeperStore, other: KazooClient, name: str
) -> None:
    tokens: list[int] = []
    for _ in range(3):
        owner = new_owner()
        tokens.append((await granted(store, name, owner)).token)
        await store.give_back(name, owner, False, soon())
    other.delete(f"/redisson_py/{name}")
    tokens.append((await granted(store, name, new_owner())).token)
    assert tokens == sorted(set(tokens))


async def test_renews_what_is_there_and_nothing_else(store: ZooKeeperStore, name: str) -> None:
    mine, lost = new_owner(), new_owner()
    hold, other_hold = await granted(store, name, mine), await granted(store, f"{name}2", lost)
    await store.force_release(f"{name}2", soon())
    before = now()
    ends = await store.renew(
        [
            renewal(name, mine, hold),
            renewal(f"{name}2", lost, other_hold),
            Renewal(name, mine, hold.token + 1, LEASE),
            Renewal(name, new_owner(), hold.token, LEASE),
            renewal(name, mine, hold, lease=0),
        ],
        soon(),
    )
    assert [until is not None for until in ends] == [True, False, False, False, True]
    assert ends[0] is not None
    assert before < ends[0] <= now() + LEASE


async def test_a_newer_hold_of_the_name_is_another_hold(store: ZooKeeperStore, name: str) -> None:
    owner, later = new_owner(), new_owner()
    old = await granted(store, name, owner)
    await store.give_back(name, owner, False, soon())
    await granted(store, name, later)
    assert await store.renew([Renewal(name, later, old.token, LEASE)], soon()) == [None]
    assert await store.give_back(name, owner, False, soon()) is False
    assert (await store.look(name, soon())).holder is not None


async def test_a_hold_with_a_lease_of_its_own_ends_no_later(
    store: ZooKeeperStore, name: str
) -> None:
    before = now()
    short = await store.ask(wish(name, new_owner(), lease=1.0), soon())
    long = await store.ask(wish(f"{name}2", new_owner(), lease=99.0), soon())
    assert isinstance(short, Granted)
    assert isinstance(long, Granted)
    assert before < short.until - 1.0 <= now()
    assert before < long.until <= now() + LEASE


async def test_force_release_ends_the_hold_and_rings(
    store: ZooKeeperStore, bell: Bell, name: str
) -> None:
    holder, second = new_owner(), new_owner()
    hold = await granted(store, name, holder)
    assert await store.ask(wish(name, second), soon()) == Busy(None)
    assert await store.force_release(name, soon()) is True
    await bell.until_rung(name)
    assert await store.renew([renewal(name, holder, hold)], soon()) == [None]
    assert await store.give_back(name, holder, False, soon()) is False
    await granted(store, name, second)
    assert await store.force_release(f"{name} that nobody has", soon()) is False


async def test_a_waiter_whose_node_was_deleted_takes_another(
    store: ZooKeeperStore, other: KazooClient, name: str
) -> None:
    holder, second = new_owner(), new_owner()
    await granted(store, name, holder)
    assert await store.ask(wish(name, second), soon()) == Busy(None)
    directory = f"/redisson_py/{name}"
    other.delete(f"{directory}/{max(other.get_children(directory), key=lambda it: it[-10:])}")
    assert await store.ask(wish(name, second), soon()) == Busy(None)
    assert (await store.look(name, soon())).waiters == (second,)


async def test_the_node_of_another_session_is_not_the_hold(
    store: ZooKeeperStore, other: KazooClient, name: str
) -> None:
    owner = new_owner()
    hold = await granted(store, name, owner)
    path = (await store.look(name, soon())).keys[1]
    other.create(f"/redisson_py/{name}/stays")
    other.delete(path)
    other.create(path, owner.encode(), ephemeral=True)
    assert await store.renew([renewal(name, owner, hold)], soon()) == [None]


async def test_a_change_of_the_node_before_does_not_end_the_watch(
    store: ZooKeeperStore, bell: Bell, other: KazooClient, name: str
) -> None:
    holder, second = new_owner(), new_owner()
    await granted(store, name, holder)
    assert await store.ask(wish(name, second), soon()) == Busy(None)
    other.set((await store.look(name, soon())).keys[1], b"changed")
    await bell.until_rung(name)
    assert await store.ask(wish(name, second), soon()) == Busy(None)
    bell.rung.clear()
    await store.give_back(name, holder, False, soon())
    await bell.until_rung(name)
    await granted(store, name, second)


async def test_looks_at_a_name_and_at_one_that_nobody_has(
    store: ZooKeeperStore, other: KazooClient, name: str
) -> None:
    path = f"/redisson_py/{name}"
    assert await store.look(name, soon()) == State(None, (), (path,))
    owner, waiter = new_owner(), new_owner()
    hold = await granted(store, name, owner)
    await store.ask(wish(name, waiter), soon())
    state = await store.look(name, soon())
    assert state.holder is not None
    assert (state.holder.owner, state.holder.token) == (owner, hold.token)
    assert 0 < state.holder.remaining <= LEASE
    assert state.waiters == (waiter,)
    assert other.get(state.keys[1])[1].czxid == hold.token


async def test_children_that_are_no_contenders_do_not_count(
    store: ZooKeeperStore, other: KazooClient, name: str
) -> None:
    other.create(f"/redisson_py/{name}/a", b"", makepath=True)
    other.create(f"/redisson_py/{name}/0000000000", b"")
    await granted(store, name, new_owner())


async def test_directories_disappear_when_they_are_empty(tmp_path: Path) -> None:
    options = ("-Dznode.container.checkIntervalMs=100", "-Dznode.container.maxPerMinute=100000")
    with zookeeper_or_skip(tmp_path, *options) as server:
        async with opened(server.url) as store:
            owner = new_owner()
            await granted(store, "/gone/deep/lock", owner)
            await store.give_back("/gone/deep/lock", owner, False, soon())
            while b"/gone" in server.tell("dump") or b"Node count: 5" not in server.tell("srvr"):
                await asyncio.sleep(0.05)
            await granted(store, "/gone/deep/lock", new_owner())


async def test_a_client_that_stops_leaves_nothing(
    server: ZooKeeperServer, other: KazooClient, name: str
) -> None:
    async with opened(server.url) as store:
        await granted(store, name, new_owner())
        await store.ask(wish(name, new_owner()), soon())
        assert len(other.get_children(f"/redisson_py/{name}")) == 2
    assert other.get_children(f"/redisson_py/{name}") == []


async def test_starts_again_after_it_stopped(server: ZooKeeperServer, name: str) -> None:
    store, bell = ZooKeeperStore.from_url(server.url, LEASE), Bell()
    for _ in range(2):
        await store.start(bell, soon())
        await store.ping(soon())
        await granted(store, name, new_owner())
        await store.stop()
    assert bell.all == 0


async def test_the_path_of_the_url_comes_before_every_name(
    server: ZooKeeperServer, other: KazooClient, name: str
) -> None:
    async with opened(f"{server.url}/apps/one") as store:
        await granted(store, name, new_owner())
        await granted(store, f"/{name}", new_owner())
        assert store.where == f"127.0.0.1:{server.port}/apps/one"
        assert len(other.get_children(f"/apps/one/redisson_py/{name}")) == 1
        assert len(other.get_children(f"/apps/one/{name}")) == 1


@pytest.mark.parametrize(
    "odd",
    ["", ".", "..", "zookeeper", "/", "/zookeeper/x", "a//b", "/a/", "nul\0", "€ ü", "🔒", "%2E"],
    ids=repr,
)
async def test_any_name_can_be_held(store: ZooKeeperStore, odd: str) -> None:
    owner = new_owner()
    hold = await granted(store, odd, owner)
    assert await store.renew([renewal(odd, owner, hold)], soon()) != [None]
    assert await store.give_back(odd, owner, False, soon()) is True


async def test_uses_the_session_timeout_that_the_server_grants(tmp_path: Path) -> None:
    # A session that is not over before its first grant is.
    with zookeeper_or_skip(tmp_path, lines=("minSessionTimeout=5000",)) as server:
        async with opened(server.url, lease=0.1) as store:
            assert store.session_timeout == pytest.approx(5)
            before = now()
            answer = await granted(store, "short", new_owner())
            assert before + 0.1 < answer.until <= now() + 5


async def test_a_missing_permission_is_said_and_nothing_is_left(
    server: ZooKeeperServer, store: ZooKeeperStore, other: KazooClient
) -> None:
    other.add_auth("digest", "ann:secret")
    acl = [make_digest_acl("ann", "secret", all=True)]
    other.create("/closed", b"", acl=acl)
    owner = new_owner()
    for call in (store.ask(wish("/closed/lock", owner), soon()), store.look("/closed", soon())):
        with pytest.raises(BackendError, match=r"'/closed.*ACL") as caught:
            await call
        assert type(caught.value) is BackendError
    assert other.get_children("/closed") == []
    assert await store.give_back("/closed/lock", owner, True, soon()) is False
    authorized = server.url.replace("://", "://ann:secret@")
    async with opened(authorized) as allowed:
        assert "secret" not in f"{allowed!r} {allowed.where}"
        await granted(allowed, "/closed/lock", owner)


async def test_renewals_of_many_holds_are_one_exchange(store: ZooKeeperStore, name: str) -> None:
    holds = [(f"{name}-{number}", new_owner()) for number in range(50)]
    grants = await asyncio.gather(*(granted(store, *hold) for hold in holds))
    batch = [renewal(*hold, grant) for hold, grant in zip(holds, grants, strict=True)]
    ends = await store.renew(batch, soon())
    assert list(await store.renew([], soon())) == []
    assert len(set(ends)) == 1
    assert ends[0] is not None
