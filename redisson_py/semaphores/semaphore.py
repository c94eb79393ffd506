"""Semaphore: Redisson's counter of permits, with leases beside it."""

from __future__ import annotations

import math
from typing import Self, final

from redisson_py._commands.semaphore import AVAILABLE, INSPECT, SemaphoreCommands
from redisson_py._engine.block import HoldBlock
from redisson_py._engine.context import Context
from redisson_py._engine.hold import Hold
from redisson_py._engine.inspecting import seconds
from redisson_py._keys import Name
from redisson_py._loop import current_task
from redisson_py._numbers import EXACT_LIMIT, check_whole
from redisson_py._owner import reference
from redisson_py._time import Duration, check_lease_time, check_timeout, milliseconds, now
from redisson_py.errors import LeaseLostError, NotHeldError
from redisson_py.semaphores.permit import Permit
from redisson_py.semaphores.semaphore_like import SemaphoreLike, SemaphoreSnapshot


@final
class Semaphore(SemaphoreLike):
    """A number of permits that tasks, processes and hosts take and give back.

    `async with semaphore:` takes one. Any task of this client may give back what another took.
    With `permits`, the first use makes the semaphore if there is none; an existing one keeps
    its count. A disagreement is not an error: `available` logs a warning, once, if it finds more
    permits free than that.

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
        super().__init__(context, name, permits, SemaphoreCommands)
        commands = self._ownership.commands
        assert isinstance(commands, SemaphoreCommands)
        self._commands = commands

    def _named(self, name: Name) -> Self:
        return type(self)(self._context, name, self._permits)

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
        units = check_whole(n, "n", 0)
        if not units:
            check_timeout(timeout)
            return self._nothing()
        (permit,) = await self._acquire(units, timeout, None)
        return permit

    async def try_acquire(self, n: int = 1, *, timeout: Duration | None = 0) -> Permit | None:
        """Take `n` permits if that is possible within `timeout` seconds; return None if not.

        By default this asks once and waits for nothing but the answer. In all else as
        `acquire`, which see for the arguments and errors.
        """
        units = check_whole(n, "n", 0)
        if not units:
            check_timeout(timeout)
            return self._nothing()
        permits = await self._try_acquire(units, timeout, None)
        return None if permits is None else permits[0]

    def hold(self, n: int = 1, *, timeout: Duration | None = None) -> HoldBlock[Self, Permit]:
        """Return a block with the options of `acquire`: `async with s.hold(n=2) as permit`.

        Above an async function, `@s.hold(n=2)` is `@s` with these options.

        Raises:
            TypeError: `n` is no int, or the timeout no time.
            ValueError: A number or time is out of range.
        """
        units = check_whole(n)
        check_timeout(timeout)
        return HoldBlock(self, lambda source: source.acquire(units, timeout=timeout))

    async def release(self, n: int = 1) -> None:
        """Give back `n` permits.

        The newest that the current task took outside a block; beyond those, the newest that any
        task of this client took outside a block. One that was taken together with others may so
        be given back in part. It never touches the permit of a block, and never makes permits:
        only `add_permits` does. With `n=0` it does nothing. Cancelled, it is carried out all the
        same.

        Raises:
            NotHeldError: This client has not taken so many outside a block; none was given back.
            LeaseLostError: One of them was lost before; the others were given back.
            ConnectionLostError: Redis did not answer; what is out is back after one lease at
                most.
            ScriptError: Redis refused: wrong type of key, no permission.
            ClientClosedError: The client was closed.
            TypeError: `n` is no int.
            ValueError: It is negative; nothing was sent.
        """
        units = check_whole(n, "n", 0)
        if units:
            await self._ownership.release_units(current_task(), units)

    async def release_if_exists(self, n: int = 1) -> bool:
        """As `release`, but return False where there is nothing to give back.

        Then this client has not taken so many, or the semaphore is gone. With `n=0` nothing is
        sent and the answer is False. Other errors as for `release`.
        """
        units = check_whole(n, "n", 0)
        try:
            await self.release(units)
        except (NotHeldError, LeaseLostError):
            return False
        return units > 0

    async def available(self) -> int:
        """Return how many permits are free; below zero after `add_permits` of a negative number.

        What dead holders had is given back first. If more are free than `permits` says there
        should be in all, a warning is logged, once.
        """
        await self._create()
        free = int(await self._answer(AVAILABLE, self._commands.available()))
        self._compare(free, free_only=True)
        return free

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
        units = check_whole(n, "n", 0)
        life_ms = 0
        if lifetime is not None:
            life_ms = milliseconds(check_lease_time(lifetime, "lifetime"))
        script, values = self._commands.make(units, life_ms)
        made = bool(await self._receipts.run(script, **values))
        self._created = True
        self._ownership.permit_queue.number_known |= made
        return made

    async def add_permits(self, n: int) -> None:
        """Have `n` permits more than before; below zero, so many fewer.

        Taking away more than are free leaves a number below zero, which releases fill up
        first. An expiry of the semaphore stays. Errors as for `try_set_permits`.
        """
        units = check_whole(n, "n", 1 - EXACT_LIMIT)
        await self._change(self._commands.add(units))

    async def drain(self) -> int:
        """Take all free permits away for good; return how many these were.

        A number below zero is brought to zero as well. Errors as for `try_set_permits`.
        """
        return int(await self._change(self._commands.drain()))

    async def inspect(self) -> SemaphoreSnapshot:
        """Return who has what, as a snapshot for people. Nothing should be decided from it."""
        free, total, *rows = await self._answer(INSPECT, self._commands.inspect())
        found = [
            (owner.decode(errors="replace"), int(units), seconds(left))
            for owner, units, left in zip(rows[::3], rows[1::3], rows[2::3], strict=True)
        ]
        return await self._snapshot(free, found, total)

    def _nothing(self) -> Permit:
        """Return a permit of no units, which nobody has to keep or to give back."""
        self._context.check()
        present, task = now(), reference(current_task())
        owner = self._context.owners.new_owner()
        field = owner.encode()
        hold = Hold(self._ownership, owner, field, task, present, math.inf, False, units=0)
        permit = Permit(hold, owner, None, present)
        hold.add_lease(permit)
        return permit
