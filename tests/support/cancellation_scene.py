"""The scene of a trial of the cancellation sweep: two clients and one lock, or semaphore."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from redisson_py import Lease
from redisson_py.locks.lock_like import LockLike
from tests.fixtures.client import assert_idle
from tests.support.any_client import Client
from tests.support.cancellation_sides import Side, is_asleep
from tests.support.cancellation_sweep import Probe
from tests.support.kinds import KINDS, SEMAPHORES, SINGLE, TWO_AT_ONCE, Kind, MakeLock

#: Seconds within which everything that has become possible must happen. Only a hang takes
#: longer, and a fault that the end of a lease or a safety poll repairs.
SOON = 10.0

#: Starts a release in a task, at the first call only.
Release = Callable[[], "asyncio.Task[Any]"]
Acquiring = Coroutine[Any, Any, Lease | None]


class Scene:
    """A client whose operation is cancelled, another client, and one lock of both.

    A semaphore is a lock, too: whoever acquires it takes all its permits.

    Args:
        make_lock: Makes the lock of a client.
        clients: Makes a client, with its options.
        side: How its server is looked at.
        name: The name of the lock that `make_lock` makes.
    """

    def __init__(
        self, make_lock: MakeLock, clients: Callable[..., Client], side: Side, name: str = "k"
    ) -> None:
        self.make_lock = make_lock
        self.name = name
        self.side = side
        # A turn so long that a hold is passed on however slow the machine is.
        self.new_client = functools.partial(clients, turn=30)
        self.client, self.other = self.new_client(), self.new_client()
        self.lock: Any = make_lock(self.client)
        self.others_lock = make_lock(self.other)
        #: How many permits it has; no lock has any.
        self.permits: int = getattr(self.lock, "units", 0)

    def asleep(self) -> bool:
        """Whether every waiter waits for the release, and not for an answer."""
        return is_asleep(self.client)

    async def taken_by_other_client(self) -> Release:
        """Have the other client hold the lock; return what releases it."""
        return once((await self.others_lock.acquire()).release)

    async def taken_by_other_task(self) -> Release:
        """Have another task of the client hold the lock; return what releases it."""
        return once((await asyncio.create_task(self.lock.acquire())).release)

    async def get_after(
        self, leave: Release, cut: Probe, operation: Acquiring, others: int = 0
    ) -> None:
        """Cancel an operation that waits for a release; the release comes once it sleeps.

        If it is cancelled while it sleeps, it must leave although nothing was released yet.
        """

        def leave_unless_cancelled() -> None:
            if cut.answered or cut.point is None:
                leave()

        lease = await cut(operation, self.when_asleep(leave_unless_cancelled))
        assert self.client.statistics().waiters <= others
        await leave()
        await finish(lease)

    def when_asleep(self, act: Callable[[], object]) -> Callable[[], object]:
        """Act at the suspensions where the operation waits for a release."""
        return lambda: self.asleep() and act()

    async def lose_connection(self) -> None:
        """Break the client's connection; it makes another one in the next turns of the loop."""
        await self.executed()
        await self.side.lose_connection(self.client)

    async def executed(self) -> None:
        """Return when the commands of the cancelled operation have been executed.

        Where replicas confirm grants, and in other stores, `inspect` may overtake them.
        """
        await self.side.answered(self.client)

    async def hold_count(self) -> int:
        """Return how many holds the cancelled task still has."""
        await self.executed()
        count: int = await self.lock.hold_count()
        return count

    async def release(self, lease: Lease) -> None:
        """Release what this task holds: a lock without naming the lease, which permits have to."""
        await (lease.release() if self.permits else self.lock.release())

    async def check(self, client: Client) -> None:
        """Fail if anything of this client is left, or if the lock cannot be acquired."""
        # What an abandoned operation still had to send was sent before this.
        await self.side.settled(client)
        await self.side.assert_free(self.lock, self.permits)
        assert_idle(client)
        # A queue may still know that it is another client's turn, and nothing else.
        queues = client._context.registry.all_queues()
        assert not any(queue.needed(float("inf")) for queue in queues)
        for lock in (self.make_lock(client), self.others_lock):
            async with lock.hold(timeout=SOON):
                pass
        assert_idle(client)


def once(act: Callable[..., Coroutine[Any, Any, Any]]) -> Release:
    """Return what starts this in a task, at the first call only."""
    return functools.cache(lambda: asyncio.create_task(act()))


async def finish(lease: Lease | None) -> None:
    """Release what an operation got that was not cancelled."""
    if lease is not None:
        await lease.release()


@contextmanager
def refusal_allowed() -> Iterator[None]:
    """Re-enter in here: a lock that is not reentrant refuses, without asking Redis."""
    try:
        yield
    except RuntimeError as error:
        # Not one of our own, as NotHeldError.
        if type(error) is not RuntimeError:
            raise


async def acquired_by_next(lock: LockLike) -> None:
    """The operation of a client that comes later."""
    lease = await lock.acquire(timeout=SOON)
    await lease.release()


Trial = Callable[[Scene, Probe], Coroutine[object, object, None]]
T = TypeVar("T", bound=Trial)
#: What is swept: all on one server that one task at a time has.
SWEPT: dict[str, Kind] = {
    name: KINDS[name] for name in SINGLE + SEMAPHORES if KINDS[name].rival is None
} | {"two_permits_at_once": TWO_AT_ONCE}
TRIALS: dict[Trial, list[str]] = {}
"""With the names of the kinds each is run over."""


def trial(function: T) -> T:
    """Have the sweep run this over every kind."""
    TRIALS[function] = [*SWEPT]
    return function


def trial_of(*kinds: str) -> Callable[[T], T]:
    """Have the sweep run this over some kinds."""

    def decorated(function: T) -> T:
        TRIALS[function] = list(kinds)
        return function

    return decorated


#: Trials of what belongs to a task or has a `lease_time`, and of what only queues for permits do.
trial_of_locks = trial_of(*[name for name, kind in SWEPT.items() if not kind.semaphore])
trial_of_min_hold = trial_of(
    *[name for name, kind in SWEPT.items() if not kind.semaphore and kind.stay_taken]
)
trial_of_permits = trial_of(*[name for name, kind in SWEPT.items() if kind.semaphore])
