"""What a plain client would see on a simulated server, at once and without a connection."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tests.simulation.network import Node


class Look:
    """The few methods of a plain client that lifecycles need."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def hgetall(self, key: str) -> dict[bytes, bytes]:
        return dict(self._node.server.hash(key.encode()))

    async def pttl(self, key: str) -> int:
        return self._node.server.ttl_ms(key.encode())

    async def ttl(self, key: bytes) -> int:
        left = self._node.server.ttl_ms(key)
        return left if left < 0 else left // 1000

    async def delete(self, key: str) -> None:
        self._node.execute_late([(b"DEL", key.encode())])

    async def flushdb(self) -> None:
        self._node.execute_late([(b"FLUSHALL",)])

    async def scan_iter(self) -> AsyncIterator[bytes]:
        for key in self._node.server.keys():
            yield key
