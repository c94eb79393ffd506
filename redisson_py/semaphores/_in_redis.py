"""One client's units of one semaphore in Redis."""

from __future__ import annotations

from redisson_py._keys import Name
from redisson_py._redis.commands.permits import PermitCommands
from redisson_py._redis.commands.plain import plain_calls
from redisson_py._redis.commands.semaphore import SemaphoreCommands
from redisson_py._redis.context import RedisContext
from redisson_py._redis.receipts import Receipts
from redisson_py.semaphores._ownership import PermitOwnership


class RedisPermitOwnership(PermitOwnership[PermitCommands, RedisContext]):
    """One client's units of one semaphore in Redis, which changes its number with receipts."""

    def __init__(self, context: RedisContext, name: Name, commands: PermitCommands) -> None:
        super().__init__(context, name, commands)
        if isinstance(commands, SemaphoreCommands):
            commands.plain = plain_calls(commands, context.options.lease_time)
        self.receipts = Receipts(context, commands.key)

    async def exists(self) -> bool:
        """Return whether there is such a semaphore; raise if Redis does not answer."""
        return await self.context.executor.exists(self.commands.key)
