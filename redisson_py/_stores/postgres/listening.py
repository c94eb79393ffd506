"""LISTEN for calls, on one connection and one channel: the client's station in every client queue.

A message says for which name it is, and for which owner where each waits for itself: ask now, or
ask soon if nobody else took it. Clients of older
versions have a channel for each name (`channel_of`), on which a release rings for all of them.

Who observes an election has a channel of that name (`observers_of`), on which every change rings.

Invariant: a client is heard only while its LISTEN is in force. Whenever that was interrupted, all
waiters ask again (`ring_all`).

A pooler in transaction mode takes LISTEN and delivers nothing. So each connection proves itself
with a message of our own, sent by another one. While there is none that delivers, nothing is heard,
and the store has its waiters poll. So it is while the server has no room for messages, or nearly
none: the next release may be one that cannot ring.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, Final, final

import asyncpg

from redisson_py._loop import end_task
from redisson_py._stores.contract import Bell
from redisson_py._stores.postgres import queue, sql
from redisson_py._stores.postgres.connections import Target, abandon
from redisson_py._stores.postgres.table import id_of
from redisson_py._time import now
from redisson_py.errors import BackendError, ConnectionLostError

#: Seconds for which a waiter is kept while its LISTEN is not in force yet; then it polls.
_PATIENCE_SECONDS: Final = 1.0
#: Seconds without an answer after which a connection counts as dead.
_SILENCE_SECONDS: Final = 5.0
#: Seconds between two signs of life, which say how full the queue for notifications is.
_INTERVAL_SECONDS: Final = 10.0
#: Seconds after which another connection is tried where messages are not delivered.
_DEAF_PAUSE: Final = 30.0
_LONGEST_PAUSE: Final = 5.0
#: Seconds after which a waiter that was asked to watch asks: nothing is kept for the first any
#: more.
WATCH_TIME: Final = queue.CALL_TIME + 0.01
#: Proves that messages are delivered.
_PROOF: Final = "p"

_FAILURES: Final = (
    OSError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    BackendError,
)

Notify = Callable[[str, str], Awaitable[None]]


def channel_of(name: str) -> str:
    """Return the channel of a name, for clients of older versions: 128 bits of its digest."""
    return f"{queue.CHANNEL}{id_of(name).hex()[:32]}"


def observers_of(name: str) -> str:
    """Return the channel of those that observe the election of a name."""
    return f"{queue.CHANNEL}e_{id_of(name).hex()[:32]}"


@final
class _Waited:
    """A name that owners of this client wait for."""

    __slots__ = ("name", "owners", "watches")

    def __init__(self, name: str) -> None:
        self.name: str = name
        #: In the order in which they joined the queue.
        self.owners: dict[str, None] = {}
        #: Ring when it is time to look whether the first of the queue took it: for the owner that
        #: a message named, or for whoever is the first here.
        self.watches: dict[str | None, asyncio.TimerHandle] = {}


@final
class Listening:
    """Rings for names when this client is called.

    Args:
        target: Where to connect.
        notify: Sends a message to a channel, on another connection.
        bell: What to ring.

    Attributes:
        station: Where this client listens, in every queue.
    """

    def __init__(self, target: Target, notify: Notify, bell: Bell) -> None:
        # LISTEN is not worth keeping.
        self._target: Final = replace(target, statement_cache_size=0)
        self._notify: Final = notify
        self._bell: Final = bell
        self.station: Final = secrets.token_hex(8)
        self._waited: dict[str, _Waited] = {}  # by the digest of the name
        #: By channel those that observe, each with whether it is to be rung for.
        self._observers: dict[str, dict[tuple[str, str], bool]] = {}
        #: Their channels that this connection listens to.
        self._observed: set[str] = set()
        self._heard = asyncio.Event()
        self._proved = asyncio.Event()
        self._changed = asyncio.Event()
        self._deaf = False
        self._suspect = False
        self._connection: asyncpg.Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    @property
    def hears(self) -> bool:
        """Whether a call would ring."""
        return self._heard.is_set()

    def add(self, key: bytes, name: str, owner: str) -> None:
        """Note that an owner waits for a name, whose row has this key."""
        digest = key.hex()
        waited = self._waited.get(digest)
        if waited is None:
            waited = self._waited[digest] = _Waited(name)
        waited.owners[owner] = None

    def discard(self, key: bytes, owner: str) -> None:
        """Note that an owner does not wait any more."""
        digest = key.hex()
        waited = self._waited.get(digest)
        if waited is not None:
            waited.owners.pop(owner, None)
            self._end_watch(waited, owner)
            if not waited.owners:
                self._end_watches(self._waited.pop(digest))

    def observe(self, observer: tuple[str, str]) -> None:
        """Ring for an observer once, after the next change that its connection tells."""
        channel = observers_of(observer[0])
        self._observers.setdefault(channel, {})[observer] = True
        if channel not in self._observed:
            self._connect()
            self._changed.set()

    def observes(self, observer: tuple[str, str]) -> bool:
        """Return whether the next change will ring for an observer."""
        channel = observers_of(observer[0])
        return channel in self._observed and self._observers.get(channel, {}).get(observer, False)

    def unobserve(self, observer: tuple[str, str]) -> None:
        """Forget an observer."""
        channel = observers_of(observer[0])
        others = self._observers.get(channel, {})
        others.pop(observer, None)
        if not others:
            self._observers.pop(channel, None)
            self._changed.set()

    async def wait_until_heard(self, deadline: float) -> bool:
        """Return whether calls are heard now; connect if there is no connection yet."""
        self._connect()
        if not self._deaf:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(_PATIENCE_SECONDS, deadline - now())):
                    await self._heard.wait()
        return self.hears

    def _connect(self) -> None:
        if self._task is None or (self._task.done() and not self._stopped):
            # An event loop that ends has cancelled every task, and a block that cleans up waits.
            self._task = asyncio.create_task(self._run(), name="redisson_py PostgreSQL listening")

    def suspect(self) -> None:
        """Ask for a sign of life now: another connection to this server was lost."""
        self._suspect = True
        self._changed.set()

    async def stop(self) -> None:
        """Disconnect."""
        self._forget()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def leave_behind(self) -> None:
        """Disconnect without waiting: the event loop was closed, or ends now."""
        self._forget()
        task, self._task = self._task, None
        if self._connection is not None:
            abandon(self._connection)
        if task is not None:
            end_task(task)

    def _forget(self) -> None:
        self._stopped = True
        for waited in self._waited.values():
            self._end_watches(waited)
        self._waited.clear()
        self._observers.clear()

    async def _run(self) -> None:
        failures = 0
        again = False
        while True:
            with suppress(*_FAILURES):
                connection = self._connection = await self._target.connect(_SILENCE_SECONDS)
                connection.add_termination_listener(self._ended)
                try:
                    self._deaf = not await self._delivers(connection)
                    if not self._deaf:
                        self._heard.set()
                        if again:
                            self._bell.ring_all()
                        again, failures = True, 0
                        await self._serve(connection)
                finally:
                    self._connection = None
                    self._observed.clear()
                    connection.terminate()
                    self._heard.clear()
            failures += 1
            pause = _DEAF_PAUSE if self._deaf else min(0.05 * 2**failures, _LONGEST_PAUSE)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))

    async def _serve(self, connection: asyncpg.Connection) -> None:
        """Ask for signs of life until the connection ends."""
        while not connection.is_closed():
            self._changed.clear()
            await self._listen_for_observers(connection)
            if self._suspect:
                self._suspect = False
                if await self._is_crowded(connection):
                    self._deaf = True
                    self._bell.ring_all()
                    return
            try:
                async with asyncio.timeout(_INTERVAL_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                self._suspect = True

    async def _listen_for_observers(self, connection: asyncpg.Connection) -> None:
        for channel in self._observed - self._observers.keys():
            self._observed.discard(channel)
            await _bounded(connection, connection.remove_listener(channel, self._changed_leader))
        for channel in self._observers.keys() - self._observed:
            await _bounded(connection, connection.add_listener(channel, self._changed_leader))
            self._observed.add(channel)
            # A change may have come before.
            self._ring_observers(channel)

    def _changed_leader(self, _connection: object, _pid: int, channel: str, _: object) -> None:
        self._ring_observers(channel)

    def _ring_observers(self, channel: str) -> None:
        observers = self._observers.get(channel, {})
        for observer in [each for each, rings in observers.items() if rings]:
            observers[observer] = False
            self._bell.ring(*observer)

    async def _delivers(self, connection: asyncpg.Connection) -> bool:
        channel = f"{queue.CHANNEL}{self.station}"
        self._proved.clear()
        await _bounded(connection, connection.add_listener(channel, self._hear))
        if await self._is_crowded(connection):
            return False
        try:
            await self._notify(channel, _PROOF)
        except BackendError as error:
            if isinstance(error, ConnectionLostError):
                raise
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._proved.wait()
        return self._proved.is_set()

    async def _is_crowded(self, connection: asyncpg.Connection) -> bool:
        """Ask for a sign of life; return whether the next release may be unable to ring."""
        # Not prepared: a pooler may send the two halves of that to two servers.
        status: str = await _bounded(connection, connection.execute(sql.IS_CROWDED))
        return status == "SELECT 1"

    def _ended(self, _connection: object) -> None:
        self._changed.set()

    def _hear(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        message = str(payload)
        if message == _PROOF:
            self._proved.set()
            return
        digest, _, named = message[1:].partition(" ")
        what, waited, owner = message[:1], self._waited.get(digest), named or None
        if waited is None:
            return
        if what == queue.ASK_NOW:
            self._end_watch(waited, owner)
            self._ring(waited, owner, 1)
        elif what == queue.WATCH and owner not in waited.watches:
            loop = asyncio.get_running_loop()
            waited.watches[owner] = loop.call_later(WATCH_TIME, self._look, waited, owner)

    def _look(self, waited: _Waited, owner: str | None) -> None:
        waited.watches.pop(owner, None)
        self._ring(waited, owner, 2)

    def _ring(self, waited: _Waited, owner: str | None, most: int) -> None:
        """Ring for the owner that a message named, or for the first of those that wait.

        Candidates of one client wait side by side, and no message names them.
        """
        for each in list(islice(waited.owners, most)) if owner is None else [owner]:
            self._bell.ring(waited.name, each)

    @staticmethod
    def _end_watch(waited: _Waited, owner: str | None) -> None:
        if (watch := waited.watches.pop(owner, None)) is not None:
            watch.cancel()

    @classmethod
    def _end_watches(cls, waited: _Waited) -> None:
        for owner in [*waited.watches]:
            cls._end_watch(waited, owner)


async def _bounded(connection: asyncpg.Connection, statement: Awaitable[Any]) -> Any:
    """Return the result of a statement; if it takes too long, end its connection, and raise."""
    timer = asyncio.get_running_loop().call_later(_SILENCE_SECONDS, connection.terminate)
    try:
        return await statement
    finally:
        timer.cancel()
