"""MultiLock: several locks, all or nothing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Self, final

from redisson_py._lease.lease import Lease
from redisson_py._loop import running_loop
from redisson_py._primitives.context import Mine
from redisson_py._primitives.hold_lock import HoldLock
from redisson_py._primitives.joint import STALE_GRANTS, JointLock, database_of, loss
from redisson_py._primitives.joint_hold import NotGrantedError, ask, release_all
from redisson_py._primitives.lock_like import LockLike
from redisson_py._primitives.together import Together
from redisson_py._stream.call import LateReplyError
from redisson_py.errors import AcquireTimeoutError, LeaseLostError

#: How long after a refusal the members are asked one after another only, in seconds. Asking
#: all at once then costs the others more than it can spare us.
_CONTENDED = 0.05


@final
class MultiLock(JointLock):
    """Several locks that are held together: all of them, or none.

    Members may be of any kind (also read and write sides, also RedLocks) and of any clients.
    The task that holds the whole holds each member, and may enter each again by itself. Use
    it to work on several resources at once, such as a transfer between two accounts.

    Promised: no deadlock among MultiLocks, whatever the order in which members are given.
    Members are sorted by name and server, and nobody waits for one while it holds a later
    one. One deadline for all. Without a lease time each member is renewed by its own client,
    also while later ones are waited for; with one, it counts from when all are held, and is
    the same for all. If a member is lost, the whole is lost at once. `release` releases all
    members, also if one of them fails.

    Not promised: an order among those who wait; freedom from deadlock with those who take
    several of these locks one by one in another order. A MultiLock does not survive the loss
    of a server; for that see `RedLock`. Its leases have no fencing token: enter a fenced
    member again inside the block for its token.

    Cost: free members are asked at once, one script each in one round trip; when one is
    busy, what the others gave is given back and they are taken one after another, a round
    trip each, and with a lease time one more for all together. A release is one script each,
    in one round trip.

    Source: resource ordering, Havender, "Avoiding deadlock in multitasking systems", IBM
    Systems Journal 7 (1968). Redisson's RedissonMultiLock uses the same keys, in the order
    they are given.

    Raises:
        TypeError: A member is no lock.
        ValueError: There is no member, or one is there twice.
    """

    kind = "multi lock"

    def __init__(self, *locks: LockLike) -> None:
        members = sorted(_flat(locks), key=lambda lock: (lock.key, database_of(lock)))
        if not members:
            raise ValueError("a multi lock needs at least one lock")
        for one, other in itertools.pairwise(members):
            if (one.key, database_of(one)) == (other.key, database_of(other)):
                raise ValueError(f"{one!r} and {other!r} are one lock for Redis")
        super().__init__(members, len(members))
        self._one_by_one_until = 0.0

    def _of(self, members: Sequence[LockLike]) -> Self:
        return type(self)(*members)

    async def _acquire(
        self, mine: Mine, deadline: float | None, *, once: bool, lease_time: float | None
    ) -> Lease | None:
        self._check()
        stale_grants = 0
        while True:
            outer = self._held_by(mine)
            parts = await self._all(deadline, once, lease_time)
            if parts is None:
                return None
            if outer is not None:
                return self._reentered(outer, parts)
            hold = self._hold(parts, lease_time, mine.task)
            if hold.held:
                return self._take(hold, mine)
            # One was over before the last was there.
            self._give_back(hold)
            stale_grants += 1
            if stale_grants == STALE_GRANTS:
                raise loss(self, hold)

    async def _all(
        self, deadline: float | None, once: bool, lease_time: float | None
    ) -> list[Lease] | None:
        """Return a lease of each member, or None if time is up or, with `once`, one is busy."""
        mines = self._mines()
        locks = [member for member in self._members if isinstance(member, HoldLock)]
        if len(locks) == len(mines) and (once or self._undisturbed(locks, mines)):
            parts = await self._at_once(locks, mines, None if once else deadline, lease_time)
            if once or parts is not None:
                return parts
            self._one_by_one_until = running_loop().time() + _CONTENDED
        return await self._one_by_one(mines, deadline, once, lease_time)

    def _undisturbed(self, locks: list[HoldLock], mines: list[Mine]) -> bool:
        """Whether nobody here is before us, and no other process has its turn."""
        return running_loop().time() >= self._one_by_one_until and not any(
            _occupied(lock, mine) for lock, mine in zip(locks, mines, strict=True)
        )

    async def _at_once(
        self,
        locks: list[HoldLock],
        mines: list[Mine],
        deadline: float | None,
        lease_time: float | None,
    ) -> list[Lease] | None:
        """Ask for all members in one round trip; nobody waits for anything."""
        asked = Together(
            ask(lock, mine, lease_time, deadline, {})
            for lock, mine in zip(locks, mines, strict=True)
        )
        try:
            await asked.wait()
            for _, error in sorted(asked.errors.items()):
                if not isinstance(error, NotGrantedError):
                    raise _in_time(error, deadline)
        except BaseException:
            asked.cancel()
            release_all(list(asked.results.values()))
            raise
        parts = [each for _, each in sorted(asked.results.items())]
        if asked.errors:
            release_all(parts)
            return None
        return parts

    async def _one_by_one(
        self, mines: list[Mine], deadline: float | None, once: bool, lease_time: float | None
    ) -> list[Lease] | None:
        """Take the members in their order, waiting for each; the watchdog keeps those we have."""
        parts: list[Lease] = []
        alone = len(mines) == 1
        try:
            for member, mine in zip(self._members, mines, strict=True):
                seconds = lease_time if alone else None
                part = await member._acquire(mine, deadline, once=once, lease_time=seconds)
                if part is None:
                    release_all(parts)
                    return None
                parts.append(part)
            if lease_time is not None and not alone:
                await self._set_all(parts, lease_time, deadline)
        except BaseException:
            release_all(parts)
            raise
        return parts

    async def _set_all(
        self, parts: Sequence[Lease], lease_time: float, deadline: float | None
    ) -> None:
        """Have the same lease on all, from now; one that is lost by now is found later."""
        held = [part for part in parts if part._state == "held"]
        settings = Together(part._hold.resource._set_lease(part, lease_time) for part in held)
        if deadline is None:
            await settings.wait()
        else:
            await settings.wait(0, deadline - running_loop().time())
        for _, error in sorted(settings.errors.items()):
            if not isinstance(error, LeaseLostError):
                raise error
        if settings.left:
            raise AcquireTimeoutError("Redis did not answer within the timeout")

    async def _settle(self, operations: Together[Any], grace: float = 0) -> None:
        await operations.wait()


def _flat(locks: Sequence[object]) -> Iterator[LockLike]:
    """Yield the locks themselves in place of the MultiLocks made of them."""
    for lock in locks:
        if isinstance(lock, MultiLock):
            yield from lock._members
        elif isinstance(lock, LockLike):
            yield lock
        else:
            raise TypeError(f"a multi lock is made of locks, not of {type(lock).__name__}")


def _in_time(error: BaseException, deadline: float | None) -> BaseException:
    """Return the error to raise for one of a member: was it the caller's time that was up?"""
    late = deadline is not None and running_loop().time() >= deadline
    if not (late and isinstance(error, LateReplyError)):
        return error
    timeout = AcquireTimeoutError("Redis did not answer within the timeout")
    timeout.__cause__ = error
    return timeout


def _occupied(lock: HoldLock, mine: Mine) -> bool:
    """Whether a task here waits for a lock or has it, or another process has its turn."""
    if lock._hold_key in mine.holds:
        return False
    context = lock._context
    if context.waiters[lock._line_key]:
        return True
    line = context.lines.find(lock._line_key)
    if line is None:
        return False
    held_here = line.hold is not None and line.hold.held
    return held_here or line.releasing or line.waiting > 0 or line.turn is not None
