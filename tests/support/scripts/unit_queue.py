"""The scripts of a semaphore of either kind and of the queue of clients that wait for its units."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from redisson_py import _keys
from redisson_py._redis.scripts.source import Arg
from tests.support.scripts.any_semaphore import Plain, WithIds
from tests.support.scripts.calls import LEASE, Scripts, ask
from tests.support.scripts.client_queue import LONG, owner_of


class _Numbered(WithIds):
    """Permits with ids as our clients make them: the last six bytes are a number."""

    def ids(self, owner: str, units: int) -> bytes:
        """Return the ids of what an owner asks for last."""
        client, _, number = owner.partition(":")
        start, first = blake2b(client.encode(), digest_size=10).digest(), 100 * int(number)
        self._taken[owner] = b"".join(start + (first + n).to_bytes(6) for n in range(units))
        return self._taken[owner]


class UnitQueue:
    """A semaphore, and its queue of clients.

    Args:
        scripts: The scripts on a server.
        kind: Which of the two.
    """

    def __init__(self, scripts: Scripts, kind: str) -> None:
        self.semaphore: Plain | WithIds = Plain(scripts) if kind == "plain" else _Numbered(scripts)
        self.scripts, self.redis, self.kind = scripts, scripts.redis, kind
        self.key, self.channel = self.semaphore.key, self.semaphore.channel
        self.clients = _keys.waiting_clients(self.key)

    def own_channel(self, client: str) -> bytes:
        """Return where a client hears that it is called."""
        return self.channel + b":" + client.encode()

    async def asks(
        self,
        client: str,
        *,
        number: int = 1,
        waits: bool = True,
        lease_ms: Arg = LEASE,
        yields: Arg = 0,
        **values: Arg,
    ) -> Any:
        """Ask, as a client that is in the queue or joins it, for what its name says."""
        name, _, units = client.partition(":")
        values |= {"client": client if waits else "", "yields": yields, "lease_ms": lease_ms}
        return await self.semaphore.acquire(owner_of(name, number), int(units or 1), **values)

    async def release(self, client: str, number: int = 1) -> int | None:
        """Give everything back that an owner of a client has."""
        return await self.semaphore.release(owner_of(client.partition(":")[0], number))

    async def undo(self, client: str) -> int | None:
        """Do that, and refuse what comes late."""
        return await self.semaphore.undo(owner_of(client.partition(":")[0]))

    @property
    def counts(self) -> Any:
        """The scripts that count, which both kinds have."""
        return self.semaphore if isinstance(self.semaphore, Plain) else self.semaphore.scripts

    @property
    def field(self) -> bytes | str:
        """The name of what the holder took first."""
        owner = owner_of(FULL)
        return owner if isinstance(self.semaphore, Plain) else self.semaphore.ids(owner, 1)

    async def gives(self, units: int) -> None:
        """Put units there as nobody does who calls: Redisson's release, without its message."""
        await ask(self.redis, "INCRBY", self.key, units)

    async def total(self) -> int:
        """Return how many units are free or recorded as taken."""
        if isinstance(self.semaphore, Plain):
            taken = sum(map(int, await ask(self.redis, "HVALS", self.semaphore.counts)))
        else:
            taken = int(await ask(self.redis, "ZCARD", self.semaphore.scripts.permits))
        return (await self.semaphore.value() or 0) + taken

    async def leaves(self, client: str) -> int:
        """Take a client out of the queue."""
        known = self.counts.known()
        return int(await self.scripts.run("client_queue.leave_units", known, client=client))

    async def entries(self) -> dict[str, float]:
        """Return what is in the queue: clients and when each joined, and notes of calls."""
        found = await ask(self.redis, "ZRANGE", self.clients, 0, -1, "WITHSCORES")
        return {member.decode(): float(score) for member, score in found}

    async def waiting(self) -> list[str]:
        """Return the clients in the queue, the first one first."""
        return [each for each in await self.entries() if not each.startswith((">", "<"))]

    async def called(self) -> set[str]:
        """Return the clients that were called and have not answered."""
        return {each[1:] for each in await self.entries() if each.startswith(">")}

    async def now(self) -> int:
        """Return what scripts take for the server's time, in microseconds."""
        return await self.scripts.now()

    async def joined_ago(self, client: str, milliseconds: float) -> None:
        """Have a client wait for so long already."""
        score = await self.now() - round(milliseconds * 1000)
        await ask(self.redis, "ZADD", self.clients, "XX", score, client)

    async def called_ago(self, client: str, milliseconds: float) -> None:
        """Have a client be called so long ago."""
        score = round(milliseconds * 1000) - await self.now()
        await ask(self.redis, "ZADD", self.clients, score, ">" + client)


#: The client that has all units when others begin to wait.
FULL = "client-h"


async def queue_up(queue: UnitQueue, *clients: str, units: int = 3, waited: float = LONG) -> None:
    """Have a client hold all units, one owner each, and others wait, in this order."""
    await queue.semaphore.start(units)
    for number in range(1, units + 1):
        assert await queue.asks(FULL, number=number, waits=False) is None
    for position, client in enumerate(clients):
        assert (await queue.asks(client))[1] == min(position, 2)
        await queue.joined_ago(client, waited - position)
