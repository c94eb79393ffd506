"""Runs the scripts of a latch as callers that number their calls."""

from __future__ import annotations

from typing import Any

from redisson_py import _keys
from redisson_py._keys import latch_channel
from redisson_py._scripts.source import Arg
from tests.support.scripts.calls import TOMBSTONE, Scripts, ask


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

    async def _change(self, verb: str, caller: str, calls: Arg | None, **values: Arg) -> int:
        self._calls = self._calls + 1 if calls is None else max(self._calls, int(calls))
        calls = self._calls if calls is None else calls
        values = {"receipt_ms": TOMBSTONE, **values}
        reply = await self.scripts.run(
            f"latch.{verb}",
            latch=self.key,
            receipt=self.receipt(caller),
            channel=self.channel,
            calls=calls,
            **values,
        )
        return int(reply)

    async def set(self, counts: Arg, *, caller: str = "a", calls: Arg | None = None) -> int:
        return await self._change("try_set_count", caller, calls, counts=counts)

    async def down(
        self,
        steps: Arg = 1,
        counts: Arg = 0,
        *,
        caller: str = "a",
        calls: Arg | None = None,
        start: str = "start",
    ) -> int:
        return await self._change(
            "count_down", caller, calls, steps=steps, counts=counts, start=self.receipt(start)
        )

    async def delete(self, *, caller: str = "a", calls: Arg | None = None) -> int:
        return await self._change("delete", caller, calls)

    async def count(
        self, counts: Arg = 0, *, start: str = "start", receipt_ms: Arg = TOMBSTONE
    ) -> int:
        reply = await self.scripts.run(
            "latch.count",
            latch=self.key,
            start=self.receipt(start),
            counts=counts,
            channel=self.channel,
            receipt_ms=receipt_ms,
        )
        return int(reply)

    async def value(self) -> bytes | None:
        found: bytes | None = await ask(self.redis, "GET", self.key)
        return found

    async def eval(self, text: str, *args: Arg) -> Any:
        return await ask(self.redis, "EVAL", text, 1, self.key, self.channel, *args)
