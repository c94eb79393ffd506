"""A MultiLock of locks of ZooKeeper that have one name, or directories in common."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from redisson_py import MultiLock
from redisson_py.locks.lock_like import LockLike
from redisson_py.zookeeper import ZooKeeper
from tests.stores.backends import Backend
from tests.stores.conftest import assert_idle

pytestmark = pytest.mark.usefixtures("no_polls")

_numbers = itertools.count()

#: Seconds for what must happen soon, however busy the machine is.
SOON = 10.0


@pytest_asyncio.fixture
async def clients(backend: Backend) -> AsyncIterator[tuple[ZooKeeper, ZooKeeper]]:
    """Two clients, which the test must leave idle."""
    one, other = backend.client(), backend.client()
    assert isinstance(one, ZooKeeper)
    assert isinstance(other, ZooKeeper)
    async with one, other:
        yield one, other
        await assert_idle(one)
        await assert_idle(other)


@pytest.fixture
def name() -> str:
    return f"multi-{next(_numbers)}"


def of_kind(client: ZooKeeper, kind: str, name: str) -> LockLike:
    """Return the lock of a kind."""
    if kind in ("read", "write"):
        both = client.get_read_write_lock(name)
        return both.read_lock() if kind == "read" else both.write_lock()
    if kind == "semaphore":
        return client.get_semaphore_mutex(name)
    return client.get_fenced_lock(name) if kind == "fenced" else client.get_lock(name)


@pytest.mark.parametrize("kind", ["lock", "fenced", "read", "write"])
async def test_a_semaphore_mutex_of_the_same_name_is_another_lock(
    clients: tuple[ZooKeeper, ZooKeeper], name: str, kind: str
) -> None:
    one, other = clients
    mine = MultiLock(of_kind(one, kind, name), of_kind(one, "semaphore", name))
    theirs = MultiLock(of_kind(other, "semaphore", name), of_kind(other, kind, name))
    async with mine:
        assert await of_kind(one, kind, name).owned()
        assert await of_kind(one, "semaphore", name).owned()
        assert await theirs.try_acquire() is None
        waiter = asyncio.create_task(theirs.acquire())
    async with asyncio.timeout(SOON):
        lease = await waiter
        assert await mine.try_acquire() is None
        await lease.release()
    for member in ("semaphore", kind):
        snapshot = await of_kind(one, member, name).inspect()
        assert not snapshot.holders
        assert not snapshot.waiters


@pytest.mark.parametrize("kind", ["lock", "semaphore"])
async def test_a_busy_member_of_one_of_the_kinds_is_enough(
    clients: tuple[ZooKeeper, ZooKeeper], name: str, kind: str
) -> None:
    one, other = clients
    mine = MultiLock(one.get_lock(name), one.get_semaphore_mutex(name))
    async with of_kind(other, kind, name):
        assert await mine.try_acquire() is None
        assert await one.get_lock(name).locked() == (kind == "lock")
        assert await one.get_semaphore_mutex(name).locked() == (kind == "semaphore")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("lock", "lock"),
        ("lock", "fenced"),
        ("semaphore", "semaphore"),
        ("read", "read"),
        ("read", "write"),
        ("write", "write"),
        # They have one directory.
        ("lock", "read"),
        ("fenced", "write"),
    ],
)
async def test_what_has_one_directory_is_refused(
    clients: tuple[ZooKeeper, ZooKeeper], name: str, one: str, other: str
) -> None:
    for client in clients:
        with pytest.raises(ValueError, match="are the same lock in ZooKeeper"):
            MultiLock(of_kind(clients[0], one, name), of_kind(client, other, name))


async def test_two_names_of_one_directory_are_one_lock(
    clients: tuple[ZooKeeper, ZooKeeper], name: str
) -> None:
    client, _ = clients
    with pytest.raises(ValueError, match="are the same lock in ZooKeeper"):
        MultiLock(client.get_lock(name), client.get_lock(f"/redisson_py/{name}"))
    with pytest.raises(ValueError, match="are the same lock in ZooKeeper"):
        MultiLock(client.get_semaphore_mutex(name), client.get_lock(f"/redisson_py/{name}/leases"))
    with pytest.raises(ValueError, match="are the same lock in ZooKeeper"):
        MultiLock(client.get_semaphore_mutex(name), client.get_lock(f"/redisson_py/{name}/locks"))
