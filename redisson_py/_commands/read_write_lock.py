"""The scripts of `lua/read_lock`, `lua/write_lock`, `lua/read_write_lock`: a hash, two sides."""

from __future__ import annotations

from redisson_py._commands.lock import LockCommands
from redisson_py._commands.wakes import read_write_wakes
from redisson_py._scripts import source

ACQUIRE_READ = source.load("read_lock.acquire")
FORCE_RELEASE_READ = source.load("read_lock.force_release")
RELEASE_READ = source.load("read_lock.release")
RENEW_READ = source.load("read_lock.renew")
SET_LEASE_READ = source.load("read_lock.set_lease")

ACQUIRE_WRITE = source.load("write_lock.acquire")
FORCE_RELEASE_WRITE = source.load("write_lock.force_release")
RELEASE_WRITE = source.load("write_lock.release")
SET_LEASE_WRITE = source.load("write_lock.set_lease")

INSPECT = source.load("read_write_lock.inspect")

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

    @staticmethod
    def wakes(message: int) -> int:
        """Return how many waiters a message is for."""
        return read_write_wakes(message)

    @property
    def hold_key(self) -> bytes:
        """What names that share their holds have in common."""
        return self.kind.encode() + b":" + self.key


class ReadLockCommands(_SideCommands):
    """The side that many hold together."""

    __slots__ = ()

    kind = "read lock"
    acquire_script = ACQUIRE_READ
    release_script = RELEASE_READ
    set_lease_script = SET_LEASE_READ
    renew_script = RENEW_READ
    force_release_script = FORCE_RELEASE_READ
    # Redisson's watchdog sets the expiry of the hash for all readers, whatever they need.
    shares_lease = True
    # While others read, nothing else takes the field of a reader out.
    leaves_traces = True


class WriteLockCommands(_SideCommands):
    """The side that one holds alone."""

    __slots__ = ()

    kind = "write lock"
    acquire_script = ACQUIRE_WRITE
    release_script = RELEASE_WRITE
    set_lease_script = SET_LEASE_WRITE
    force_release_script = FORCE_RELEASE_WRITE

    field = staticmethod(_write_field)  # type: ignore[mutable-override]
    owner = staticmethod(_writer)  # type: ignore[mutable-override]
