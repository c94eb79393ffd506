"""The ZooKeeper store: turns, tokens, renewals, and what it leaves, on a real server."""

from __future__ import annotations

from pathlib import Path

import pytest
from kazoo.client import KazooClient

from redisson_py._stores.contract import Busy, Kind, Renewal, State
from redisson_py._stores.zookeeper import ZooKeeperStore
from redisson_py._time import now
from redisson_py.errors import BackendError
from tests.stores.bell import Bell
from tests.stores.zookeeper.server import ZooKeeperServer
from tests.stores.zookeeper.support import (
    LEASE,
    ask,
    give_back,
    granted,
    new_owner,
    nodes,
    opened,
    renewed,
    soon,
    zookeeper_or_skip,
)


@pytest.mark.parametrize("kind", ["lock", "semaphore"])
async def test_a_second_ask_changes_nothing(
    store: ZooKeeperStore, theirs: ZooKeeperStore, name: str, kind: Kind
) -> None:
    holder, second, third = new_owner(), new_owner(), new_owner()
    first = await granted(store, name, holder, kind)
    again = await granted(store, name, holder, kind)
    assert again.token == first.token
    assert again.until >= first.until
    for owner in (second, third, second):
        assert await ask(theirs, name, owner, kind) == Busy(None)
    assert (await store.look(name, soon(), kind)).waiters == (second, third)


async def test_a_waiter_is_rung_for_and_granted_in_order(
    store: ZooKeeperStore, bell: Bell, name: str
) -> None:
    holder, second, third = new_owner(), new_owner(), new_owner()
    first = await granted(store, name, holder)
    assert await ask(store, name, second) == Busy(None)
    assert await ask(store, name, third) == Busy(None)
    assert bell.rung == []
    assert await give_back(store, name, holder)
    await bell.heard(name)
    assert await ask(store, name, third) == Busy(None)
    assert (await granted(store, name, second)).token > first.token
    assert await give_back(store, name, second)
    await bell.heard(name)
    await granted(store, name, third)


async def test_a_waiter_that_will_not_wait_longer_leaves_nothing(
    store: ZooKeeperStore, kazoo: KazooClient, name: str
) -> None:
    holder, late = new_owner(), new_owner()
    await granted(store, name, holder)
    assert await ask(store, name, late, waits=False) == Busy(None)
    assert len(nodes(kazoo, name)) == 1
    assert await ask(store, name, late) == Busy(None)
    assert len(nodes(kazoo, name)) == 2
    assert await ask(store, name, late, waits=False) == Busy(None)
    assert len(nodes(kazoo, name)) == 1
    assert await give_back(store, name, late) is False


async def test_an_owner_that_gave_back_is_granted_nothing(store: ZooKeeperStore, name: str) -> None:
    owner = new_owner()
    assert await give_back(store, name, owner, unsure=True) is False
    with pytest.raises(BackendError, match=r"gave .* back and cannot ask again"):
        await ask(store, name, owner)
    assert (await store.look(name, soon())).holder is None


async def test_tokens_grow_across_names_and_emptied_directories(
    store: ZooKeeperStore, kazoo: KazooClient, name: str
) -> None:
    tokens: list[int] = []
    for _ in range(3):
        owner = new_owner()
        tokens.append((await granted(store, name, owner)).token)
        await give_back(store, name, owner)
    kazoo.delete(name)
    tokens.append((await granted(store, name, new_owner())).token)
    assert tokens == sorted(set(tokens))


async def test_renews_what_is_there_and_nothing_else(store: ZooKeeperStore, name: str) -> None:
    mine, lost = new_owner(), new_owner()
    hold, other_hold = await granted(store, name, mine), await granted(store, f"{name}2", lost)
    await store.force_release(f"{name}2", soon())
    before = now()
    ends = await store.renew(
        [
            Renewal(name, mine, hold.token, LEASE),
            Renewal(f"{name}2", lost, other_hold.token, LEASE),
            Renewal(name, mine, hold.token + 1, LEASE),
            Renewal(name, new_owner(), hold.token, LEASE),
            Renewal(name, mine, hold.token, 0),
        ],
        soon(),
    )
    assert ends[1:4] == [None] * 3
    assert ends[0] is not None
    assert before < ends[0] <= now() + LEASE
    # All of them in one exchange.
    assert ends[4] == ends[0]


async def test_a_newer_hold_of_the_name_is_another_hold(store: ZooKeeperStore, name: str) -> None:
    owner, later = new_owner(), new_owner()
    old = await granted(store, name, owner)
    await give_back(store, name, owner)
    await granted(store, name, later)
    assert await renewed(store, name, later, old) is None
    assert await give_back(store, name, owner) is False
    assert (await store.look(name, soon())).holder is not None


async def test_the_node_of_another_session_is_not_the_hold(
    store: ZooKeeperStore, kazoo: KazooClient, name: str
) -> None:
    owner = new_owner()
    hold = await granted(store, name, owner)
    path = (await store.look(name, soon())).keys[1]
    kazoo.create(f"{name}/stays")
    kazoo.delete(path)
    kazoo.create(path, owner.encode(), ephemeral=True)
    assert await renewed(store, name, owner, hold) is None


@pytest.mark.parametrize("kind", ["lock", "semaphore"])
async def test_a_hold_with_a_lease_of_its_own_ends_no_later(
    store: ZooKeeperStore, name: str, kind: Kind
) -> None:
    before = now()
    short = await granted(store, name, new_owner(), kind, lease=1.0)
    long = await granted(store, f"{name}2", new_owner(), kind, lease=99.0)
    assert before < short.until - 1.0 <= now()
    assert before < long.until <= now() + LEASE


@pytest.mark.parametrize("kind", ["lock", "semaphore"])
async def test_looks_at_a_name_and_at_one_that_nobody_has(
    store: ZooKeeperStore, theirs: ZooKeeperStore, kazoo: KazooClient, name: str, kind: Kind
) -> None:
    assert await store.look(name, soon(), kind) == State(None, (), (name,))
    holder, second, third = new_owner(), new_owner(), new_owner()
    hold = await granted(store, name, holder, kind)
    for owner in (second, third):
        assert await ask(theirs, name, owner, kind) == Busy(None)
    state = await theirs.look(name, soon(), kind)
    assert state.holder is not None
    assert (state.holder.owner, state.holder.token) == (holder, hold.token)
    assert 0 < state.holder.remaining <= LEASE
    assert state.waiters == (second, third)
    assert kazoo.get(state.keys[1])[1].czxid == hold.token


async def test_the_path_of_the_url_comes_before_every_name(
    server: ZooKeeperServer, kazoo: KazooClient
) -> None:
    async with opened(f"{server.url}/apps/one") as store:
        await granted(store, "plain", new_owner())
        await granted(store, "/path", new_owner())
        assert store.where == f"127.0.0.1:{server.port}/apps/one"
        assert len(nodes(kazoo, "/apps/one/redisson_py/plain")) == 1
        assert len(nodes(kazoo, "/apps/one/path")) == 1


async def test_uses_the_session_timeout_that_the_server_grants(tmp_path: Path) -> None:
    # A session that is not over before its first grant is.
    with zookeeper_or_skip(tmp_path, rows=("minSessionTimeout=5000",)) as server:
        async with opened(server.url, lease=0.1) as store:
            assert store.session_timeout == pytest.approx(5)
            before = now()
            answer = await granted(store, "short", new_owner())
            assert before + 0.1 < answer.until <= now() + 5
