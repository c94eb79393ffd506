"""What Redis reports about a lock, and the ownership of locks on Redis."""

from __future__ import annotations

import secrets

from redisson_py import _keys
from redisson_py._engine.context import Context
from redisson_py._engine.server import Held
from redisson_py._engine.task_ownership import TaskOwnership
from redisson_py._keys import Name
from redisson_py._redis.commands.lock import LockCommands
from redisson_py._redis.commands.plain import plain_calls
from redisson_py._redis.commands.replies import stored_number
from redisson_py._redis.context import RedisContext
from redisson_py._redis.courier import ADOPTABLE, Courier


def ownership_of(
    context: RedisContext,
    name: Name,
    commands: LockCommands,
    *,
    passes: bool = True,
    reentrant: bool = True,
) -> TaskOwnership:
    """Return the holds of a client's tasks on one lock; for the arguments see `TaskOwnership`."""
    commands.plain = plain_calls(commands, context.options.lease_time)
    return TaskOwnership(context, name, commands, RedisView, passes=passes, reentrant=reentrant)


class RedisView:
    """Looks at one lock in Redis, and frees it by force."""

    __slots__ = ("_commands", "_context")

    def __init__(self, context: Context, commands: LockCommands) -> None:
        assert isinstance(context, RedisContext)
        self._context = context
        self._commands = commands

    @property
    def keys(self) -> tuple[bytes, ...]:
        """The keys that keep it: locks of two kinds with the same key are the same lock."""
        return (self._commands.key,)

    @property
    def courier(self) -> Courier | None:
        """What gives its holds to other processes; None: no client could adopt them."""
        if self._commands.kind not in ADOPTABLE:
            return None
        return Courier(self._context, self._commands)

    async def look(self) -> bool:
        """Return whether the key exists, which changes nothing in Redis.

        For a task that asks once while other tasks of its client come first: the lock is busy if
        Redis still answers.
        """
        return await self._context.executor.exists(self._commands.key)

    async def locked(self) -> bool:
        """Return whether anybody holds it."""
        key = self._commands.key
        return await self._context.executor.query_number(key, "EXISTS", key) > 0

    async def count_of(self, hold: Held) -> int:
        """Return the hold count of a hold; 0 if it is not there."""
        key = self._commands.key
        found = await self._context.executor.query(key, "HGET", key, hold.field)
        return stored_number(found) if isinstance(found, bytes) else 0

    async def is_there(self, hold: Held) -> bool:
        """Return whether a hold is there."""
        key = self._commands.key
        return await self._context.executor.query_number(key, "HEXISTS", key, hold.field) > 0

    async def remaining(self) -> float | None:
        """Return the seconds left of its lease; None when it is free, infinity without an end."""
        key = self._commands.key
        left = await self._context.executor.query_number(key, "PTTL", key)
        if left == -2:
            return None
        return float("inf") if left == -1 else left / 1000

    async def force_release(self) -> tuple[bool, bool]:
        """Free it; return whether anybody held it, and whether that was carried out once."""
        commands, executor = self._commands, self._context.executor
        receipt = b"redisson_py:receipt:" + secrets.token_hex(16).encode()
        args = commands.force_release(_keys.suffixed(commands.key, receipt))
        call = executor.start(commands.force_release_script, commands.key, args)
        freed = bool(await executor.answer(call))
        return freed, not call.uncertain
