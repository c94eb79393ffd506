"""Where a lifecycle is played: servers, and links between them and the clients."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any, Protocol
from urllib.parse import urlsplit

import redis
from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py.testing import FaultProxy
from tests.lifecycle.records import Straggler
from tests.support.any_client import Client
from tests.support.cluster_look import master_of, masters_of, plain_client, url_of
from tests.support.streams import answered


class Link(Protocol):
    """What a client is behind; see `FaultProxy`."""

    def pass_through(self) -> None: ...
    def cut(self) -> int: ...
    def cut_after_execution(self, match: Straggler) -> None: ...


class Surroundings(Protocol):
    """What a world of lifecycles stands on.

    Attributes:
        redis: A plain client, to look at the keys and to delete them; None: it is not Redis.
    """

    redis: Any

    async def open(self, stack: AsyncExitStack) -> None:
        """Have servers without any key; whatever is opened is closed by `stack`."""

    def client(self, **options: Any) -> Client:
        """Return a client with a way of its own."""
        ...

    async def link(self) -> Link:
        """Return what breaks the connections of the client behind it."""

    def behind(self, link: Any, **options: Any) -> Client:
        """Return a client behind a link."""
        ...

    def set_memory(self, most: int) -> None:
        """Set how much memory the servers may use, without a turn of the loop; 0 for all."""

    async def deliver(self, commands: list[bytes]) -> None:
        """Have the server execute late commands."""

    async def answered(self, client: Any) -> None:
        """Return when what a client sent before was executed."""

    async def clear(self) -> None:
        """Delete everything."""

    async def lasting(self) -> list[bytes]:
        """Return what never expires although nobody holds it."""
        ...


class OnRedis:
    """What the surroundings on Redis have in common."""

    redis: Any

    async def answered(self, client: Redisson) -> None:
        await answered(client)

    async def clear(self) -> None:
        await self.redis.flushdb()

    async def lasting(self) -> list[bytes]:
        # Fencing counters, and semaphores with the record of their number.
        may_last = (b"redisson_lock_token:", b"semaphore", b"{semaphore}:redisson_py:total")
        keys = [key async for key in self.redis.scan_iter() if not key.startswith(may_last)]
        return [key for key in keys if await self.redis.ttl(key) == -1]


class RealServers(OnRedis):
    """A server, a cluster, or a master with sentinels; links are proxies.

    Args:
        url: The servers.
        options: More options of the clients.
    """

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self.url = url
        self.options = options

    async def open(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.redis: Redis = await stack.enter_async_context(plain_client(self.url))
        self.servers = [url_of(each) for each in await masters_of(self.redis)]
        #: Of the server that has `k`.
        self.server = url_of(await master_of(self.redis, "k"))
        if self.url.startswith("redis://"):
            self.servers, self.server = [self.url], self.url
        await self.redis.flushdb()

    def client(self, **options: Any) -> Redisson:
        return Redisson.from_url(self.url, **options, **self.options)

    async def link(self) -> FaultProxy:
        return await self._stack.enter_async_context(FaultProxy.in_front_of(self.server))

    def behind(self, link: FaultProxy, **options: Any) -> Redisson:
        """Return a client behind a proxy; other nodes and sentinels it reaches without one."""
        options |= self.options
        if self.server == self.url:
            return Redisson.from_url(link.url, **options)
        near = link.url.removeprefix("redis://")
        options["address_map"] = {self.server.removeprefix("redis://"): near}
        in_cluster = self.url.startswith("redis+cluster://")
        return Redisson.from_url(f"redis+cluster://{near}" if in_cluster else self.url, **options)

    def set_memory(self, most: int) -> None:
        for url in self.servers:
            with redis.Redis.from_url(url) as server:
                server.config_set("maxmemory", most)

    async def deliver(self, commands: list[bytes]) -> None:
        parts = urlsplit(self.server)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        for command in commands:
            writer.write(command)
            assert await reader.read(65536)
        writer.close()
        await writer.wait_closed()
