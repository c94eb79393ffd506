"""The scripts of `lua/read_lock`, `lua/write_lock`, `lua/read_write_lock`: a hash, two sides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from redisson_py import _keys
from redisson_py._answers import Answer, Busy, Change
from redisson_py._redis.commands.client_queue import look
from redisson_py._redis.commands.lock import IN_QUEUE, LockCommands
from redisson_py._redis.commands.request import AcquireValues
from redisson_py._redis.commands.wakes import read_write_wakes, yielding_reader_wakes
from redisson_py._redis.scripts import source
from redisson_py._redis.scripts.shapes import array, text, whole
from redisson_py._redis.scripts.source import Arg, Script
from redisson_py._time import milliseconds

ACQUIRE_READ = source.load("read_lock.acquire", array(*IN_QUEUE))
FORCE_RELEASE_READ = source.load("read_lock.force_release")
RELEASE_READ = source.load("read_lock.release")
RENEW_READ = source.load("read_lock.renew")
SET_LEASE_READ = source.load("read_lock.set_lease")

ACQUIRE_WRITE = source.load("write_lock.acquire", array(*IN_QUEUE))
FORCE_RELEASE_WRITE = source.load("write_lock.force_release")
RELEASE_WRITE = source.load("write_lock.release")
SET_LEASE_WRITE = source.load("write_lock.set_lease")

LEAVE = source.load("read_write_lock.leave")

INSPECT = source.load(
    "read_write_lock.inspect", look((whole(-2), text), (text, whole(0), whole(-2)))
)

#: Seconds for which a waiting writer keeps readers out after its last request. It repeats the
#: request three times in this period; a writer that dies blocks readers for no longer than this.
WRITER_ALIVE_SECONDS = 10.0

#: What Redisson appends to the owner to name a writer's field.
WRITE_SUFFIX = ":write"


def _write_field(owner: str) -> bytes:
    return (owner + WRITE_SUFFIX).encode()


def _writer(field: bytes) -> str:
    return field.decode().removesuffix(WRITE_SUFFIX)


class _SideCommands(LockCommands):
    """One side of a read-write lock."""

    __slots__ = ()

    channel_prefix = b"redisson_rwlock"
    leave_script: Script = LEAVE
    inspect_script: Script = INSPECT
    # Who has one side may have the other too, and readers share the expiry.
    leave_taken_script: Script | None = None

    wakes: staticmethod[[int], int] = staticmethod(read_write_wakes)

    def _own_args(self, request: AcquireValues) -> dict[str, Arg]:
        return {**super()._own_args(request), "writers": _keys.waiting_writers(self.key)}


class ReadLockCommands(_SideCommands):
    """The side that many owners may hold together."""

    __slots__ = ()

    kind = hold_kind = "read lock"
    client_suffix: bytes | None = b":read"
    acquire_script = ACQUIRE_READ
    release_script = RELEASE_READ
    set_lease_script = SET_LEASE_READ
    renew_script = RENEW_READ
    force_release_script = FORCE_RELEASE_READ
    # Redisson's watchdog sets the expiry of the hash for all readers, whatever their leases.
    shares_lease = True
    # While others read, nothing else removes the field of a reader whose lease has ended.
    leaves_traces = True
    #: Whether it lets waiting writers go first.
    yields = False

    def _own_args(self, request: AcquireValues) -> dict[str, Arg]:
        yields = 1 if self.yields else 2 if request.compares else 0
        return {**super()._own_args(request), "yields": yields, "defers": request.yields}


class YieldingReadLockCommands(ReadLockCommands):
    """The same, for readers that let waiting writers go first."""

    __slots__ = ()

    yields = True
    wakes: staticmethod[[int], int] = staticmethod(yielding_reader_wakes)

    @property
    def keys(self) -> tuple[bytes, ...]:
        """Every key of this lock: that of the waiting writers too."""
        return (self.key, _keys.waiting_writers(self.key))


class WriteLockCommands(_SideCommands):
    """The side that one owner holds alone."""

    __slots__ = ()

    kind = hold_kind = "write lock"
    client_suffix: bytes | None = b":write"
    acquire_script = ACQUIRE_WRITE
    release_script = RELEASE_WRITE
    set_lease_script = SET_LEASE_WRITE
    force_release_script = FORCE_RELEASE_WRITE

    field: staticmethod[[str], bytes] = staticmethod(_write_field)
    owner: staticmethod[[bytes], str] = staticmethod(_writer)

    def _own_args(self, request: AcquireValues) -> dict[str, Arg]:
        return {**super()._own_args(request), "alive_ms": 0}

    def _release(
        self,
        field: bytes,
        target: int,
        lease_ms: int,
        late: bool,
        change: Change | None,
        **own_args: Arg,
    ) -> bytes:
        own = {"writers": _keys.waiting_writers(self.key), "waits": 0, **own_args}
        return super()._release(field, target, lease_ms, late, change, **own)


class PreferredWriteLockCommands(WriteLockCommands):
    """The same, for writers that go before yielding readers."""

    __slots__ = ()

    queues = True

    @property
    def keys(self) -> tuple[bytes, ...]:
        """Every key of this lock: that of the waiting writers too."""
        return (self.key, _keys.waiting_writers(self.key))

    def _own_args(self, request: AcquireValues) -> dict[str, Arg]:
        """Return the arguments of `acquire` that not all kinds have; it waits unless `once`."""
        alive_ms = 0 if request.once else milliseconds(WRITER_ALIVE_SECONDS)
        return {**super()._own_args(request), "alive_ms": alive_ms}

    def answer(self, reply: Any, request: AcquireValues) -> Answer:
        """Return what the reply to `acquire` means; a waiter repeats it in time to stay alive."""
        answer = super().answer(reply, request)
        if request.once or not isinstance(answer, Busy):
            return answer
        stay_alive, retry_in = WRITER_ALIVE_SECONDS / 3, answer.retry_in
        soon = stay_alive if retry_in is None else min(stay_alive, retry_in)
        return replace(answer, retry_in=soon, queued=True)

    def undo(self, request: AcquireValues, late: bool, change: Change | None) -> bytes:
        """Return the arguments of the script that gives back a hold, or stops waiting."""
        return self._release(request.field, 0, request.lease_ms, late, change, waits=1)
