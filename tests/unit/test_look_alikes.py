"""Fakes and clients of other libraries are refused at once; the text says what to use instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast
from unittest.mock import AsyncMock, MagicMock, Mock, create_autospec

import fakeredis
import fakeredis.aioredis
import pytest
import redis
import redis.asyncio
import valkey
import valkey.asyncio
from redis.asyncio import ConnectionPool, Redis, RedisCluster

import redisson_py.sync
from redisson_py import Redisson


class OwnFake(fakeredis.FakeAsyncRedis):
    """A fixture of somebody's."""


FAKES: dict[str, Callable[[], object]] = {
    "fakeredis": fakeredis.FakeAsyncRedis,
    "fakeredis_url": lambda: fakeredis.FakeAsyncRedis.from_url("redis://localhost:6379"),
    "fakeredis_subclass": OwnFake,
    "fakeredis_pool": lambda: Redis(
        connection_pool=ConnectionPool(
            connection_class=cast("Any", fakeredis.aioredis.FakeConnection)
        )
    ),
    "fakeredis_threads": fakeredis.FakeRedis,
    "fakeredis_valkey": fakeredis.FakeAsyncValkey,
    "mock": Mock,
    "magic_mock": MagicMock,
    "async_mock": AsyncMock,
    "mock_like_redis": lambda: AsyncMock(spec=Redis),
    "mock_like_cluster": lambda: MagicMock(spec=RedisCluster),
    "mock_like_an_object": lambda: AsyncMock(spec=Redis()),
    "autospec": lambda: create_autospec(Redis, instance=True),
}

OTHERS: dict[str, tuple[Callable[[], object], str]] = {
    "redis_threads": (redis.Redis, r"not redis\.client\.Redis, which is synchronous.*sync"),
    "valkey": (valkey.Valkey, r"not valkey\.client\.Valkey\. Redisson\.from_url takes"),
    "valkey_asyncio": (valkey.asyncio.Valkey, r"not valkey\.asyncio.*Redisson\.from_url takes"),
    "class": (lambda: Redis, r"not the class redis\.asyncio\.client\.Redis itself"),
    "pool": (ConnectionPool, r"not redis\.asyncio\.connection\.ConnectionPool\. Redisson\.from"),
    "ours": (lambda: Redisson.from_url("redis://h"), r"not redisson_py\.Redisson\."),
    "text": (lambda: "localhost:6379", r"Redisson\.from_url takes a URL"),
    "bytes": (lambda: b"redis://localhost", r"Redisson\.from_url takes a URL"),
    "none": (lambda: None, r"not NoneType\."),
    "settings": (lambda: {"host": "localhost"}, r"not dict\."),
}

both = pytest.mark.parametrize("make", [Redisson, redisson_py.sync.Redisson], ids=["async", "sync"])


@both
@pytest.mark.parametrize("name", FAKES)
async def test_fakes_are_refused_and_the_text_names_what_tests_can_use(
    name: str, make: Callable[[object], object]
) -> None:
    with pytest.raises(TypeError, match=r"is a fake.*redisson_py\.testing.*docs/testing\.md"):
        make(FAKES[name]())


@both
@pytest.mark.parametrize("name", OTHERS)
async def test_clients_of_other_kinds_are_refused(
    name: str, make: Callable[[object], object]
) -> None:
    other, text = OTHERS[name]
    with pytest.raises(TypeError, match=text):
        make(other())


@both
def test_subclasses_of_users_are_taken(make: Callable[[object], object]) -> None:
    class Ours(Redis):
        pass

    class OurConnection(redis.asyncio.Connection):
        pass

    pool = ConnectionPool(connection_class=OurConnection, host="example.org", port=7)
    assert repr(make(Ours(connection_pool=pool))) == "<Redisson example.org:7: 0 held>"
