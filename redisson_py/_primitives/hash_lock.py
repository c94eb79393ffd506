"""Looking at a lock that Redisson keeps as a hash, and freeing it by force."""

from __future__ import annotations

import secrets
from typing import ClassVar

from redisson_py import _keys
from redisson_py._keys import Name
from redisson_py._options import TOMBSTONE
from redisson_py._primitives.context import Context
from redisson_py._primitives.lock_like import LockLike
from redisson_py._primitives.looking import LockSnapshot, look_at_lock
from redisson_py._scripts import source
from redisson_py._scripts.source import Script
from redisson_py._time import milliseconds

FORCE_RELEASE = source.load("lock.force_release")


class HashLock(LockLike):
    """A lock whose key is a hash with a field for each owner and the lease as expiry."""

    _forcing: ClassVar[Script] = FORCE_RELEASE

    def __init__(self, context: Context, name: Name) -> None:
        super().__init__(context, name)
        self.channel = _keys.lock_channel(self._key)
        self._more_keys: tuple[bytes, ...] = ()

    async def locked(self) -> bool:
        """Return whether anybody holds it now."""
        self._context.check()
        return bool(await self._context.executor.ask(self._key, "EXISTS", self._key))

    async def owned(self) -> bool:
        """Return whether the current task holds it now, as Redis sees it."""
        return await self.hold_count() > 0

    async def hold_count(self) -> int:
        """Return how many holds the current task has, as Redis sees it."""
        self._context.check()
        hold = self._context.owners.of_current_task().holds.get(self._hold_key)
        if hold is None:
            return 0
        count = await self._context.executor.ask(self._key, "HGET", self._key, hold.mark)
        return int(count or 0)

    async def remaining(self) -> float | None:
        """Return the seconds left of the holder's lease on the server; None when it is free.

        Infinity if somebody has taken the key's expiry away.
        """
        self._context.check()
        left = await self._context.executor.ask(self._key, "PTTL", self._key)
        if left == -2:
            return None
        return float("inf") if left == -1 else left / 1000

    async def force_release(self) -> bool:
        """Free it whoever holds it, and wake waiters; return whether it was held.

        For operators: the holder's critical section may still be running. A holder in this
        process is told at once, one elsewhere at its next renewal.
        """
        context = self._context
        context.check()
        receipt = b"redisson_py:receipt:" + secrets.token_hex(16).encode()
        args = self._force_args(_keys.suffixed(self._key, receipt))
        call = context.executor.start(self._forcing, self._key, args)
        freed = await context.executor.answer(call)
        for hold in [
            hold for hold in context.watchdog.holds if hold.resource._hold_key == self._hold_key
        ]:
            # A repetition answers for the first run: what was granted since then is in force.
            if freed and not (call.doubtful and await self._holds(hold.mark)):
                context.watchdog.lose(hold, "it was released by force")
        return bool(freed)

    def _force_args(self, receipt: bytes) -> bytes:
        """Return the arguments of the script that frees it."""
        return self._forcing.bind(
            lock=self._key,
            receipt=receipt,
            channel=self.channel,
            receipt_ms=milliseconds(TOMBSTONE),
        )

    async def _holds(self, mark: str | bytes) -> bool:
        return bool(await self._context.executor.ask(self._key, "HEXISTS", self._key, mark))

    async def inspect(self) -> LockSnapshot:
        """Return who holds it, as a snapshot for people. Nothing should be decided from it."""
        self._context.check()
        return await look_at_lock(self._context, self._key, *self._more_keys)
