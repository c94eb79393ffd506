"""Fencing tokens, of every lock that has them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redisson_py import FencedLease
from redisson_py.locks.lock_like import LockLike
from tests.contract.conftest import for_kinds
from tests.fixtures.client import ClientFactory
from tests.support.kinds import MakeLock

fenced = for_kinds(lambda kind: kind.fenced)
fenced_locks = for_kinds(lambda kind: kind.fenced and kind.reentrant)


@fenced
async def test_tokens_grow_from_holder_to_holder(
    make_lock: MakeLock, clients: ClientFactory
) -> None:
    tokens: list[int] = []

    async def work(lock: LockLike) -> None:
        for _ in range(5):
            async with lock as lease:
                assert isinstance(lease, FencedLease)
                tokens.append(lease.token)

    both = [make_lock(clients()) for _ in range(2)]
    async with asyncio.timeout(120):
        await asyncio.gather(*[work(lock) for lock in both for _ in range(3)])
    assert len(tokens) == 30
    assert tokens == sorted(set(tokens))


@fenced_locks
async def test_re_entry_keeps_the_token(lock: LockLike) -> None:
    async with lock as outer, lock as inner:
        assert inner.token == outer.token
    async with lock as later:
        assert later.token is not None
        assert outer.token is not None
        assert later.token > outer.token


@fenced_locks
@pytest.mark.usefixtures("kind")
async def test_a_plain_and_a_fenced_lock_exclude_each_other(clients: ClientFactory) -> None:
    client: Any = clients()
    other: Any = clients()
    async with client.get_lock("k") as lease:
        assert lease.token is None
        assert await other.get_fenced_lock("k").try_acquire() is None
        with pytest.raises(RuntimeError, match="no fencing token"):
            await client.get_fenced_lock("k").acquire()
    async with client.get_fenced_lock("k"):
        assert await other.get_lock("k").try_acquire() is None
