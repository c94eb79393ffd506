"""Runs the scripts of a latch as callers that number their calls."""

from __future__ import annotations

from typing import Any

from redisson_py import _keys
from redisson_py._keys import latch_channel
from redisson_py._redis.scripts.source import Arg
from tests.support.scripts.calls import Scripts, ask


class LatchScripts:
    """The scripts of one latch, for callers that number their calls."""

    def __init__(self, scripts: Scripts, key: bytes = b"l") -> None:
        self.scripts = scripts
        self.redis = scripts.redis
        self.key = key
        self.channel = latch_channel(key)
        self._calls = 0

    def receipt(self, caller: str = "a") -> bytes:
        return _keys.suffixed(self.key, b"redisson_py:receipt:" + caller.encode())

    async def _change(self, verb: str, caller: str, calls: int | None, **values: Arg) -> int:
        self._calls = self._calls + 1 if calls is None else max(self._calls, calls)
        values |= {"receipt": self.receipt(caller), "latch": self.key, "channel": self.channel}
        values["calls"] = self._calls if calls is None else calls
        return int(await self.scripts.run(f"latch.{verb}", values))

    async def set(
        self, counts: Arg, *, expire_ms: Arg = 0, caller: str = "a", calls: int | None = None
    ) -> int:
        return await self._change(
            "try_set_count", caller, calls, counts=counts, expire_ms=expire_ms
        )

    async def down(
        self,
        steps: Arg = 1,
        counts: Arg = 0,
        *,
        caller: str = "a",
        calls: int | None = None,
        start: str = "start",
    ) -> int:
        return await self._change(
            "count_down", caller, calls, steps=steps, counts=counts, start=self.receipt(start)
        )

    async def delete(self, *, caller: str = "a", calls: int | None = None) -> int:
        return await self._change("delete", caller, calls)

    async def count(self, counts: Arg = 0, *, start: str = "start") -> int:
        """Return what is left of a latch without an end."""
        return int(await self.look(counts, start=start))

    async def look(self, counts: Arg = 0, *, start: str = "start") -> Any:
        """Return what is left of any latch, and when it ends."""
        names = {"latch": self.key, "start": self.receipt(start), "channel": self.channel}
        return await self.scripts.run("latch.count", names, counts=counts)

    async def value(self) -> bytes | None:
        found: bytes | None = await ask(self.redis, "GET", self.key)
        return found

    async def eval(self, text: str, *args: Arg) -> Any:
        return await ask(self.redis, "EVAL", text, 1, self.key, self.channel, *args)
