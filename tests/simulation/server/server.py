"""The server: its databases, its scripts and its sessions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from tests.simulation.server.channels import Channels
from tests.simulation.server.database import Database, Hash, List
from tests.simulation.server.session import Session
from tests.simulation.server.sorted_set import SortedSet

_DATABASES = 16


class Server:
    """A server whose time is that of `clock`.

    Args:
        clock: Microseconds since the epoch. It is asked once for each command.
        name: Servers of different names have different run ids.

    Attributes:
        channels: Who listens to what.
        scripts: The scripts that are loaded, by sha.
        sessions: The sessions that have not ended, by number.
        current: The session whose command is being executed.
        full: It has no memory left, and refuses what takes some.
        busy: A script of somebody else runs; it refuses nearly everything.
    """

    def __init__(self, clock: Callable[[], int], name: str = "server") -> None:
        self.clock = clock
        self.channels = Channels()
        self.scripts: dict[bytes, Any] = {}
        self.sessions: dict[int, Session] = {}
        self.current: Session | None = None
        self.full = False
        self.busy = False
        self._name = name
        self._starts = 1
        self._last_number = 0
        self._databases = [Database(self.channels) for _ in range(_DATABASES)]

    def session(self, send: Callable[[bytes], None], close: Callable[[], None]) -> Session:
        """Return the server's side of a new connection.

        Args:
            send: Called with bytes for the client.
            close: Called when the server closes the connection.
        """
        self._last_number += 1
        session = Session(self, self._last_number, send, close)
        self.sessions[session.number] = session
        return session

    def restart(self, keep_data: bool) -> None:
        """End all sessions and close their connections; begin without scripts."""
        sessions = [*self.sessions.values()]
        for session in sessions:
            session.end()
        self.scripts.clear()
        self._starts += 1
        self._last_number = 0
        if not keep_data:
            self.clear()
        for session in sessions:
            session.close()

    def clear(self) -> None:
        """Remove the keys of all databases."""
        for database in self._databases:
            database.clear()

    def database(self, number: int = 0) -> Database:
        """Return a database as it is now."""
        database = self._databases[number]
        database.at(self.clock())
        return database

    @property
    def count(self) -> int:
        """How many databases there are."""
        return len(self._databases)

    @property
    def run_id(self) -> str:
        """40 hexadecimal digits, others after each start."""
        return hashlib.sha1(f"{self._name} {self._starts}".encode()).hexdigest()

    # Looks for checks. They change nothing.

    def keys(self, database: int = 0) -> list[bytes]:
        """Return the names of all keys, sorted."""
        return sorted(self.database(database).keys())

    def string(self, name: bytes, database: int = 0) -> bytes | None:
        """Return a string; None if there is none."""
        return self.database(database).typed(name, bytes)

    def hash(self, name: bytes, database: int = 0) -> dict[bytes, bytes]:
        """Return the fields and values of a hash; empty if there is none."""
        return {**(self.database(database).typed(name, Hash) or Hash())}

    def items(self, name: bytes, database: int = 0) -> list[bytes]:
        """Return the items of a list; empty if there is none."""
        return [*(self.database(database).typed(name, List) or ())]

    def scores(self, name: bytes, database: int = 0) -> dict[bytes, float]:
        """Return members and scores of a sorted set in its order; empty if there is none."""
        found = self.database(database).typed(name, SortedSet) or SortedSet()
        return {member: score for score, member in found.rows}

    def ttl_ms(self, name: bytes, database: int = 0) -> int:
        """Return how long a key is there: -1 for ever, -2 if it is not."""
        return self.database(database).left_ms(name)

    def subscribers(self, channel: bytes) -> int:
        """Return how many sessions listen to a channel, sharded or not."""
        counts = (self.channels.count(channel, sharded=sharded) for sharded in (False, True))
        return sum(counts)

    def subscribed(self) -> list[bytes]:
        """Return the channels that sessions listen to, sharded or not, sorted."""
        names = (self.channels.names(sharded=sharded) for sharded in (False, True))
        return sorted({channel for found in names for channel in found})
