"""What ZooKeeper refuses to delete, or does not answer for, is deleted later in its session."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

import pytest
import pytest_asyncio
from kazoo.client import KazooClient
from kazoo.security import make_acl

from redisson_py._stores.contract import Granted, Kind, Wish
from redisson_py._stores.zookeeper import ZooKeeperStore
from redisson_py.errors import BackendError, ConnectionLostError
from tests.stores.zookeeper.proxy import CREATE, DELETE, ZooKeeperProxy
from tests.stores.zookeeper.server import HOST, TICK, ZooKeeperServer
from tests.stores.zookeeper.support import LEASE, LONG, Bell, new_owner, opened, soon
from tests.support.waiting import until

SHORT = 15 * TICK
KINDS: Final[tuple[Kind, ...]] = ("lock", "read", "write", "semaphore")
REFUSED = "no permission there"


@pytest.fixture(scope="module")
def admin(server: ZooKeeperServer) -> Iterator[KazooClient]:
    kazoo = KazooClient(f"{HOST}:{server.port}")
    kazoo.start()
    yield kazoo
    kazoo.stop()
    kazoo.close()


@pytest_asyncio.fixture
async def store(proxy: ZooKeeperProxy) -> AsyncIterator[ZooKeeperStore]:
    async with opened(proxy.url) as started:
        yield started


def permit(admin: KazooClient, store: ZooKeeperStore, name: str, kind: Kind, *what: str) -> None:
    """Say what clients may do with the directory of a name, beside this."""
    allowed = dict.fromkeys(what, True)
    admin.set_acls(store.keys(name, kind)[0], [make_acl("world", "anyone", admin=True, **allowed)])


def nodes(admin: KazooClient, store: ZooKeeperStore, name: str, kind: Kind) -> list[str]:
    """Return all that clients have under a name."""
    return [node for key in store.keys(name, kind) for node in admin.get_children(key)]


async def none_left(found: Callable[[], list[str]]) -> None:
    async with asyncio.timeout(LONG):
        while found():
            await asyncio.sleep(0.02)


async def ask(store: ZooKeeperStore, name: str, owner: str, kind: Kind) -> None:
    wish = Wish(name, owner, LEASE, renewed=True, waits=True, kind=kind)
    assert isinstance(await store.ask(wish, soon()), Granted)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_refused_release_is_done_later(
    store: ZooKeeperStore, admin: KazooClient, name: str, kind: Kind
) -> None:
    owner = new_owner()
    await ask(store, name, owner, kind)
    permit(admin, store, name, kind, "read", "create")
    for _ in range(2):
        with pytest.raises(BackendError, match=REFUSED) as caught:
            await store.give_back(name, owner, False, soon())
        assert not isinstance(caught.value, ConnectionLostError)
    session = store._ensemble._session
    permit(admin, store, name, kind, "all")
    await none_left(lambda: nodes(admin, store, name, kind))
    assert store._ensemble._session is session
    # It may not have read the answer yet.
    await none_left(lambda: [name for name, _ in store._owed])
    # The engine may not have heard that, and asks again: it did hold.
    assert await store.give_back(name, owner, False, soon()) is not False
    await ask(store, name, new_owner(), kind)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_release_in_the_dark_is_done_when_the_network_is_back(
    store: ZooKeeperStore, proxy: ZooKeeperProxy, admin: KazooClient, name: str, kind: Kind
) -> None:
    owner = new_owner()
    await ask(store, name, owner, kind)
    session = store._ensemble._session
    proxy.black_hole(True)
    with pytest.raises(ConnectionLostError):
        await store.give_back(name, owner, False, soon(0.2))
    assert len(nodes(admin, store, name, kind)) == 1
    proxy.cut()
    proxy.black_hole(False)
    await none_left(lambda: nodes(admin, store, name, kind))
    # It may not have read the answer yet.
    await none_left(lambda: [name for name, _ in store._owed])
    assert store._ensemble._session is session
    assert await store.give_back(name, owner, False, soon()) is True


async def test_a_question_refused_after_its_creation_leaves_nothing(
    store: ZooKeeperStore, proxy: ZooKeeperProxy, admin: KazooClient, name: str
) -> None:
    first, second = new_owner(), new_owner()
    await ask(store, name, first, "lock")
    permit(admin, store, name, "lock", "create")
    created = proxy.seen[CREATE]
    with pytest.raises(BackendError, match=REFUSED) as caught:
        await ask(store, name, second, "lock")
    assert not isinstance(caught.value, ConnectionLostError)
    assert proxy.seen[CREATE] == created + 1
    permit(admin, store, name, "lock", "all")
    assert await store.give_back(name, first, False, soon()) is True
    await none_left(lambda: nodes(admin, store, name, "lock"))
    with pytest.raises(BackendError, match="cannot ask again"):
        await ask(store, name, second, "lock")


async def test_one_refused_release_does_not_hold_up_others(
    store: ZooKeeperStore, proxy: ZooKeeperProxy, admin: KazooClient, name: str
) -> None:
    refused, lost = new_owner(), new_owner()
    for owner in (refused, lost):
        await ask(store, f"{name}-{owner}", owner, "lock")
    permit(admin, store, f"{name}-{refused}", "lock", "read")
    with pytest.raises(BackendError, match=REFUSED):
        await store.give_back(f"{name}-{refused}", refused, False, soon())
    proxy.next(DELETE, "cut before")
    proxy.refuse(True)
    with pytest.raises(ConnectionLostError):
        await store.give_back(f"{name}-{lost}", lost, False, soon(0.2))
    proxy.refuse(False)
    await none_left(lambda: nodes(admin, store, f"{name}-{lost}", "lock"))
    assert len(nodes(admin, store, f"{name}-{refused}", "lock")) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_who_asks_again_while_it_is_paid_has_the_same_answer(
    store: ZooKeeperStore, name: str, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = new_owner()
    await ask(store, name, owner, kind)
    call, paid = store._ensemble.call, asyncio.Event()
    failed = 0

    async def no_answer(*_: Any, **__: Any) -> Any:
        nonlocal failed
        failed += 1
        raise ConnectionLostError("no connection", maybe_held=True)

    async def late(*arguments: Any, **options: Any) -> Any:
        await paid.wait()
        return await call(*arguments, **options)

    monkeypatch.setattr(store._ensemble, "call", no_answer)
    with pytest.raises(ConnectionLostError):
        await store.give_back(name, owner, False, soon())
    # The store itself has tried once, in vain, and tries again later.
    await until(lambda: failed == 2)
    monkeypatch.setattr(store._ensemble, "call", late)
    again = asyncio.create_task(store.give_back(name, owner, True, soon()))
    await asyncio.sleep(0)
    monkeypatch.setattr(store._ensemble, "call", call)
    await none_left(lambda: [name for name, _ in store._owed])
    paid.set()
    assert await again is True


async def test_what_is_owed_ends_with_its_session(
    proxy: ZooKeeperProxy, admin: KazooClient, name: str
) -> None:
    bell, owner = Bell(), new_owner()
    async with opened(proxy.url, bell, SHORT) as store:
        await ask(store, name, owner, "lock")
        before = bell.all
        proxy.black_hole(True)
        with pytest.raises(ConnectionLostError):
            await store.give_back(name, owner, False, soon(0.2))
        await none_left(lambda: nodes(admin, store, name, "lock"))
        proxy.cut()
        proxy.black_hole(False)
        while store._owed:
            await bell.until_all(before := max(before, bell.all) + 1)
        assert await store.give_back(name, owner, False, soon()) is False
        await ask(store, name, new_owner(), "lock")


async def test_a_store_that_stops_leaves_nothing_that_it_owes(
    store: ZooKeeperStore, admin: KazooClient, name: str
) -> None:
    owner, tasks = new_owner(), asyncio.all_tasks()
    await ask(store, name, owner, "lock")
    permit(admin, store, name, "lock", "read")
    with pytest.raises(BackendError, match=REFUSED):
        await store.give_back(name, owner, False, soon())
    assert asyncio.all_tasks() > tasks
    await store.stop()
    assert asyncio.all_tasks() <= tasks
    await none_left(lambda: nodes(admin, store, name, "lock"))


async def test_a_driver_that_fails_does_not_leave_what_is_owed(
    store: ZooKeeperStore,
    admin: KazooClient,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    owner, failed = new_owner(), False
    await ask(store, name, owner, "lock")
    permit(admin, store, name, "lock", "read")
    with pytest.raises(BackendError, match=REFUSED):
        await store.give_back(name, owner, False, soon())
    delete = store._contenders.delete

    async def fail_once(*arguments: Any) -> Any:
        nonlocal failed
        if failed:
            return await delete(*arguments)
        failed = True
        raise RuntimeError("a defect")

    monkeypatch.setattr(store._contenders, "delete", fail_once)
    await until(lambda: failed)
    permit(admin, store, name, "lock", "all")
    await none_left(lambda: nodes(admin, store, name, "lock"))
    (told,) = (each for each in caplog.records if each.levelno >= logging.ERROR)
    assert "ZooKeeper" in told.message
