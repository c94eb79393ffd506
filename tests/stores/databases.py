"""The stores in databases, asked as the engine asks them: what their tests share."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from redisson_py._stores.contract import Busy, Granted, Store, Wish
from redisson_py._time import now

AnyStore = TypeVar("AnyStore", bound=Store)
_numbers = itertools.count()


class Bell:
    """Remembers what rang."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.all = 0
        self._rang = asyncio.Event()

    def ring(self, name: str, owner: str | None = None) -> None:
        self.names.append(name)
        self._rang.set()

    def ring_all(self) -> None:
        self.all += 1
        self._rang.set()

    async def wait(self, patience: float = 20.0) -> None:
        """Return when it has rung since the last wait."""
        async with asyncio.timeout(patience):
            await self._rang.wait()
        self._rang.clear()


def owner() -> str:
    """Return an owner that nobody was before."""
    return f"0b5a6d1e-52a7-4bb1-9a6f-3a2c1d4e5f60:{next(_numbers)}"


def new_name() -> str:
    return f"name {next(_numbers)}"


def soon(seconds: float = 30.0) -> float:
    """Return a deadline: without another one, only to end a test that hangs."""
    return now() + seconds


def wish(name: str, who: str, lease: float = 30.0, waits: bool = False, tokens: int = 1) -> Wish:
    return Wish(name, who, lease, renewed=True, waits=waits, tokens=tokens)


@asynccontextmanager
async def running(store: AnyStore, bell: Bell | None = None) -> AsyncGenerator[AnyStore]:
    """Start a store for the time of a block."""
    await store.start(bell or Bell(), soon())
    try:
        yield store
    finally:
        await store.stop()
        await asyncio.sleep(0)


async def granted(
    store: Store, name: str, who: str, lease: float = 30.0, waits: bool = False, tokens: int = 1
) -> Granted:
    answer = await store.ask(wish(name, who, lease, waits, tokens), soon())
    assert isinstance(answer, Granted)
    return answer


async def busy(
    store: Store, name: str, who: str, lease: float = 30.0, waits: bool = False
) -> float:
    """Return after how many seconds to ask again."""
    answer = await store.ask(wish(name, who, lease, waits), soon())
    assert isinstance(answer, Busy)
    assert answer.retry_in is not None
    return answer.retry_in


async def holder(store: Store, name: str) -> str | None:
    state = await store.look(name, soon())
    return None if state.holder is None else state.holder.owner


async def waiters(store: Store, name: str) -> tuple[str, ...]:
    found: Any = (await store.look(name, soon())).waiters
    return tuple(found)


async def is_free(store: Store, name: str) -> bool:
    return await holder(store, name) is None
