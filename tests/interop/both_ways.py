"""A thing of every primitive twice: held by us while Java waits, and by Java while we do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from redisson_py import Redisson
from redisson_py.testing import EmbeddedServer
from tests.interop.java import JavaObject
from tests.interop.sides import PRIMITIVES, Primitive, Side
from tests.interop.waits import soon
from tests.support.waiting import until_async


@dataclass
class Pair:
    """One thing, who holds it and who waits for it.

    Attributes:
        name: What it is called; no other's name is in it.
        java_waits: Whether Java waits and we hold.
        holder: The side that holds it.
        waiter: The side that waits.
        waiting: The wait, once it has begun.
    """

    name: str
    java_waits: bool
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

    Attributes:
        pairs: The things.
    """

    def __init__(self, pairs: list[Pair]) -> None:
        self.pairs = pairs

    @classmethod
    async def made(
        cls,
        client: Redisson,
        redisson: JavaObject,
        primitives: Mapping[str, Primitive] = PRIMITIVES,
        prefix: str = "a ",
    ) -> BothWays:
        """Make them for a client of ours and one of Redisson's.

        Args:
            client: Ours.
            redisson: Redisson's.
            primitives: Which; all if not given.
            prefix: What their names begin with.
        """
        pairs = []
        for kind, primitive in primitives.items():
            for java_waits in (False, True):
                name = f"{prefix}{kind} for {'java' if java_waits else 'us'}"
                await primitive.prepare(client, name)
                ours, theirs = (
                    primitive.of_us(client, name),
                    await primitive.of_java(redisson, name),
                )
                sides = (ours, theirs) if java_waits else (theirs, ours)
                pairs.append(Pair(name, java_waits, *sides))
        return cls(pairs)

    async def take_and_wait(self) -> None:
        """Have everything taken and waited for."""
        await self._all(Pair.take_and_wait)

    async def give_and_wake(self) -> None:
        """Have everything given back, and every waiter get it."""
        await self._all(Pair.give_and_wake)

    async def until_java_listens(
        self, master_of: Callable[[str], Awaitable[EmbeddedServer]], *, sharded: bool = False
    ) -> None:
        """Return when the master of everything for which Java waits has a subscription.

        Redisson subscribes again some time after a master changed, and asks nobody then what it
        has missed meanwhile. Our waiters do.

        Args:
            master_of: Returns the master of a name.
            sharded: Whether the subscription is for a shard.
        """
        what = "SHARDCHANNELS" if sharded else "CHANNELS"
        for pair in self.pairs:
            if pair.java_waits:
                master = await master_of(pair.name)
                await until_async(partial(_has_channel, master, what, pair.name), 20)

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


async def _has_channel(server: EmbeddedServer, what: str, name: str) -> bool:
    channels: list[str] = await server.execute("PUBSUB", what)
    return any(f"{{{name}}}" in channel for channel in channels)
