"""Replies that get lost, servers that are silent, and threads that are none."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace

import pytest
from redis.asyncio import Redis

from redisson_py.sync import FencedLease, Redisson, _loop_thread
from redisson_py.testing import FaultProxy
from tests.fixtures.redis_server import ProxyFactory
from tests.sync.threads import ClientFactory


@pytest.fixture
async def link(proxy: ProxyFactory, redis: Redis) -> FaultProxy:
    """A proxy before the session's server."""
    return await proxy()


@pytest.fixture
def far(clients: ClientFactory, link: FaultProxy) -> Redisson:
    """A client behind the proxy."""
    return clients(link.url, lease_time=20)


async def test_a_lost_reply_of_an_acquire_and_of_a_release_counts_once(
    far: Redisson, link: FaultProxy, redis: Redis
) -> None:
    def work() -> list[int]:
        lock = far.get_fenced_lock("k")
        tokens = []
        for _ in range(4):
            # Of the acquire, then of the release.
            link.cut_after_execution(lambda command: b"EVALSHA" in command)
            with lock as lease:
                assert isinstance(lease, FencedLease)
                assert lock.hold_count() == 1
                tokens.append(lease.token)
                link.cut_after_execution(lambda command: b"EVALSHA" in command)
        return tokens

    await asyncio.to_thread(far.ping)
    tokens = await asyncio.to_thread(work)
    assert tokens == sorted({*tokens})
    assert link.triggered >= 4
    assert not await redis.exists("k")


@pytest.mark.parametrize("kind", ["gevent", "eventlet"])
def test_patched_threads_are_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patched = SimpleNamespace(
        is_module_patched=lambda name: name == "threading",
        is_monkey_patched=lambda name: name == "thread",
    )
    where = {"gevent": "gevent.monkey", "eventlet": "eventlet.patcher"}[kind]
    monkeypatch.setitem(sys.modules, where, patched)
    with monkeypatch.context() as patch:
        patch.setattr(_loop_thread, "_running", None)
        with pytest.raises(RuntimeError, match="gevent or eventlet"):
            Redisson.from_url("redis://127.0.0.1:1").ping()
