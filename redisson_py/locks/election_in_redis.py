"""Elections in Redis: a fair lock with a fencing token, and the value of its holder beside it."""

from __future__ import annotations

from typing import final

from redisson_py._engine.task_ownership import TaskOwnership
from redisson_py._keys import Name, election_channel
from redisson_py._redis.commands.election import ElectionCommands, Led, led
from redisson_py._redis.context import RedisContext
from redisson_py._redis.view import RedisView
from redisson_py.locks.election import Leader, Leadership
from redisson_py.locks.lock import ServerLock, alive_for
from redisson_py.locks.lock_of import LockOf


class _Candidacy(TaskOwnership):
    """The leaderships of a client's tasks that campaign with one value."""

    __slots__ = ()

    async def proclaim(self, owner: str, token: int, written: int, value: bytes) -> int:
        """Publish another value of a leader; return its number, 0 if it does not lead."""
        context, commands = self.context, self.commands
        assert isinstance(context, RedisContext)
        assert isinstance(commands, ElectionCommands)
        context.check()
        number = context.owners.new_number()
        leads = await context.executor.run(commands.key, commands.proclaim(owner, number, value))
        return number if leads else 0


@final
class RedisCandidate(LockOf[Leadership], ServerLock):
    """The lock that the campaigns with one value acquire."""

    def __init__(self, context: RedisContext, name: Name, value: bytes) -> None:
        options = context.options
        commands = ElectionCommands(
            options.names.key(name), alive_for(context), options.idle_ms, value
        )
        ownership = _Candidacy(context, name, commands, RedisView, passes=False, reentrant=False)
        ownership.lease_kind = Leadership
        super().__init__(context, commands, ownership)
        self._value = value

    def _named(self, name: Name) -> RedisCandidate:
        return type(self)(self._context, name, self._value)


@final
class ElectionInRedis:
    """Keeps one election in Redis; see `Polls`."""

    def __init__(self, context: RedisContext, name: Name) -> None:
        self._context = context
        self._name = name
        self._commands = ElectionCommands(
            context.options.names.key(name, election_channel), alive_for(context)
        )

    def candidate(self, value: bytes) -> RedisCandidate:
        """Return the lock that campaigns with this value acquire."""
        return RedisCandidate(self._context, self._name, value)

    async def leader(self) -> Leader | None:
        """Return the leader; None if nobody leads."""
        return _leader_of(await self.seen())

    def look(self) -> _Look:
        """Return what looks for a new observer."""
        return _Look(self)

    @property
    def announced(self) -> bytes:
        """The channel on which changes are announced."""
        return self._commands.announced

    async def seen(self) -> Led | None:
        """Return what Redis says of the leader."""
        commands = self._commands
        return led(await self._context.executor.run(commands.key, commands.leader()))


class _Look:
    """Looks who leads, for one observer."""

    #: A change may have come while it did not listen.
    is_fresh = False

    def __init__(self, election: ElectionInRedis) -> None:
        self.channel: bytes = election.announced
        self._election = election

    async def look(self) -> tuple[Leader | None, float | None]:
        """Return who leads, and after how many seconds its lease ends."""
        seen = await self._election.seen()
        return _leader_of(seen), None if seen is None else seen.ends_in

    def stop(self) -> None:
        """Do nothing: a subscription ends with the last seat."""


def _leader_of(seen: Led | None) -> Leader | None:
    return None if seen is None else Leader(seen.value, seen.token)
