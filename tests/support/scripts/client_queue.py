"""The scripts of a plain or fenced lock and of its queue of clients."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from redisson_py._redis.scripts.source import Arg
from tests.support.scripts.calls import LEASE, A, Scripts, ask
from tests.support.scripts.lock import LockScripts
from tests.support.scripts.read_write import SideScripts


def owner_of(client: str, number: int = 1) -> str:
    """Return an owner of a client, as ours are numbered."""
    return f"{client}:0{number}"


#: Clients that live in tests; the holder is another one.
X, Y, Z, NEWCOMER = "client-x", "client-y", "client-z", "client-n"
HOLDER = owner_of("client-h")
#: An owner of Redisson's.
JAVA = "0a1b2c3d-4e5f-4071-8293-a4b5c6d7e8f9:31"
#: Milliseconds that are over, or not, however slow the machine is.
LONG, NOT_YET = 10_000, -10_000
#: Milliseconds for which one that is called may be silent: 50, and this is less.
MOMENT = 45
#: A lease that takes the short way of a script, and one that takes the rest of it.
BOTH_WAYS = [LEASE, f"00{LEASE}"]

Hearing = Callable[[str], Awaitable[list[str]]]
"""Returns what a client has heard on its channel, or what was announced ("all")."""


class QueueScripts(LockScripts):
    """The scripts of one lock as clients call them that wait in its queue."""

    #: What is behind the ids of clients in the queue, and behind owners in the hash.
    suffix = ""
    leave_script = "client_queue.leave"

    async def put(self, owner: str, lease_ms: int = LEASE) -> None:
        """Have an owner hold it that did not ask."""
        await ask(self.redis, "HSET", self.key, owner, 1)
        await self.redis.pexpire(self.key, lease_ms)

    def own_channel(self, client: str) -> bytes:
        """Return where a client hears that it is called."""
        return self.channel + b":" + (client + self.suffix).encode()

    async def asks(
        self, client: str, *, owner: str = "", lease_ms: Arg = LEASE, yields: Arg = 0
    ) -> Any:
        """Ask for a hold as a client that is in the queue, or joins it; None is granted."""
        owner = owner or owner_of(client)
        more: dict[str, Arg] = {"lease_ms": lease_ms, "client": client, "yields": yields}
        if self.fenced:
            code, *others = await self.acquire_fenced(owner, **more)
            return {1: None, 0: others}.get(code, code)
        return await self.run("lock.acquire", owner, holds=1, **more)

    async def leaves(self, client: str) -> int:
        """Take a client out of the queue."""
        return int(await self.run(self.leave_script, client=client + self.suffix))

    async def entries(self) -> dict[str, float]:
        """Return what is in the queue: clients and when each joined, and the note of a call."""
        found = await ask(self.redis, "ZRANGE", self.clients, 0, -1, "WITHSCORES")
        return {member.decode().removesuffix(self.suffix): float(score) for member, score in found}

    async def waiting(self) -> list[str]:
        """Return the clients in the queue, the first one first."""
        return [each for each in await self.entries() if not each.startswith((">", "<"))]

    async def owed(self) -> tuple[int, int] | None:
        """Return how many of Redisson's listened, and what ours are owed: lua/lib/wake_foreign."""
        found = {each: score for each, score in (await self.entries()).items() if each[0] == "<"}
        assert len(found) <= 1
        return next(((int(each[1:]), int(score - 4e15)) for each, score in found.items()), None)

    async def called(self) -> str | None:
        """Return the client that was called last, if it has not answered."""
        notes = [each[1:] for each in await self.entries() if each.startswith(">")]
        assert len(notes) <= 1
        return notes[0] if notes else None

    async def now(self) -> int:
        """Return what scripts take for the server's time, in microseconds."""
        return await self.scripts.now()

    async def joined_ago(self, client: str, milliseconds: float) -> None:
        """Have a client wait for so long already."""
        score = await self.now() - round(milliseconds * 1000)
        await ask(self.redis, "ZADD", self.clients, "XX", score, client + self.suffix)

    async def called_ago(self, client: str, milliseconds: float) -> None:
        """Have a client be called so long ago."""
        score = round(milliseconds * 1000) - await self.now()
        await ask(self.redis, "ZADD", self.clients, score, ">" + client + self.suffix)

    async def drop(self, *members: str) -> None:
        """Take entries out of the queue."""
        await ask(self.redis, "ZREM", self.clients, *(each + self.suffix for each in members))


class WriteQueueScripts(QueueScripts):
    """The same for the write side of a read-write lock."""

    suffix = ":write"
    leave_script = "read_write_lock.leave"

    def __init__(self, scripts: Scripts, *, fenced: bool = False, key: bytes = b"k") -> None:
        super().__init__(scripts, fenced=fenced, key=key)
        self.side = SideScripts(scripts, "write", key)
        self.channel = self.side.channel

    def tombstone(self, owner: str) -> bytes:
        return self.side.tombstone(owner)

    async def put(self, owner: str, lease_ms: int = LEASE) -> None:
        await ask(self.redis, "HSET", self.key, "mode", "write", owner + self.suffix, 1)
        await self.redis.pexpire(self.key, lease_ms)

    async def acquire(self, owner: str = A, *numbers: Any, **how: Any) -> Any:
        return await self.side.acquire(owner, *numbers, **how)

    async def release(self, owner: str = A, *numbers: Any, **how: Any) -> Any:
        return await self.side.release(owner, *numbers, **how)

    async def set_lease(self, owner: str = A, *numbers: Any, **how: Any) -> int:
        return await self.side.set_lease(owner, *numbers, **how)

    async def force_release(self, *numbers: Any) -> int:
        return await self.side.force_release(*numbers)

    async def asks(
        self, client: str, *, owner: str = "", lease_ms: Arg = LEASE, yields: Arg = 0
    ) -> Any:
        return await self.side.acquire(
            owner or owner_of(client),
            lease_ms=lease_ms,
            client=client + self.suffix,
            yields=yields,
        )

    async def holds(self) -> dict[str, int]:
        found: dict[bytes, bytes] = await ask(self.redis, "HGETALL", self.key)
        found.pop(b"mode", None)
        counts = {owner.decode(): int(count) for owner, count in found.items()}
        return {owner.removesuffix(self.suffix): count for owner, count in counts.items()}


async def queue_up(queue: QueueScripts, *clients: str) -> None:
    """Have a client hold it for as long as the test lasts, and others wait."""
    assert await queue.acquire(HOLDER) is None
    for position, client in enumerate(clients):
        assert (await queue.asks(client))[1] == position


async def freed(queue: QueueScripts, *clients: str) -> None:
    """Have it free with others in the queue, none of whom was called."""
    await queue_up(queue, *clients)
    await ask(queue.redis, "DEL", queue.key)
