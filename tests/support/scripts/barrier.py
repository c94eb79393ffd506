"""Runs the scripts of a barrier for parties that are named by a letter."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from redisson_py import _keys
from redisson_py._redis.scripts.source import Arg
from tests.support.scripts.calls import Scripts, ask

RELEASED, WAITING, BROKEN, OTHER_PARTIES, VOID = 1, 0, -1, -2, -3


@dataclass(frozen=True)
class Reply:
    """What barrier.wait answers."""

    state: int
    position: int
    generation: int
    other_ms: int


@dataclass(frozen=True)
class Look:
    """What barrier.inspect answers."""

    broken: bool
    generation: int
    parties: int
    n_waiting: int
    waiting: dict[str, int]


class BarrierScripts:
    """The scripts of one barrier, with the values that most tests do not vary."""

    def __init__(self, scripts: Scripts, name: bytes = b"b", parties: int = 3) -> None:
        self.scripts = scripts
        self.redis = scripts.redis
        self.name = name
        self.parties = parties
        self.channel = _keys.prefixed(b"redisson_py_barrier", name)
        self.key = self.named("barrier")
        self.arrivals = self.named("arrivals")
        self.released = self.named("released")
        self._calls = 0

    def named(self, what: str) -> bytes:
        """Return a key of this barrier."""
        return _keys.suffixed(self.name, b"redisson_py:" + what.encode())

    def arrival(self, owner: str) -> bytes:
        """Return the key of what an owner was given."""
        return self.named("arrival:" + owner)

    async def run(self, verb: str, owner: str = "", **values: Arg) -> Any:
        """Run a script."""
        known: dict[str, Arg] = {
            "barrier": self.key,
            "arrivals": self.arrivals,
            "released": self.released,
            "arrival": self.arrival(owner),
            "receipt": self.named("receipt:a"),
            "channel": self.channel,
            "owner": owner,
            "parties": self.parties,
        }
        return await self.scripts.run(f"barrier.{verb}", known, **values)

    async def wait(self, owner: str, generation: Arg = "0", **more: Arg) -> Reply:
        """Arrive, or look again at a generation."""
        return Reply(*await self.run("wait", owner, generation=generation, **more))

    async def leave(self, owner: str, **more: Arg) -> int:
        """Undo an arrival."""
        return int(await self.run("leave", owner, **more))

    async def abort(self, *, calls: int | None = None) -> int:
        """Break it."""
        return await self._change("abort", calls)

    async def reset(self, *, calls: int | None = None) -> int:
        """Make it fresh."""
        return await self._change("reset", calls)

    async def _change(self, verb: str, calls: int | None) -> int:
        self._calls = self._calls + 1 if calls is None else max(self._calls, calls)
        return int(await self.run(verb, calls=self._calls if calls is None else calls))

    async def look(self, entries: Arg = 100) -> Look:
        """Read it."""
        broken, generation, parties, present, n_waiting, *waiting = await self.run(
            "inspect", entries=entries
        )
        left = {
            owner.decode(): int(ends_at) - present
            for owner, ends_at in zip(waiting[::2], waiting[1::2], strict=True)
        }
        return Look(bool(broken), generation, parties, n_waiting, left)

    async def fill(self, *owners: str) -> list[Reply]:
        """Have parties arrive one after the other."""
        return [await self.wait(owner) for owner in owners]

    async def die(self, owner: str) -> None:
        """Let an owner's arrival end: it looks again with a lease of a millisecond."""
        reply = await self.wait(owner, lease_ms=1)
        assert reply.state == WAITING
        await self.wait_for_server(2)

    async def lasts_ms(self) -> int:
        """Return for how long the barrier lasts if nobody does anything; -1: until it is reset."""
        return int(await ask(self.redis, "PTTL", self.key))

    async def wait_for_server(self, ms: int) -> None:
        """Return when the server's clock has gone on for so long."""
        start = await self._server_ms()
        while await self._server_ms() < start + ms:
            await asyncio.sleep(0.0005)

    async def _server_ms(self) -> int:
        found: Any = await ask(self.redis, "TIME")
        return int(found[0]) * 1000 + int(found[1]) // 1000
