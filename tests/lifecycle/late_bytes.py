"""Commands whose replies are lost, and whose bytes a slow network delivers once more, late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import urlsplit

from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py.testing import FaultProxy

#: The kinds of locks on one key, `k`, that a task may enter again, each with scripts of its own. A
#: fenced lock is released, extended and renewed by those of a lock.
REENTRANT: dict[str, Callable[[Redisson], Any]] = {
    "lock": lambda client: client.get_lock("k"),
    "fair_lock": lambda client: client.get_fair_lock("k"),
    "write_lock": lambda client: client.get_read_write_lock("k").write_lock(),
    "read_lock": lambda client: client.get_read_write_lock("k").read_lock(),
    "multi_lock": lambda client: client.get_multi_lock(client.get_lock("k"), client.get_lock("l")),
}


async def executed(link: FaultProxy, call: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Return a call that was executed and not answered; repeated after `link.pass_through()`."""
    link.cut_after_execution(b"EVALSHA")
    link.refuse()
    calling = asyncio.create_task(call)
    await link.wait_until(lambda link: link.triggered == 1)
    return calling


async def deliver_late(url: str, commands: list[bytes]) -> None:
    """Have the server execute bytes of a connection that broke; nobody reads the replies."""
    assert commands, "nothing was lost"
    address = urlsplit(url)
    async with asyncio.timeout(30):
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        try:
            writer.write(b"".join(commands) + b"ECHO delivered\r\n")
            replies = await reader.readuntil(b"$9\r\ndelivered\r\n")
        finally:
            writer.close()
            await writer.wait_closed()
    assert b"NOSCRIPT" not in replies


async def recorded(redis: Redis) -> dict[Any, Any]:
    """Return the holders, as the server records them: the hashes, without leases."""
    found: dict[Any, Any] = {}
    for key in await redis.keys():
        if await redis.type(key) == b"hash":
            found[key] = await redis.hgetall(key)
    return found


async def shortest_lease(redis: Redis) -> int:
    """Return the shortest remaining lease of all locks on the server, in milliseconds."""
    return min([await redis.pttl(key) for key in await recorded(redis)])
