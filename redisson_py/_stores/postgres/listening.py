"""LISTEN for the names that somebody waits for, on one connection.

Each name has a channel of its own: with one for all, each release that is waited for would go to
each client of the database. A channel stays for a while when nobody waits any more, as the next
waiter is often near.

Invariant: a name counts as heard only while its LISTEN is in force, so that a caller that asks
afterwards misses no release. Whenever that was interrupted, all waiters ask again (`ring_all`).

A pooler in transaction mode takes LISTEN and delivers nothing. So each connection proves itself
with a message of our own, sent by another one. While there is none that delivers, nothing is heard,
and the store has its waiters poll. So it is while the server has no room for messages, or nearly
none: the next release may be one that cannot ring.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, final

import asyncpg

from redisson_py._loop import end_task
from redisson_py._stores.contract import Bell
from redisson_py._stores.postgres import sql
from redisson_py._stores.postgres.connections import Target, abandon
from redisson_py._time import now
from redisson_py.errors import BackendError, ConnectionLostError

#: Seconds for which a waiter is kept while its LISTEN is not in force yet; then it polls.
_PATIENCE: Final = 1.0
#: Seconds without an answer after which a connection counts as dead.
_SILENCE: Final = 5.0
#: Seconds between two signs of life, which say how full the queue for notifications is.
_INTERVAL: Final = 10.0
#: Seconds after which another connection is tried where messages are not delivered.
_DEAF_PAUSE: Final = 30.0
_LONGEST_PAUSE: Final = 5.0
#: Channels that stay although nobody waits.
_SPARE: Final = 256

_FAILURES: Final = (
    OSError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    BackendError,
)

Notify = Callable[[str], Awaitable[None]]


def channel_of(name: str) -> str:
    """Return the channel of a name: 128 bits of its digest."""
    return f"redisson_py_{hashlib.sha256(name.encode()).hexdigest()[:32]}"


@final
class _Entry:
    """A name, its waiters, and whether its LISTEN is in force."""

    __slots__ = ("channel", "heard", "owners")

    def __init__(self, name: str) -> None:
        self.channel: str = channel_of(name)
        self.owners: set[str] = set()
        self.heard = asyncio.Event()


@final
class Listening:
    """Rings for names when they are released.

    Args:
        target: Where to connect.
        notify: Sends a message to a channel, on another connection.
        bell: What to ring.
    """

    def __init__(self, target: Target, notify: Notify, bell: Bell) -> None:
        # Each LISTEN is a statement of its own: none is worth keeping.
        self._target: Final = replace(target, statement_cache_size=0)
        self._notify: Final = notify
        self._bell: Final = bell
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._names: dict[str, str] = {}  # by channel
        self._changed = asyncio.Event()
        self._deaf = False
        self._suspect = False
        self._connection: asyncpg.Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    def add(self, name: str, owner: str) -> None:
        """Note that an owner waits for a name."""
        entry = self._entries.get(name)
        if entry is None:
            entry = self._entries[name] = _Entry(name)
            self._names[entry.channel] = name
            self._changed.set()
        entry.owners.add(owner)

    def discard(self, name: str, owner: str) -> None:
        """Note that an owner does not wait any more."""
        entry = self._entries.get(name)
        if entry is not None and owner in entry.owners:
            entry.owners.discard(owner)
            self._entries.move_to_end(name)
            if len(self._entries) > _SPARE:
                self._changed.set()

    def hears(self, name: str) -> bool:
        """Whether a release of the name would ring."""
        entry = self._entries.get(name)
        return entry is not None and entry.heard.is_set()

    async def wait_until_heard(self, name: str, deadline: float) -> bool:
        """Return whether the name is heard now; connect if there is no connection yet."""
        if self._task is None or (self._task.done() and not self._stopped):
            # An event loop that ends has cancelled every task, and a block that cleans up waits.
            self._task = asyncio.create_task(self._run(), name="redisson_py PostgreSQL listening")
        entry = self._entries.get(name)
        if entry is None or self._deaf:
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(min(_PATIENCE, deadline - now())):
                await entry.heard.wait()
        return entry.heard.is_set()

    def suspect(self) -> None:
        """Ask for a sign of life now: another connection to this server was lost."""
        self._suspect = True
        self._changed.set()

    async def stop(self) -> None:
        """Disconnect."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def leave_behind(self) -> None:
        """Disconnect without waiting: the event loop was closed, or ends now."""
        task, self._task = self._task, None
        self._stopped = True
        if self._connection is not None:
            abandon(self._connection)
        if task is not None:
            end_task(task)

    async def _run(self) -> None:
        failures = 0
        again = False
        while True:
            with suppress(*_FAILURES):
                connection = self._connection = await self._target.connect(_SILENCE)
                connection.add_termination_listener(self._ended)
                try:
                    self._deaf = not await self._delivers(connection)
                    if not self._deaf:
                        await self._listen(connection)
                        if again:
                            self._bell.ring_all()
                        again, failures = True, 0
                        await self._serve(connection)
                finally:
                    self._connection = None
                    connection.terminate()
                    for entry in self._entries.values():
                        # Its waiter may sleep already, although others were not listened to yet.
                        again = again or entry.heard.is_set()
                        entry.heard.clear()
            failures += 1
            pause = _DEAF_PAUSE if self._deaf else min(0.05 * 2**failures, _LONGEST_PAUSE)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))

    async def _serve(self, connection: asyncpg.Connection) -> None:
        """Follow the names until the connection ends."""
        while not connection.is_closed():
            self._changed.clear()
            await self._listen(connection)
            await self._forget(connection)
            if self._suspect:
                self._suspect = False
                if await self._is_crowded(connection):
                    self._deaf = True
                    self._bell.ring_all()
                    return
            try:
                async with asyncio.timeout(_INTERVAL):
                    await self._changed.wait()
            except TimeoutError:
                self._suspect = True

    async def _listen(self, connection: asyncpg.Connection) -> None:
        for entry in [*self._entries.values()]:
            if not entry.heard.is_set():
                await _bounded(connection, connection.add_listener(entry.channel, self._ring))
                entry.heard.set()

    async def _forget(self, connection: asyncpg.Connection) -> None:
        idle = [name for name, entry in self._entries.items() if not entry.owners]
        for name in idle[: max(0, len(self._entries) - _SPARE)]:
            entry = self._entries[name]
            if entry.owners:
                continue
            del self._entries[name], self._names[entry.channel]
            entry.heard.clear()
            await _bounded(connection, connection.remove_listener(entry.channel, self._ring))

    async def _delivers(self, connection: asyncpg.Connection) -> bool:
        channel, heard = f"redisson_py_{secrets.token_hex(16)}", asyncio.Event()

        def hear(*_: object) -> None:
            heard.set()

        await _bounded(connection, connection.add_listener(channel, hear))
        if await self._is_crowded(connection):
            return False
        try:
            await self._notify(channel)
        except BackendError as error:
            if isinstance(error, ConnectionLostError):
                raise
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await heard.wait()
        if heard.is_set():
            await _bounded(connection, connection.remove_listener(channel, hear))
        return heard.is_set()

    async def _is_crowded(self, connection: asyncpg.Connection) -> bool:
        """Ask for a sign of life; return whether the next release may be unable to ring."""
        # Not prepared: a pooler may send the two halves of that to two servers.
        status: str = await _bounded(connection, connection.execute(sql.IS_CROWDED))
        return status == "SELECT 1"

    def _ended(self, _connection: object) -> None:
        self._changed.set()

    def _ring(self, _connection: object, _pid: int, channel: str, _payload: object) -> None:
        name = self._names.get(channel)
        if name is not None and self._entries[name].owners:
            self._bell.ring(name)


async def _bounded(connection: asyncpg.Connection, statement: Awaitable[Any]) -> Any:
    """Return the result of a statement; if it takes too long, end its connection, and raise."""
    timer = asyncio.get_running_loop().call_later(_SILENCE, connection.terminate)
    try:
        return await statement
    finally:
        timer.cancel()
