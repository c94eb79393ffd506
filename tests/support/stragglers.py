"""Commands that reach a server long after their connection broke."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from redisson_py.testing import FaultProxy, RespFramer


class Stragglers:
    """Delivers bytes of connections that broke long ago, as a slow network would."""

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url)
        self._lock = asyncio.Lock()
        self.delivered = 0

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(
            self._address.hostname, self._address.port
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def deliver(self, late: list[bytes]) -> None:
        """Have the server execute these commands; their replies are ignored."""
        async with self._lock:
            framer = RespFramer()
            self._writer.write(b"".join(late))
            missing = len(late)
            while missing:
                missing -= len(framer.feed(await self._reader.read(65536)))
        self.delivered += len(late)


def lose_and_keep(link: FaultProxy) -> list[bytes]:
    """Have the next script's reply lost; its bytes will be in the list returned."""
    sent: list[bytes] = []

    def is_script(command: bytes) -> bool:
        found = b"EVALSHA" in command
        if found:
            sent.append(command)
        return found

    link.cut_after_execution(is_script)
    return sent
