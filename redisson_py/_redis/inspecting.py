"""Describes holders in Redis, for people. The library decides nothing from that."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Sequence
from dataclasses import replace

from redisson_py import _keys
from redisson_py._engine.handed_over import SECRET_BYTES
from redisson_py._engine.hold import Hold
from redisson_py._engine.snapshots import HolderSnapshot, Holding, WaiterSnapshot
from redisson_py._redis.commands.client_queue import Waits
from redisson_py._redis.commands.election import BESIDE_OWNER
from redisson_py._redis.commands.lock import NOBODY
from redisson_py._redis.commands.replies import stored_number
from redisson_py._redis.context import RedisContext
from redisson_py._redis.executor import Executor
from redisson_py._redis.stream.call import Call
from redisson_py.errors import BackendError

#: The most waiters that are described.
_MOST_WAITERS = 100

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
        owners = [
            (owner.decode(errors="replace"), stored_number(count))
            for owner, count in zip(fields[::2], fields[1::2], strict=False)
            if owner not in BESIDE_OWNER
        ]
        return tuple([await self.holder(*each, seconds(left_ms)) for each in owners])

    async def holder(self, owner: str, holds: int, remaining: float) -> HolderSnapshot:
        """Return a holder with the description of its client."""
        host, pid, client_name = await self.describe(owner.partition(":")[0])
        task = self._tasks.get(owner)
        return HolderSnapshot(
            owner,
            holds,
            remaining,
            host=host,
            pid=pid,
            client_name=client_name,
            task=None if task is None else task.get_name(),
            state=state_of(owner.encode(), None),
        )

    async def holding(self, key: bytes, holder: HolderSnapshot) -> HolderSnapshot:
        """Return the holder of a lock with how it has it."""
        owner = holder.owner.encode()
        mark = await self._context.executor.query(key, "GET", _keys.tombstone(key, owner))
        return replace(holder, state=state_of(owner, mark))

    async def waiting(self, waits: Sequence[Waits]) -> tuple[WaiterSnapshot, ...]:
        """Return those that wait, the first hundred, with the descriptions of their clients."""
        listed = waits[:_MOST_WAITERS]
        ids = [each.owner.partition(":")[0] for each in listed]
        await self._learn(ids)
        return tuple(
            WaiterSnapshot(*each, *self._known[client_id])
            for each, client_id in zip(listed, ids, strict=True)
        )

    async def describe(self, client_id: str) -> Description:
        """Return a client's description; empty for Redisson, or if it cannot be read."""
        await self._learn([client_id])
        return self._known[client_id]

    async def _learn(self, client_ids: Iterable[str]) -> None:
        unknown = dict.fromkeys(each for each in client_ids if each not in self._known)
        self._known |= await descriptions(self._context, unknown)


def own_description(client_name: str | None) -> str:
    """Return the description of a client of this process."""
    import json  # Imported late: it takes a twentieth of this library's import time.

    return json.dumps(
        {"host": socket.gethostname(), "pid": os.getpid(), "client_name": client_name}
    )


async def descriptions(context: RedisContext, client_ids: Iterable[str]) -> dict[str, Description]:
    """Return what clients say of themselves; empty for Redisson, or if it cannot be read.

    All are asked for at once.
    """
    executor, prefix = context.executor, context.options.names.prefix
    keys = {each: _keys.client_description(prefix, each) for each in client_ids}
    calls = {each: executor.command(key, "GET", key) for each, key in keys.items()}
    try:
        return {each: await _description(executor, call) for each, call in calls.items()}
    finally:
        for call in calls.values():
            # If this was cancelled, nobody reads the other replies.
            call.future.cancel()


async def _description(executor: Executor, call: Call) -> Description:
    import json

    try:
        text = await executor.answer(call)
        found = json.loads(text) if text else {}
        return found.get("host"), found.get("pid"), found.get("client_name")
    except (BackendError, ValueError, AttributeError):
        return None, None, None


def state_of(owner: bytes, mark: bytes | None) -> Holding:
    """Return how an owner has a lock; `mark` is in its tombstone: see lua/lock/hand_over."""
    if owner.endswith(NOBODY):
        return "kept"
    return "handed over" if mark is not None and len(mark) == 2 * SECRET_BYTES else "held"


def seconds(milliseconds: int) -> float:
    """Return a PTTL in seconds; infinity for a key without expiry."""
    return float("inf") if milliseconds == -1 else max(0, milliseconds) / 1000


def texts(keys: Iterable[bytes]) -> tuple[str, ...]:
    """Return keys, or owners, as text."""
    return tuple(key.decode(errors="replace") for key in keys)
