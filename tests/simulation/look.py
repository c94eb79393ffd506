"""What a plain client would see on a simulated server, without a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from tests.simulation.network import Node

#: Seconds until the answer, which is that of the last moment.
_DELAY = 0.0005


class Look:
    """The few methods of a plain client that lifecycles need; each takes some time."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def hgetall(self, key: str) -> dict[bytes, bytes]:
        await asyncio.sleep(_DELAY)
        return dict(self._node.server.hash(key.encode()))

    async def pttl(self, key: str) -> int:
        await asyncio.sleep(_DELAY)
        return self._node.server.ttl_ms(key.encode())

    async def ttl(self, key: bytes) -> int:
        left = self._node.server.ttl_ms(key)
        return left if left < 0 else left // 1000

    async def delete(self, key: str) -> None:
        self._node.execute_late([(b"DEL", key.encode())])

    async def flushdb(self) -> None:
        self._node.execute_late([(b"FLUSHALL",)])

    async def scan_iter(self) -> AsyncIterator[bytes]:
        keys = self._node.server.keys()
        for key in keys:
            yield key
