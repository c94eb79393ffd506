"""Gives the holds of one lock to other processes, through Redis."""

from __future__ import annotations

from redisson_py._answers import Change
from redisson_py._engine.server import Asked, Call, Held
from redisson_py._redis.commands.lock import FairLockCommands, FencedLockCommands, LockCommands
from redisson_py._redis.context import RedisContext

#: The kinds that `Redisson.adopt` knows. Their holds are one field of one hash.
ADOPTABLE = (LockCommands.kind, FencedLockCommands.kind, FairLockCommands.kind)


class Courier:
    """Gives the holds of one lock to other processes."""

    __slots__ = ("_commands", "_context")

    def __init__(self, context: RedisContext, commands: LockCommands) -> None:
        self._context = context
        self._commands = commands

    @property
    def database(self) -> str:
        """The number of the database, without the addresses: each process may have others."""
        return self._context.database.rpartition("/")[2]

    def hand_over(self, hold: Held, lease_time: float, change: Change, secret: str) -> Call:
        """Have a hold kept for whoever adopts it, for so many seconds at least."""
        return self._context.executor.hand_over(self._commands, hold, lease_time, change, secret)

    def adopt(self, request: Asked, giver: str, secret: str, until_ms: int) -> Call:
        """Ask for the hold of another owner."""
        return self._context.executor.adopt(self._commands, request, giver, secret, until_ms)
