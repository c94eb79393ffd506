"""Snapshots for people: who holds what. Nothing is decided from them."""

from __future__ import annotations

import json
from dataclasses import dataclass

from redisson_py import _keys
from redisson_py._lease.hold import Hold
from redisson_py._primitives.context import Context
from redisson_py._scripts import source
from redisson_py._statistics import PrimitiveStatistics
from redisson_py.errors import BackendError

INSPECT = source.load("lock.inspect")


@dataclass(frozen=True, slots=True)
class HolderSnapshot:
    """Who holds something.

    Attributes:
        owner: The client's id and a number; for Redisson, of a thread.
        holds: The hold count.
        remaining: Seconds left of its lease on the server; infinity if it has none.
        host: Its host name, if it is a client of this library.
        pid: Its process id, likewise.
        client_name: The name its client was given, likewise.
        task: The name of its task, if it is this client's own.
    """

    owner: str
    holds: int
    remaining: float
    host: str | None = None
    pid: int | None = None
    client_name: str | None = None
    task: str | None = None


@dataclass(frozen=True, slots=True)
class LockSnapshot:
    """A lock as Redis had it a moment ago.

    Attributes:
        holders: Who holds it: nobody or one, for an exclusive lock.
        waiters: The owners that wait, where Redis knows them (only in fair queues).
        keys: The keys it uses.
    """

    holders: tuple[HolderSnapshot, ...]
    waiters: tuple[str, ...]
    keys: tuple[str, ...]


def local_statistics(context: Context, line_key: bytes, hold_key: bytes) -> PrimitiveStatistics:
    """Return the local counters of one primitive."""
    line = context.lines.find(line_key)
    holds = [hold for hold in context.watchdog.holds if hold.resource._hold_key == hold_key]
    return PrimitiveStatistics(
        waiters=context.waiters[line_key] + (line.waiting if line is not None else 0),
        held_leases=sum(len(hold.all_leases()) for hold in holds),
    )


async def look_at_lock(context: Context, key: bytes, *more_keys: bytes) -> LockSnapshot:
    """Return a snapshot of the lock at `key`."""
    left, *fields = await context.executor.run(INSPECT, key, lock=key)
    remaining = float("inf") if left == -1 else max(0, left) / 1000
    holders = [
        await _holder(context, owner.decode(), int(count), remaining)
        for owner, count in zip(fields[::2], fields[1::2], strict=True)
    ]
    keys = tuple(each.decode(errors="replace") for each in (key, *more_keys))
    return LockSnapshot(tuple(holders), (), keys)


async def _holder(context: Context, owner: str, holds: int, remaining: float) -> HolderSnapshot:
    client_id = owner.rpartition(":")[0]
    own = _own_hold(context, owner)
    task = own.task() if own is not None else None
    host, pid, client_name = await _description(context, client_id)
    return HolderSnapshot(
        owner,
        holds,
        remaining,
        host=host,
        pid=pid,
        client_name=client_name,
        task=None if task is None else task.get_name(),
    )


def _own_hold(context: Context, owner: str) -> Hold | None:
    return next((hold for hold in context.watchdog.holds if hold.owner == owner), None)


async def _description(
    context: Context, client_id: str
) -> tuple[str | None, int | None, str | None]:
    """Return what a client says of itself; nothing for Redisson, or when it cannot be read."""
    key = _keys.client_description(context.options.names.prefix, client_id)
    try:
        text = await context.executor.ask(key, "GET", key)
        found = json.loads(text) if text else {}
        return found.get("host"), found.get("pid"), found.get("client_name")
    except (BackendError, ValueError, AttributeError):
        return None, None, None
