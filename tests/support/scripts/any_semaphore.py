"""The scripts of either kind of semaphore, for what both do alike."""

from __future__ import annotations

from collections import Counter

from redisson_py._redis.scripts.source import Arg
from tests.support.scripts.calls import Scripts
from tests.support.scripts.expirable import ExpirableScripts
from tests.support.scripts.permits import SemaphoreScripts

#: What an id ends with: bytes that end texts elsewhere.
_ID_TAIL = b"\x00\r\n\xff0123456789"


class Plain(SemaphoreScripts):
    """A plain semaphore."""

    @property
    def keys(self) -> list[bytes]:
        """Return the counter and what is beside it."""
        return [self.key, self.permits, self.counts]


class WithIds:
    """A semaphore whose permits have ids: the owner's units are a list of them."""

    def __init__(self, scripts: Scripts) -> None:
        self.scripts = ExpirableScripts(scripts)
        self.key, self.channel = self.scripts.key, self.scripts.channel
        self.start, self.value = self.scripts.start, self.scripts.value
        self.delete = self.scripts.delete
        self.keys = [self.key, self.scripts.permits]
        self._taken: dict[str, bytes] = {}

    def ids(self, owner: str, units: int) -> bytes:
        """Return the ids of what an owner asks for last."""
        letter = owner[len("client-") :][:1].encode()
        self._taken[owner] = b"".join(letter + bytes([n]) + _ID_TAIL for n in range(units))
        return self._taken[owner]

    def tombstone(self, owner: str) -> bytes:
        """Return the key that refuses a late acquire."""
        return self.scripts.tombstone(self._taken.get(owner) or self.ids(owner, 1))

    async def acquire(self, owner: str, units: int = 1, **values: Arg) -> int | None:
        """Ask for units."""
        return await self.scripts.acquire(self.ids(owner, units), **values)

    async def release(self, owner: str) -> int | None:
        """Give back what was asked for."""
        return await self.scripts.release(self._taken.get(owner) or self.ids(owner, 1))

    async def undo(self, owner: str) -> int | None:
        """Give it back, and refuse what comes late."""
        return await self.scripts.undo(self._taken.get(owner) or self.ids(owner, 1))

    async def end(self, *owners: str) -> None:
        """Let the leases of owners be over since long ago."""
        for owner in owners:
            taken = self._taken[owner]
            await self.scripts.end(*(taken[n : n + 16] for n in range(0, len(taken), 16)))

    async def left(self, owner: str) -> float:
        """Return the milliseconds until the first of an owner's leases ends."""
        taken = self._taken[owner]
        return min([await self.scripts.left(taken[n : n + 16]) for n in range(0, len(taken), 16)])

    async def held(self) -> dict[str, int]:
        """Return how many each owner has."""
        return Counter(f"client-{each[:1].decode()}:1" for each in await self.scripts.ids())


SEMAPHORES = {"plain": Plain, "with ids": WithIds}
