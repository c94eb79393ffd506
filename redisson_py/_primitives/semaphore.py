"""Semaphore: Redisson's counter of permits, with leases beside it."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Self, final

from redisson_py import _keys
from redisson_py._keys import Name
from redisson_py._lease.hold import Hold
from redisson_py._lease.lease import Lease
from redisson_py._loop import running_loop
from redisson_py._options import PATIENCE, TOMBSTONE
from redisson_py._owner import TaskRef
from redisson_py._primitives.context import Context
from redisson_py._primitives.permit import Permit
from redisson_py._primitives.permit_holds import RECLAIMS, TOO_MANY, Leaving, check_units
from redisson_py._primitives.permit_line import PermitAttempt
from redisson_py._primitives.permit_looking import SemaphoreSnapshot, look_at_semaphore
from redisson_py._primitives.permits import PermitBlock, PermitSource
from redisson_py._scripts import source
from redisson_py._stream.call import Call
from redisson_py._time import Duration, check_lease_time, check_timeout, milliseconds
from redisson_py.errors import ClientClosedError, RedissonError

ACQUIRE = source.load("semaphore.acquire")
ADD = source.load("semaphore.add")
AVAILABLE = source.load("semaphore.available")
DRAIN = source.load("semaphore.drain")
INSPECT = source.load("semaphore.inspect")
RELEASE = source.load("semaphore.release")
SET = source.load("semaphore.set")


@final
class Semaphore(PermitSource):
    """A number of permits that tasks, processes and hosts take and give back.

    `async with semaphore:` takes one. Any task of this client may give back what another took.
    With `permits`, the first use makes the semaphore if there is none; an existing one keeps
    its count.

    Use it to bound how many do something at once. Use `PermitExpirableSemaphore` where a
    permit must be handed to another process, or must end by itself, and `RLock` where one at
    a time is meant and the holder should be known.

    Promised: never more permits are out than there are, as the server sees it. A permit of a
    holder that died is back within one lease, as soon as a client of this library waits here,
    takes or counts; its units are given back exactly once, whatever is lost on the way. All
    `n` or none. Tasks of one client are served in the order they came, also those that want
    many; processes take turns.

    Not promised: an order between processes, so that who wants many can starve behind another
    process that wants few; anything for units that Redisson took, which have no lease; that a
    reduction below what is out holds up those who wait in one process before `turn` is over;
    that a holder learns of its loss in time if it is paused. If an operator deletes the
    counter, what was taken is void, and is not given back to a counter that this library
    makes; but one that Redisson makes within a lease gets it on top.

    Protocol: Redisson's RSemaphore, a counter and its new value as message; beside it, under
    keys of our own, who has how many until when. Passing in one process: see `RLock`.
    """

    def __init__(self, context: Context, name: Name, permits: int | None = None) -> None:
        super().__init__(context, name, permits)
        self._permits_key = _keys.suffixed(self._key, b"redisson_py:permits")
        self._counts_key = _keys.suffixed(self._key, b"redisson_py:units")

    def _named(self, name: Name) -> Self:
        return type(self)(self._context, name, self._permits)

    @property
    def _lease_key(self) -> bytes:
        return self._permits_key

    async def acquire(self, n: int = 1, *, timeout: Duration | None = None) -> Permit:
        """Take `n` permits, waiting until so many are free: all of them or none.

        They are one `Permit`. Its holder may be any task; the watchdog renews it until it is
        released. With `n=0` nothing is asked, and the permit stands for nothing.

        Waiting costs one subscription for all waiters of this client and no polling. If
        cancelled, nothing is held.

        Args:
            n: How many, 0 or more.
            timeout: Seconds to wait, in all: connecting, retries and waiting; None waits for
                ever, 0 asks once.

        Raises:
            AcquireTimeoutError: So many were not free within `timeout` seconds.
            ConnectionLostError: Redis did not answer. What may be held is given back as soon
                as it answers, and ends with its lease in any case.
            LeaseLostError: Three grants in a row came too late to be used.
            ScriptError: Redis refused: wrong type of key, out of memory, no permission.
            ClientClosedError: The client was closed.
            TypeError: `n` is no int, or the timeout no time.
            ValueError: A number or time is out of range; nothing was sent.
        """
        units = check_units(n, least=0)
        if not units:
            check_timeout(timeout)
            return self._nothing()
        (permit,) = await self._acquire_checked(units, timeout, None)
        return permit

    async def try_acquire(self, n: int = 1, *, timeout: Duration | None = 0) -> Permit | None:
        """Take `n` permits if that is possible within `timeout` seconds; return None if not.

        By default this asks once and waits for nothing but the answer. In all else as
        `acquire`, which see for the arguments and errors.
        """
        units = check_units(n, least=0)
        if not units:
            check_timeout(timeout)
            return self._nothing()
        permits = await self._try_acquire_checked(units, timeout, None)
        return None if permits is None else permits[0]

    def hold(self, n: int = 1, *, timeout: Duration | None = None) -> PermitBlock:
        """Return a block with the options of `acquire`: `async with s.hold(n=2) as permit`.

        Above an async function, `@s.hold(n=2)` is `@s` with these options.

        Raises:
            TypeError: `n` is no int, or the timeout no time.
            ValueError: A number or time is out of range.
        """
        units = check_units(n)
        check_timeout(timeout)
        return PermitBlock(self, units, timeout, None)

    async def release(self, n: int = 1) -> None:
        """Give back `n` permits: the newest that this client took and still holds.

        Beyond those it adds permits, as Redisson does; with `n=0` it does nothing. One that
        was taken together with others may so be given back in part. Cancelled, it is carried
        out all the same.

        Raises:
            LeaseLostError: One of them was lost before; the others were given back.
            ConnectionLostError: Redis did not answer; what is out is back after one lease at
                most, and what was to be added may have been added.
            ScriptError: Redis refused: wrong type of key, no permission.
            ClientClosedError: The client was closed.
            TypeError: `n` is no int.
            ValueError: It is negative; nothing was sent.
        """
        await self._give(check_units(n, least=0), creates=1)

    async def release_if_exists(self, n: int = 1) -> bool:
        """As `release`, but add nothing to a semaphore that is not there; return whether it was.

        With `n=0` nothing is asked and the answer is False. Errors as for `release`.
        """
        units = check_units(n, least=0)
        return units > 0 and await self._give(units, creates=0)

    async def available(self) -> int:
        """Return how many permits are free; below zero after `add_permits` of a negative number.

        What dead holders had is given back first.
        """
        await self._make()
        self._context.check()
        free = await self._context.executor.run(
            AVAILABLE,
            self._key,
            counter=self._key,
            permits=self._permits_key,
            counts=self._counts_key,
            reclaims=RECLAIMS,
            channel=self.channel,
        )
        return int(free)

    async def try_set_permits(self, n: int, *, lifetime: Duration | None = None) -> bool:
        """Make the semaphore with `n` permits unless there is one; return whether it was made.

        Cancelled, it is carried out all the same; so are `add_permits` and `drain`.

        Args:
            n: How many, 0 or more.
            lifetime: Seconds after which Redis drops the semaphore; None keeps it.

        Raises:
            ConnectionLostError: Redis did not answer; it may have been made.
            ScriptError: Redis refused: wrong type of key, no permission.
            ClientClosedError: The client was closed.
            TypeError: `n` is no int, or `lifetime` no time.
            ValueError: A number or time is out of range; nothing was sent.
        """
        units = check_units(n, least=0)
        seconds = 0.0 if lifetime is None else check_lease_time(lifetime, "lifetime")
        made = await self._receipts.run(
            SET,
            counter=self._key,
            permits=self._permits_key,
            counts=self._counts_key,
            units=units,
            life_ms=milliseconds(seconds) if seconds else 0,
            channel=self.channel,
        )
        self._made = True
        return bool(made)

    async def add_permits(self, n: int) -> None:
        """Have `n` permits more than before; below zero, so many fewer.

        Taking away more than are free leaves a number below zero, which releases fill up
        first. An expiry of the semaphore stays. Errors as for `try_set_permits`.
        """
        units = check_units(n, least=1 - TOO_MANY)
        await self._make()
        await self._add(units, creates=1)

    async def drain(self) -> int:
        """Take all free permits away for good; return how many these were.

        A number below zero is brought to zero as well. Errors as for `try_set_permits`.
        """
        await self._make()
        drained = await self._receipts.run(
            DRAIN,
            counter=self._key,
            permits=self._permits_key,
            counts=self._counts_key,
            reclaims=RECLAIMS,
        )
        return int(drained)

    async def inspect(self) -> SemaphoreSnapshot:
        """Return who has what, as a snapshot for people. Nothing should be decided from it."""
        self._context.check()
        free, *rows = await self._context.executor.run(
            INSPECT,
            self._key,
            counter=self._key,
            permits=self._permits_key,
            counts=self._counts_key,
            holders=RECLAIMS,
        )
        found = [
            (owner.decode(errors="replace"), int(units), left / 1000)
            for owner, units, left in zip(rows[::3], rows[1::3], rows[2::3], strict=True)
        ]
        keys = (self._key, self._permits_key, self._counts_key)
        waiters = self.statistics().waiters
        return await look_at_semaphore(self._context, free, found, waiters, keys)

    # For the library.

    def _nothing(self) -> Permit:
        """Return a permit of no units, which nobody has to keep or to give back."""
        self._context.check()
        mine = self._context.owners.of_current_task()
        hold = Hold(self, self._context.owners.new_owner(), math.inf, False, mine.task)
        hold.count = 0
        permit = Permit(hold, hold.owner, None, self._context.options.on_lost, hold.granted_at)
        hold.leases.append(permit)
        return permit

    async def _make(self) -> None:
        """Make the semaphore, if that was asked for and is not known to be done."""
        if not self._made and self._permits is not None:
            await self.try_set_permits(self._permits)

    async def _add(self, units: int, creates: int) -> bool:
        """Add units; return whether there is such a semaphore."""
        free = await self._receipts.run(
            ADD,
            counter=self._key,
            permits=self._permits_key,
            counts=self._counts_key,
            units=units,
            creates=creates,
            channel=self.channel,
        )
        return free is not None

    async def _give(self, units: int, creates: int) -> bool:
        """Give back what is held, newest first, and add the rest; return whether it exists."""
        if not units:
            return True
        self._context.check()
        problem: RedissonError | None = None
        leaving: list[tuple[Permit, Leaving | None]] = []
        falling: tuple[Permit, Call] | None = None
        for permit in reversed(list(self._line.permits.values())):
            if not units:
                break
            if permit.units > units:
                falling, units = (permit, self._fall(permit, units)), 0
            else:
                units -= permit.units
                leaving.append((permit, self._begin_release(permit)))
        exists = True
        try:
            if units:
                await self._make()
                exists = await self._add(units, creates)
        except RedissonError as error:
            problem = error
        for permit, left in leaving:
            try:
                await self._settle(permit, left)
            except RedissonError as error:
                problem = problem or error
        if falling is not None:
            await self._fallen(*falling)
        if problem is not None:
            raise problem
        return exists

    def _fall(self, permit: Permit, units: int) -> Call:
        """Give a part of a permit back."""
        hold = permit._hold
        hold.count -= units
        return self._send_fall(hold.owner, hold.count, False, self._until(PATIENCE))

    async def _fallen(self, permit: Permit, call: Call) -> None:
        hold = permit._hold
        try:
            reply = await self._context.executor.answer(call)
        except BaseException:
            # From here on nobody knows whether it arrives late, or twice.
            hold.doubtful = True
            raise
        hold.doubtful = hold.doubtful or call.doubtful
        if reply is None:
            self._context.watchdog.lose(hold, "Redis says it was given back already")
            raise permit._loss()

    def _begin_release(self, permit: Permit) -> Leaving | None:
        if permit._hold.count:
            return super()._begin_release(permit)
        permit._end()
        permit._hold.state = "released"
        return None

    async def _set_lease(self, lease: Lease, lease_time: float) -> None:
        if lease._hold.count:
            await super()._set_lease(lease, lease_time)

    def _hold_ended(self, hold: Hold) -> None:
        """A hold was lost: give it back, because Redisson's clients would not find it."""
        self._forget(hold)
        with suppress(ClientClosedError):
            self._send_fall(hold.owner, 0, hold.doubtful, self._until(PATIENCE))

    def _send_acquire(self, owner: str, holds: int, lease_ms: int, deadline: float | None) -> Call:
        name = owner.encode()
        args = ACQUIRE.bind(
            counter=self._key,
            permits=self._permits_key,
            counts=self._counts_key,
            tombstone=self._tombstones + name,
            owner=name,
            units=holds,
            lease_ms=lease_ms,
            start_units=self._start_units,
            reclaims=RECLAIMS,
            channel=self.channel,
        )
        return self._context.executor.start(ACQUIRE, self._key, args, deadline)

    def _send_release(self, hold: Hold, deadline: float) -> Call:
        return self._send_fall(hold.owner, 0, hold.doubtful, deadline)

    def _send_fall(self, owner: str, units: int, leaves: bool, deadline: float) -> Call:
        """Have what Redis records for an owner fall; `leaves`: refuse what comes late of it."""
        name = owner.encode()
        args = RELEASE.bind(
            counter=self._key,
            permits=self._permits_key,
            counts=self._counts_key,
            tombstone=self._tombstones + name,
            owner=name,
            units=units,
            channel=self.channel,
            tombstone_ms=milliseconds(TOMBSTONE) if leaves else 0,
        )
        return self._context.executor.start(RELEASE, self._key, args, deadline, must=True)

    def _undo_units(self, owner: str, units: int, lease_time: float) -> None:
        # Tried for as long as there can be anything to give back.
        self._send_fall(owner, 0, True, running_loop().time() + max(1.0, lease_time))

    def _holds(
        self, attempt: PermitAttempt, ends_at: float, watched: bool, task: TaskRef
    ) -> list[Hold]:
        hold = Hold(self, attempt.owner, ends_at, watched, task)
        hold.count = attempt.units
        return [hold]

    def _permit_id(self, hold: Hold) -> str:
        return hold.owner
