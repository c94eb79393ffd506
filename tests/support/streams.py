"""The connections of a client, one for each server, and waiting for their answers."""

from __future__ import annotations

import asyncio

from redisson_py import Redisson
from redisson_py._engine.task_ownership import TaskOwnership
from redisson_py._redis.context import RedisContext, redis_of
from redisson_py._redis.stream.router import SingleRouter
from redisson_py._redis.stream.stream import Stream

#: Keys on each of the three masters of a cluster.
EVERYWHERE = ("a", "b", "k")


def stream_of(client: Redisson, key: str = "k") -> Stream:
    """Return the stream to the server of a key; in a cluster, by the current slot map."""
    return client._router.stream_for(key.encode())


def is_single(client: Redisson) -> bool:
    """Whether a client has one server, and not a cluster."""
    return isinstance(client._router, SingleRouter)


async def answered(client: Redisson) -> None:
    """Return when all servers of a client have answered, and so executed what was sent before."""
    keys = EVERYWHERE[:1] if is_single(client) else EVERYWHERE
    await asyncio.gather(*[answered_at(client, key) for key in keys])


async def answered_at(client: Redisson, key: str) -> None:
    """Return when the server of a key has answered on each connection; errors as for `ping`."""
    await client._executor.query(key.encode(), "PING")
    stream = stream_of(client, key)
    if stream.grants is not stream:
        await client._executor.answer(stream.grants.command(("PING",), 10, key.encode()))


def parts_of(member: TaskOwnership) -> RedisContext:
    """Return the parts of the client of a lock on Redis."""
    context = redis_of(member.context)
    assert context is not None
    return context


def stream_of_member(member: TaskOwnership) -> Stream:
    """Return the stream to the server of a lock on Redis."""
    return parts_of(member).executor.router.stream_for(member.commands.key)
