"""Runs script files straight through redis-py, keys and arguments by their header names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Self

from redis.asyncio import Redis

from redisson_py._redis.dialect import Dialect
from redisson_py._redis.scripts.source import Arg, Script, Wording, load

A, B, C = "client-a:1", "client-b:1", "client-c:1"
#: How scripts ask for the time.
_TIME = re.compile(r"redis\.p?call\('TIME'\)")
LEASE = 30_000
TOMBSTONE = 60_000

#: What no script may take for a number of milliseconds. Each but the first three once passed
#: a check of the range and then failed in PEXPIRE, after the key had been written.
BAD_MS = ("0", "-1", "x", "", "nan", "1.5", "inf", "1e300", "9223372036854775807")

#: What most calls say.
_USUAL: dict[str, Arg] = {
    "lease_ms": LEASE,
    "receipt_ms": TOMBSTONE,
    "tombstone_ms": 0,
    "idle_ms": 0,
    "life_ms": 0,
    "version": 0,
    "version_ms": 0,
    "needs": "",
    "compares": 0,
    "replaces": 0,
    "reclaims": 100,
    "client": "",
    "yields": 0,
    "defers": 0,
    "waits": 0,
    "alive_ms": 0,
    "start_units": -1,
}


async def ask(redis: Redis, *args: Arg) -> Any:
    """Send a command and return its raw reply."""
    untyped: Any = redis
    return await untyped.execute_command(*args)


class Scripts:
    """The scripts of `lua/` on one server.

    Args:
        redis: Where to run them.
        modern: Whether the server knows `#!lua` (Redis 7 and newer).
    """

    def __init__(self, redis: Redis, *, modern: bool) -> None:
        self.redis = redis
        self.modern = modern
        self._loaded: set[str] = set()
        #: What scripts take for the server's time, in microseconds; None: what it is.
        self._moment: int | None = None

    @classmethod
    async def on(cls, redis: Redis) -> Self:
        """Ask the server what it is."""
        facts: dict[str, Any] = await redis.info("server")
        return cls(redis, modern=int(facts["redis_version"].split(".")[0]) >= 7)

    async def stop_clock(self) -> None:
        """Have time stand still for scripts, so that none of it passes on a busy machine.

        A microsecond passes with each look at it. Keys expire as ever.
        """
        self._moment = await self.now()

    async def now(self) -> int:
        """Return what scripts take for the server's time, in microseconds."""
        if self._moment is not None:
            self._moment += 1
            return self._moment
        seconds, microseconds = await ask(self.redis, "TIME")
        return int(seconds) * 1_000_000 + int(microseconds)

    async def run(self, name: str, known: Mapping[str, Arg] | None = None, **values: Arg) -> Any:
        """Run a script; `values` are named as in its header, and so is what is `known` besides."""
        script = load(name)
        names = script.keys + script.args
        assert {*values} <= {*names}
        found = {**_USUAL, **(known or {}), **values}
        return await self._evalsha(script, (len(script.keys), *(found[each] for each in names)))

    async def run_batch(
        self, name: str, keys: list[bytes], arguments: list[str], **values: Arg
    ) -> Any:
        """Run a script that takes any number of keys."""
        script = load(name)
        return await self._evalsha(script, script.bind_batch(keys, values, arguments))

    async def _evalsha(self, script: Script, args: tuple[Arg, ...]) -> Any:
        wording = self.wording(script)
        if self._moment is not None and _TIME.search(wording.text):
            seconds, microseconds = divmod(await self.now(), 1_000_000)
            text = _TIME.sub(f"{{'{seconds}', '{microseconds}'}}", wording.text)
            return await ask(self.redis, "EVAL", text, *args)
        if wording.sha not in self._loaded:
            assert await ask(self.redis, "SCRIPT LOAD", wording.text) == wording.sha
            self._loaded.add(wording.sha)
        return await ask(self.redis, "EVALSHA", wording.sha, *args)

    def wording(self, script: Script) -> Wording:
        """Return a script as this server is sent it."""
        return script.wordings[Dialect.MODERN if self.modern else Dialect.PLAIN]


async def everything(redis: Redis) -> dict[bytes, tuple[Any, bool]]:
    """Return the content of every key and whether it expires, to show that nothing changed."""
    found: dict[bytes, tuple[Any, bool]] = {}
    for key in await ask(redis, "KEYS", "*"):
        # The fields of a hash have no order, but a dump has.
        is_hash = await ask(redis, "TYPE", key) == b"hash"
        content = await ask(redis, "HGETALL" if is_hash else "DUMP", key)
        found[key] = (content, await ask(redis, "PTTL", key) >= 0)
    return found
