"""The scripts of what is done once, with the usual values."""

from __future__ import annotations

from typing import Any

from redisson_py import _keys
from redisson_py._redis.commands.once import OnceCommands
from redisson_py._redis.scripts.source import Arg
from tests.support.scripts.calls import LEASE, TOMBSTONE, A, Scripts
from tests.support.scripts.lock import LockScripts


class OnceScripts(LockScripts):
    """The scripts of one thing that is done once, beside those of the lock of who runs it."""

    def __init__(self, scripts: Scripts) -> None:
        commands = OnceCommands(_keys.once(b"k"), TOMBSTONE)
        super().__init__(scripts, key=commands.key)
        self.token_key = commands._token_key
        self.record = commands.record
        self._calls = 0

    def known(self, owner: str) -> dict[str, Arg]:
        """Return what scripts are told of it and of an owner."""
        return {
            **super().known(owner),
            "record": self.record,
            "receipt": self.completed(owner),
            "idle_ms": TOMBSTONE,
            "keep_ms": TOMBSTONE,
        }

    def completed(self, owner: str) -> bytes:
        """Return the key that says that `owner` has completed it."""
        return _keys.suffixed(self.key, b"redisson_py:receipt:" + owner.encode())

    async def enter(self, owner: str = A, lease_ms: Arg = LEASE, **more: Arg) -> list[Any]:
        """Ask to run it."""
        found: list[Any] = await self.run("once.acquire", owner, lease_ms=lease_ms, **more)
        return found

    async def complete(
        self, owner: str = A, result: Arg = "r", kind: Arg = "b", token: Arg = 7, **more: Arg
    ) -> Any:
        """Record a result; the reply as in the header."""
        more |= {"result": result, "kind": kind, "token": token}
        return await self.run("once.complete", owner, **more)

    async def forget(self, calls: int | None = None, **more: Arg) -> int:
        """Delete the record."""
        self._calls = self._calls + 1 if calls is None else max(self._calls, calls)
        more |= {"calls": self._calls if calls is None else calls, "receipt": self.receipt()}
        return int(await self.run("once.forget", A, **more))

    async def look(self) -> list[Any]:
        """Read the lock and the record."""
        found: list[Any] = await self.run("once.inspect")
        return found
