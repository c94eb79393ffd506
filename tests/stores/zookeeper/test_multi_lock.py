"""A MultiLock of locks of ZooKeeper that have one name, or directories in common."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redisson_py import MultiLock
from tests.stores.backends import lock_of
from tests.stores.traces import SOON

pytestmark = pytest.mark.usefixtures("no_polls")


@pytest.mark.parametrize("kind", ["fenced", "read", "write"])
async def test_a_semaphore_mutex_of_the_same_name_is_another_lock(
    client: Any, other: Any, name: str, kind: str
) -> None:
    mine = MultiLock(lock_of(client, name, kind), lock_of(client, name, "semaphore"))
    theirs = MultiLock(lock_of(other, name, "semaphore"), lock_of(other, name, kind))
    async with mine:
        assert await lock_of(client, name, kind).owned()
        assert await lock_of(client, name, "semaphore").owned()
        assert await theirs.try_acquire() is None
        waiter = asyncio.create_task(theirs.acquire())
    async with asyncio.timeout(SOON):
        lease = await waiter
        assert await mine.try_acquire() is None
        await lease.release()


@pytest.mark.parametrize("kind", ["fenced", "semaphore"])
async def test_a_busy_member_of_one_of_the_kinds_is_enough(
    client: Any, other: Any, name: str, kind: str
) -> None:
    mine = MultiLock(lock_of(client, name, "fenced"), lock_of(client, name, "semaphore"))
    async with lock_of(other, name, kind):
        assert await mine.try_acquire() is None
        assert await lock_of(client, name, "fenced").locked() == (kind == "fenced")
        assert await lock_of(client, name, "semaphore").locked() == (kind == "semaphore")


@pytest.mark.parametrize(
    ("kind", "beside", "inside"),
    [
        ("fenced", "fenced", ""),
        ("semaphore", "semaphore", ""),
        ("read", "read", ""),
        ("read", "write", ""),
        ("write", "write", ""),
        # They have one directory.
        ("fenced", "read", ""),
        ("fenced", "write", ""),
        ("semaphore", "fenced", "/leases"),
        ("semaphore", "fenced", "/locks"),
    ],
)
async def test_what_has_one_directory_is_refused(
    client: Any, other: Any, name: str, kind: str, beside: str, inside: str
) -> None:
    for each in (client, other):
        with pytest.raises(ValueError, match="are the same lock in ZooKeeper"):
            MultiLock(lock_of(client, name, kind), lock_of(each, name + inside, beside))
    # A name that is no path has one all the same.
    with pytest.raises(ValueError, match="are the same lock in ZooKeeper"):
        MultiLock(
            lock_of(client, "plain", kind), lock_of(client, f"/redisson_py/plain{inside}", beside)
        )
