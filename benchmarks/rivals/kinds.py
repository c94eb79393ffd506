"""What can be had of ours: a row of the tables each, all entered by `async with`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any

from redisson_py import CountDownLatch, Lease, PermitExpirableSemaphore, ReadWriteLock, Redisson

LOCK = "lock"
FENCED = "fenced lock"
NON_REENTRANT = "non-reentrant lock"
FAIR = "fair lock"
READ = "read lock"
WRITE = "write lock"
MIXED = "read and write lock, 9 to 1"
SEMAPHORE = "semaphore"
EXPIRABLE = "permit-expirable semaphore"
ONE_PERMIT = "semaphore of 1"
ONE_EXPIRABLE = "permit-expirable semaphore of 1"
MULTI = "multi lock of 3"
RED = "red lock"
LATCH = "latch"
BARRIER = "barrier"

#: Of the semaphores that are contended; those that are not have enough for every task.
PERMITS = 3

#: One write is among so many visits to `MIXED`.
_EVERY = 10

Entered = AbstractAsyncContextManager[Any]


def _multi_lock(client: Redisson, name: str) -> Entered:
    return client.get_multi_lock(*[client.get_lock(f"{name}:{part}") for part in "abc"])


#: What turns a name into what is entered.
Getter = Callable[[str], Entered]

#: Where a method of the client does it, nothing is put around it.
_GETTERS: dict[str, Callable[[Redisson], Getter]] = {
    LOCK: lambda client: client.get_lock,
    FENCED: lambda client: client.get_fenced_lock,
    NON_REENTRANT: lambda client: lambda name: client.get_lock(name, reentrant=False),
    FAIR: lambda client: client.get_fair_lock,
    READ: lambda client: lambda name: client.get_read_write_lock(name).read_lock(),
    WRITE: lambda client: lambda name: client.get_read_write_lock(name).write_lock(),
    MIXED: lambda client: lambda name: _Mixed(client.get_read_write_lock(name)),
    SEMAPHORE: lambda client: lambda name: client.get_semaphore(name, PERMITS),
    EXPIRABLE: lambda client: (
        lambda name: _Expirable(client.get_permit_expirable_semaphore(name, PERMITS))
    ),
    ONE_PERMIT: lambda client: lambda name: client.get_semaphore(name, 1),
    ONE_EXPIRABLE: lambda client: (
        lambda name: _Expirable(client.get_permit_expirable_semaphore(name, 1))
    ),
    MULTI: lambda client: lambda name: _multi_lock(client, name),
    LATCH: lambda client: lambda name: _Latch(client.get_latch(name)),
    BARRIER: lambda client: lambda name: client.get_barrier(name, 1),
}


def getter(client: Redisson, kind: str) -> Getter:
    """Return what gets a primitive of that kind by its name."""
    return _GETTERS[kind](client)


def make(client: Redisson, kind: str, name: str) -> Entered:
    """Return what one task enters again and again."""
    return getter(client, kind)(name)


class _Mixed:
    """Nine visits of ten are a reader's."""

    def __init__(self, lock: ReadWriteLock) -> None:
        self._sides = [lock.write_lock(), *[lock.read_lock()] * (_EVERY - 1)]
        self._visits = 0

    async def __aenter__(self) -> None:
        self._visits += 1
        await self._sides[self._visits % _EVERY].__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._sides[self._visits % _EVERY].__aexit__(kind, error, trace)


class _Expirable:
    """Takes one permit and gives it back."""

    def __init__(self, semaphore: PermitExpirableSemaphore) -> None:
        self._semaphore = semaphore
        self._permit: Lease | None = None

    async def __aenter__(self) -> None:
        self._permit = await self._semaphore.acquire()

    async def __aexit__(self, *_: object) -> None:
        assert self._permit is not None
        await self._permit.release()


class _Latch:
    """Two calls, as a lock's pair: a latch is set to one and counted down."""

    def __init__(self, latch: CountDownLatch) -> None:
        self._latch = latch

    async def __aenter__(self) -> None:
        assert await self._latch.try_set_count(1)

    async def __aexit__(self, *_: object) -> None:
        assert await self._latch.count_down() == 0
