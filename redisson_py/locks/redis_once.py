"""Once, on Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, final

from redisson_py import _keys
from redisson_py._engine.hold import Hold
from redisson_py._keys import Name
from redisson_py._redis.commands.once import COMPLETE, OnceCommands
from redisson_py._redis.commands.plain import plain_calls
from redisson_py._redis.context import RedisContext
from redisson_py._redis.inspecting import Describer, seconds, texts
from redisson_py._redis.receipts import Receipts
from redisson_py._redis.view import RedisView
from redisson_py._time import Duration, check_lease_time, milliseconds
from redisson_py.locks.once import Once, OnceLease, OnceOwnership, OnceSnapshot, Statement


class _Recorder:
    """Records in Redis that something is done."""

    __slots__ = ("_commands", "_context")

    def __init__(self, context: RedisContext, commands: OnceCommands) -> None:
        self._context = context
        self._commands = commands

    async def complete(
        self, hold: Hold, token: int, result: str | bytes, connection: Any
    ) -> str | bytes | None:
        """Record a result, if the hold is in force; return what is recorded."""
        if connection is not None:
            raise _no_transaction()
        context, commands = self._context, self._commands
        context.check()
        args = commands.complete(hold, token, result)
        call = context.executor.start_record(COMPLETE, commands.key, args)
        return commands.recorded(await context.executor.answer(call), result)

    def recording(self, hold: Hold, token: int, result: str | bytes) -> Sequence[Statement]:
        """Refuse it: a transaction of the user's is one of PostgreSQL.

        Raises:
            TypeError: Always.
        """
        raise _no_transaction()


def _no_transaction() -> TypeError:
    return TypeError("connection is for PostgreSQL: Redis has no part in a transaction of it")


@final
class RedisOnce(Once):
    """A `Once` that Redis keeps."""

    def __init__(self, context: RedisContext, name: Name, keep: Duration) -> None:
        self._keep = check_lease_time(keep, "keep")
        key = _keys.once(context.options.names.key(name))
        self._commands = commands = OnceCommands(key, milliseconds(self._keep))
        commands.plain = plain_calls(commands, context.options.lease_time)
        ownership = OnceOwnership(context, name, commands, RedisView, passes=False, reentrant=False)
        ownership.lease_kind = OnceLease
        ownership.server = _Recorder(context, commands)
        super().__init__(ownership, key)
        self._context = context
        self._receipts = Receipts(context, key)

    def _named(self, name: Name) -> Self:
        return type(self)(self._context, name, self._keep)

    async def forget(self) -> bool:
        """Forget that it is done; see `Once.forget`."""
        return bool(await self._receipts.run(self._commands.forget()))

    async def inspect(self) -> OnceSnapshot:
        """Return who runs it, and whether it is done, for people. Decide nothing from it."""
        context, commands = self._context, self._commands
        context.check()
        reply = await context.executor.run(self.key, commands.inspect_both())
        left, kept, token, size, *words = reply
        describer = Describer(context, self._ownership.all_holds())
        done = kept != -2
        return OnceSnapshot(
            await describer.holders_of(words, left),
            None,
            texts(commands.keys),
            done=done,
            kept=seconds(kept) if done else None,
            token=token if done else None,
            size=size,
        )
