"""Our locks, `etcdctl lock`, and what only Go's `concurrency.Mutex` has; see `test_interop`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redisson_py._stores.locks import FencedStoreLock
from tests.stores.etcd.server import Etcdctl, EtcdServer
from tests.stores.test_interop import LONG, lock_of, queued
from tests.stores.workers import Worker
from tests.support.any_client import Client

pytestmark = pytest.mark.usefixtures("no_polls")


@pytest.mark.parametrize("odd", ["plain", "with/a slash", "/locks/orders", "ends/"])
async def test_etcdctl_and_we_alternate(
    server: EtcdServer, client: Client, other: Client, odd: str
) -> None:
    lock = lock_of(client, odd)
    # Under an etcd lease of its own; the key is the same.
    lease = await lock.acquire(lease_time=60)
    async with Etcdctl(server, "lock", "--ttl", "5", "--", odd) as etcdctl:
        await queued(lock, 1)
        snapshot = await lock.inspect()
        (their_owner,) = snapshot.waiters or ()
        assert snapshot.holders[0].remaining > 50
        assert snapshot.keys == (f"{odd}/",)
        waiting = asyncio.create_task(other.get_lock(odd).acquire())
        await queued(lock, 2)
        await lease.release()
        assert await etcdctl.read_row() == f"{odd}/{their_owner}"
        assert await lock.try_acquire() is None
        snapshot = await lock.inspect()
        # It writes no value: its lease stands for it.
        assert snapshot.holders[0].owner == their_owner
        assert 0 < snapshot.holders[0].remaining <= 5
        assert snapshot.waiters is not None
        assert len(snapshot.waiters) == 1
        assert snapshot.waiters[0].startswith(other.id)
        await etcdctl.leave()
        await (await waiting).release()
    assert await asyncio.to_thread(server.keys, f"{odd}/") == []


async def test_tokens_grow_from_language_to_language(go: Worker, client: Client, name: str) -> None:
    lock = client.get_fenced_lock(name)
    assert isinstance(lock, FencedStoreLock)
    tokens = []
    for _ in range(2):
        async with lock as lease:
            tokens.append(lease.token)
        assert await go.acquire(name)
        holder = (await lock._state()).holder
        assert holder is not None
        assert await go.key(name) == f"{name}/{holder.owner}"
        tokens.append(holder.token)
        await go.release(name)
    assert tokens == sorted(set(tokens))


async def test_what_go_takes_for_contenders_of_both_kinds(
    go: Worker, client: Client, other: Client, name: str
) -> None:
    """Go's two kinds wait for each other, but for a reader; ours wait for Go's of one kind."""
    ours: Any = client
    sides = ours.get_read_write_lock(name)
    async with client.get_lock(name):
        assert not await go.acquire(f"write:{name}")
        assert await go.acquire(f"read:{name}", "reader", LONG)
        async with sides.read_lock():
            pass
    # A reader of Go's stays: its mutex waits for it, and our lock does not.
    assert not await go.acquire(name)
    async with client.get_lock(name):
        pass
    await go.release(f"read:{name}", "reader")
    async with sides.write_lock(), other.get_lock(name):
        assert not await go.acquire(name)
    assert await go.acquire(name)
    async with sides.write_lock(), sides.read_lock():
        pass
    await go.release(name)
    # What begins with `name/write` keeps Go's readers out.
    async with client.get_lock(f"{name}/writes"):
        assert not await go.acquire(f"read:{name}")
        async with sides.read_lock():
            pass
