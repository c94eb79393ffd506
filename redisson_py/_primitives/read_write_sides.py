"""What the two sides of a read-write lock share: one hash, one channel, one owner a task.

A task that writes may read as well; both holds then have the owner of the write hold, and
when that is released the task goes on reading (a downgrade). The other way round there is no
way: a reader that asks to write would wait for itself.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from redisson_py import _keys
from redisson_py._keys import Name
from redisson_py._primitives.context import Context
from redisson_py._primitives.hold_lock import HoldLock
from redisson_py._primitives.looking import HolderSnapshot, LockSnapshot, _description
from redisson_py._scripts import source
from redisson_py._scripts.source import Script
from redisson_py._stream.call import Call
from redisson_py._waiting import Granted
from redisson_py._wakeups.table import ALL, Wakes

INSPECT = source.load("read_write_lock.inspect")

READ_LOCK = "read lock"
WRITE_LOCK = "write lock"

#: What Redisson puts behind the owner in a writer's field.
WRITE_MARK = ":write"

_GRANTED = Granted(0)


class SharedOwner(str):
    """The owner of a write hold, under which its task may read as well.

    Attributes:
        reads: How many read holds and questions for them there are under it.
        in_doubt: One of them left a tombstone: no other can be told from its late duplicates.
    """

    reads = 0
    in_doubt = False


def read_write_wakes(message: int) -> int:
    """Return how many seats a message wakes.

    0 is the last reader out, 1 a writer out, for whom all readers waited together; 2, which
    only this library says and Redisson ignores, a writer that goes on reading.
    """
    return {0: 1, 1: ALL, 2: ALL}.get(message, 0)


class ReadWriteSide(HoldLock):
    """One side of a read-write lock."""

    _acquiring: ClassVar[Script]

    def __init__(self, context: Context, name: Name) -> None:
        super().__init__(context, name)
        self.channel = _keys.prefixed(b"redisson_rwlock", self._key)
        self._read_hold_key = READ_LOCK.encode() + b":" + self._key
        self._write_hold_key = WRITE_LOCK.encode() + b":" + self._key
        self._hold_key = self._line_key

    @property
    def _wakes(self) -> Wakes:
        """How many waiters a message is for."""
        return read_write_wakes

    def _named(self, name: Name) -> Self:
        return type(self)(self._context, name)

    def _send_acquire(self, owner: str, holds: int, lease_ms: int, deadline: float | None) -> Call:
        mark = self._mark(owner).encode()
        args = self._acquiring.bind(
            lock=self._key,
            tombstone=self._tombstones + mark,
            owner=mark,
            holds=holds,
            lease_ms=lease_ms,
        )
        return self._context.executor.start(self._acquiring, self._key, args, deadline)

    @staticmethod
    def _read(reply: Any) -> Granted[int] | int:
        return _GRANTED if reply is None else int(reply)

    async def _mode(self) -> bytes | None:
        """Return for what it is held: `b"read"` or `b"write"`, or None."""
        self._context.check()
        mode: bytes | None = await self._context.executor.ask(self._key, "HGET", self._key, "mode")
        return mode

    @abstractmethod
    async def inspect(self) -> LockSnapshot:
        """Return who holds this side, as a snapshot for people."""


@dataclass(frozen=True, slots=True)
class ReadWriteSnapshot(LockSnapshot):
    """A read-write lock as Redis had it a moment ago.

    Attributes:
        writer: Who writes, if anybody does; it may read as well.
        readers: Who reads, each with what is left of its own lease; not those it has ended for.
    """

    writer: HolderSnapshot | None
    readers: tuple[HolderSnapshot, ...]


async def look_at_read_write_lock(context: Context, key: bytes) -> ReadWriteSnapshot:
    """Return a snapshot of the read-write lock at `key`."""
    context.check()
    lock_left, _, *words = await context.executor.run(INSPECT, key, lock=key)
    tasks = {hold.owner: hold.task() for hold in context.watchdog.holds if hold.resource.key == key}
    clients: dict[str, tuple[str | None, int | None, str | None]] = {}
    writer = None
    readers: list[HolderSnapshot] = []
    for field, holds, left in zip(words[::3], words[1::3], words[2::3], strict=True):
        name = field.decode(errors="replace")
        owner = name.removesuffix(WRITE_MARK)
        writes = owner != name
        if left == -2 and not writes:
            continue
        left = lock_left if writes else left
        client_id = owner.rpartition(":")[0]
        if client_id not in clients:
            clients[client_id] = await _description(context, client_id)
        task = tasks.get(owner)
        holder = HolderSnapshot(
            owner,
            holds,
            float("inf") if left == -1 else max(0, left) / 1000,
            *clients[client_id],
            task=None if task is None else task.get_name(),
        )
        if writes:
            writer = holder
        else:
            readers.append(holder)
    holders = (*(() if writer is None else (writer,)), *readers)
    return ReadWriteSnapshot(holders, (), (key.decode(errors="replace"),), writer, tuple(readers))
