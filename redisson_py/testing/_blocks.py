"""Servers for the time of a block: the object that breaks them, or only their URL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol, Self, TypeVar


class Servers(Protocol):
    """One server or several: start with a block, end with it, and have a URL."""

    @property
    def url(self) -> str:
        """What clients connect to."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...


_S = TypeVar("_S", bound=Servers)


@asynccontextmanager
async def running(make: Callable[[], _S]) -> AsyncGenerator[_S, None]:
    """Run what `make` returns; looking for its program blocks, so that is done in a thread."""
    async with await asyncio.to_thread(make) as servers:
        yield servers


@asynccontextmanager
async def url_of(block: AbstractAsyncContextManager[Servers]) -> AsyncGenerator[str, None]:
    """Run what `block` runs, and hand out its URL."""
    async with block as servers:
        yield servers.url
