"""Describes holders in Redis, for people. The library decides nothing from that."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Sequence

from redisson_py import _keys
from redisson_py._commands.replies import stored_number
from redisson_py._engine.hold import Hold
from redisson_py._engine.snapshots import HolderSnapshot
from redisson_py._on_redis.context import RedisContext
from redisson_py.errors import BackendError

#: The description that a client keeps in Redis: host, process id, client name.
Description = tuple[str | None, int | None, str | None]


class Describer:
    """Describes the client and task of an owner.

    Args:
        context: The parts of the inspecting client.
        holds: The holds of that client.
    """

    def __init__(self, context: RedisContext, holds: Iterable[Hold]) -> None:
        self._context = context
        self._tasks = {hold.owner: hold.task() for hold in holds}
        self._known: dict[str, Description] = {}

    async def holders_of(self, fields: Sequence[bytes], left_ms: int) -> tuple[HolderSnapshot, ...]:
        """Return the holders of a lock, from its hash: owners, each followed by its hold count."""
        rows = zip(texts(fields[::2]), map(stored_number, fields[1::2]), strict=False)
        return tuple([await self.holder(*row, seconds(left_ms)) for row in rows])

    async def holder(self, owner: str, holds: int, remaining: float) -> HolderSnapshot:
        """Return a holder with the description of its client."""
        host, pid, client_name = await self.describe(owner.rpartition(":")[0])
        task = self._tasks.get(owner)
        return HolderSnapshot(
            owner,
            holds,
            remaining,
            host=host,
            pid=pid,
            client_name=client_name,
            task=None if task is None else task.get_name(),
        )

    async def describe(self, client_id: str) -> Description:
        """Return a client's description; empty for Redisson, or if it cannot be read."""
        if client_id not in self._known:
            self._known[client_id] = await description(self._context, client_id)
        return self._known[client_id]


def own_description(client_name: str | None) -> str:
    """Return the description of a client of this process."""
    import json  # Imported late: it takes a twentieth of this library's import time.

    return json.dumps(
        {"host": socket.gethostname(), "pid": os.getpid(), "client_name": client_name}
    )


async def description(context: RedisContext, client_id: str) -> Description:
    """Return a client's description; empty for Redisson, or if it cannot be read."""
    import json

    key = _keys.client_description(context.options.names.prefix, client_id)
    try:
        text = await context.executor.ask(key, "GET", key)
        found = json.loads(text) if text else {}
        return found.get("host"), found.get("pid"), found.get("client_name")
    except (BackendError, ValueError, AttributeError):
        return None, None, None


def seconds(milliseconds: int) -> float:
    """Return a PTTL in seconds; infinity for a key without expiry."""
    return float("inf") if milliseconds == -1 else max(0, milliseconds) / 1000


def texts(keys: Iterable[bytes]) -> tuple[str, ...]:
    """Return keys, or owners, as text."""
    return tuple(key.decode(errors="replace") for key in keys)
