"""A thing of every primitive twice: held by us while Java waits, and by Java while we do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from redisson_py import Redisson
from tests.interop.java import JavaObject
from tests.interop.sides import PRIMITIVES, Primitive, Side
from tests.interop.support import soon


@dataclass
class Pair:
    """One thing, who holds it and who waits for it.

    Attributes:
        name: What it is called; no other's name is in it.
        java_waits: Whether Java waits and we hold.
    """

    name: str
    java_waits: bool
    primitive: Primitive
    holder: Side
    waiter: Side
    waiting: asyncio.Future[Any] | None = None

    async def take_and_wait(self) -> None:
        """Have one side take it and the other one wait; return when that sleeps."""
        await self.holder.take()
        self.waiting = await self.waiter.wait()

    async def give_and_wake(self) -> None:
        """Have it given back; return when the waiter got it, and gave it back too."""
        assert self.waiting is not None
        assert not self.waiting.done()
        await self.holder.give()
        await soon(self.waiting)
        await self.waiter.done()


class BothWays:
    """Of every primitive one thing that Java holds, and one that we hold.

    Args:
        client: Ours.
        redisson: Redisson's.
        primitives: Which; all of them if not given.
    """

    def __init__(
        self,
        client: Redisson,
        redisson: JavaObject,
        primitives: Mapping[str, Primitive] = PRIMITIVES,
    ) -> None:
        self._client = client
        self._redisson = redisson
        self._primitives = primitives
        self.pairs: list[Pair] = []

    async def make(self, prefix: str = "") -> None:
        """Make them anew, with names that begin so."""
        self.pairs.clear()
        for kind, primitive in self._primitives.items():
            for java_waits in (False, True):
                name = f"{prefix}{kind} for {'java' if java_waits else 'us'}"
                await primitive.prepare(self._client, name)
                sides = (
                    primitive.of_us(self._client, name),
                    await primitive.of_java(self._redisson, name),
                )
                holder, waiter = sides if java_waits else sides[::-1]
                self.pairs.append(Pair(name, java_waits, primitive, holder, waiter))

    async def take_and_wait(self) -> None:
        """Have everything taken and waited for."""
        await self._all(Pair.take_and_wait)

    async def give_and_wake(self) -> None:
        """Have everything given back, and every waiter get it."""
        await self._all(Pair.give_and_wake)

    async def _all(self, play: Callable[[Pair], Awaitable[None]]) -> None:
        async def named(pair: Pair) -> None:
            try:
                await play(pair)
            except Exception as error:
                error.add_note(pair.name)
                raise

        async with asyncio.TaskGroup() as group:
            for pair in self.pairs:
                group.create_task(named(pair))
