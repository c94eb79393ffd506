"""What a side of the comparison can do: open, make locks, close."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from time import perf_counter
from typing import Any, NamedTuple, final

from benchmarks.rivals.kinds import LOCK

#: Seconds for which a lock is held in the comparisons; nobody reaches them.
LEASE = 30

#: Seconds for which one is held that others wait for, whose holder has gone.
LONG_LEASE = 600


class CannotError(Exception):
    """Raised when a side cannot do what a scenario asks for; the message says why."""


class Side(ABC):
    """One way to lock. It belongs to one worker process.

    Attributes:
        renewed_after: The share of the lease after which it renews by itself.
    """

    renewed_after = 0.0

    @abstractmethod
    async def open(self, url: str) -> None:
        """Connect to a server.

        Raises:
            CannotError: It does not run with what is installed here.
        """

    @abstractmethod
    async def close(self) -> None:
        """Disconnect."""

    async def hold(self, name: str) -> None:
        """Hold `name` for `LONG_LEASE`, so that others have to wait."""
        raise CannotError("is no lock")

    async def hold_renewed(self, name: str, lease: float) -> None:
        """Hold `name` for as long as this process lives, by renewing its lease.

        Raises:
            CannotError: It does not renew by itself.
        """
        raise CannotError("does not renew by itself")

    async def keep(self, name: str) -> Callable[[], Awaitable[bool]]:
        """Hold `name` to the end; what is returned says whether it is still held.

        Raises:
            CannotError: It has no such call.
        """
        raise CannotError("is no lock")

    async def lend(self, name: str) -> Callable[[], Awaitable[object]]:
        """Hold `name` as nobody else here; what is returned gives it back.

        Raises:
            CannotError: It has no such call.
        """
        raise CannotError("is no lock")

    async def limiter(self, name: str, rate: int, per: float) -> Callable[[], Awaitable[object]]:
        """Return what takes a unit of the rate limiter `name`, and waits until there is one.

        Raises:
            CannotError: It has none.
        """
        raise CannotError("is no rate limiter")

    @property
    def reported(self) -> int:
        """How many of the leases of `keep` were said to be lost."""
        return 0

    async def ping(self) -> None:
        """Make one round trip."""
        raise CannotError("has no call for this")

    async def warm_up(self, seconds: float) -> bool:
        """Get fast, for so many seconds at most; return whether it is as fast as it gets.

        A compiler at run time needs that; Python does not.
        """
        return True


class TaskSide(Side):
    """A side whose users are tasks of an event loop."""

    @abstractmethod
    def lock(self, name: str) -> AbstractAsyncContextManager[Any]:
        """Return the lock `name` for one task, which enters it again and again."""

    def made(self, kind: str, name: str) -> AbstractAsyncContextManager[Any]:
        """Return the `kind` of primitive that is asked for; rivals have one kind each."""
        return self.lock(name)

    async def pairs(self, name: str, end: float, kind: str = LOCK) -> int:
        """Acquire and release `name` once, and until `end` (of `perf_counter`); say how often.

        Rivals do it in the way that suits them best: most make the lock object once.
        """
        lock = self.made(kind, name)
        done = 0
        while not done or perf_counter() < end:
            async with lock:
                done += 1
        return done


class Pairs(NamedTuple):
    """What the users of one side did together.

    Attributes:
        done: Pairs of an acquire and a release.
        seconds: How long it took.
        cpu: Seconds of processor time that the process used meanwhile, in all its threads.
    """

    done: int
    seconds: float
    cpu: float


class ProgramSide(Side):
    """A side in another language, a program of its own that this process only talks to."""

    @abstractmethod
    async def pairs(self, tasks: int, seconds: float, prefix: str) -> Pairs:
        """Have `tasks` users acquire and release names of their own."""

    async def order(self, job: str, **order: Any) -> Any:
        """Have the program do another job.

        Raises:
            CannotError: It knows no such job.
        """
        raise CannotError(f"has no {job}")

    @abstractmethod
    async def sections(self, **order: Any) -> list[tuple[int, int, int]]:
        """Do as `scenarios.handoff.sections` says."""


class ThreadSide(Side):
    """A side whose users are threads."""

    @abstractmethod
    def lock(self, name: str) -> AbstractContextManager[Any]:
        """Return the lock `name` for one thread, which enters it again and again."""

    @final
    def pairs(self, name: str, end: float) -> int:
        """As `TaskSide.pairs`."""
        lock = self.lock(name)
        done = 0
        while not done or perf_counter() < end:
            with lock:
                done += 1
        return done
