"""A bell that remembers what a store rang, for tests of the stores themselves."""

from __future__ import annotations

import asyncio

#: Seconds: only to end a test that hangs.
PATIENCE = 60.0


class Bell:
    """Remembers what rang.

    Attributes:
        rung: The names that rang, but for those that a test has heard.
        all: How often everything rang.
    """

    def __init__(self) -> None:
        self.rung: list[str] = []
        self.all = 0
        self._news = asyncio.Event()

    def ring(self, name: str, owner: str | None = None) -> None:
        self.rung.append(name)
        self._news.set()

    def ring_all(self) -> None:
        self.all += 1
        self._news.set()

    async def heard(self, name: str) -> None:
        """Return when the name has rung; it is forgotten then."""
        async with asyncio.timeout(PATIENCE):
            while name not in self.rung:
                self._news.clear()
                await self._news.wait()
        self.rung.remove(name)

    async def heard_all(self, times: int) -> None:
        """Return when everything has rung so many times."""
        async with asyncio.timeout(PATIENCE):
            while self.all < times:
                self._news.clear()
                await self._news.wait()
