"""Semaphore: Redisson's counter of permits, with leases beside it."""

from __future__ import annotations

from typing import ClassVar, Self, final

from redisson_py._arguments import explained
from redisson_py._engine.awaiting import acquiring
from redisson_py._engine.block import HoldBlock
from redisson_py._keys import Name
from redisson_py._loop import current_task
from redisson_py._redis.commands.client_queue import waits
from redisson_py._redis.commands.permits import PermitCommands
from redisson_py._redis.commands.replies import stored_number
from redisson_py._redis.commands.semaphore import SemaphoreCommands
from redisson_py._redis.inspecting import seconds, texts
from redisson_py._redis.numbers import EXACT_LIMIT, check_whole
from redisson_py._time import Duration, check_lease_time, check_timeout, milliseconds
from redisson_py.errors import LeaseLostError, NotHeldError
from redisson_py.semaphores.permit import Permit
from redisson_py.semaphores.semaphore_like import SemaphoreLike, SemaphoreSnapshot


@final
class Semaphore(SemaphoreLike):
    """A number of permits that tasks, processes and hosts acquire and release.

    `async with semaphore:` takes one. Any task of this client may release another task's permit.
    With `permits`, the first use creates the semaphore if it does not exist; an existing one keeps
    its number. If that is another one, the client logs one warning at its first use, with both
    numbers: `set_permits` or `add_permits` changes it.

    Use it to limit how many tasks do something at once. Use `PermitExpirableSemaphore` where a
    permit must be handed to another process, or must expire, and `RLock` where only one task at a
    time may work and the holder should be known.

    Promised: on the server, never more permits are taken than exist. The permit of a dead holder
    returns within one lease, as soon as a client of this library waits for, takes or counts
    permits; its units return exactly once, whatever is lost on the way. An acquire takes all `n`
    units or none. `release` never creates permits. Tasks of one client are served in order of
    arrival, including those that want many; processes take turns.

    Not promised: an order between processes, so a task that wants many can starve behind another
    process that wants few; anything for units that Redisson took, which have no lease; that
    lowering the count below what is taken stops one process from passing permits among its tasks
    before its `turn` is over; that a paused holder notices its loss in time. If an operator deletes
    the counter, the taken permits are void and do not return to a counter that this library
    creates; but they are added to one that Redisson creates within a lease.

    Cost: one round trip to acquire and one to release, if permits are free. For cancellation, times
    and errors see `acquire` and `release`.

    Protocol: Redisson's RSemaphore, a counter whose new value is the message. Our own keys beside
    it record which owner has how many units until when. Passing in one process: see `RLock`.
    """

    _kind: ClassVar[type[PermitCommands]] = SemaphoreCommands

    @property
    def _commands(self) -> SemaphoreCommands:
        commands = self._ownership.commands
        assert isinstance(commands, SemaphoreCommands)
        return commands

    def _named(self, name: Name) -> Self:
        return type(self)(self._context, name, self._permits)

    @acquiring
    async def acquire(self, n: int = 1, *, timeout: Duration | None = None) -> Permit:
        """Take `n` permits, all or none, waiting until that many are free.

        They are one `Permit`, which any task may release; until then the watchdog renews it. With
        `n=0` nothing is sent, and the permit has no units.

        Waiting costs one subscription for all waiters of this client and no polling. A cancelled
        acquire holds nothing.

        Args:
            n: How many, 0 or more. Default: 1.
            timeout: Seconds to wait, including connecting and retries; 0 asks once. Default: the
                client's `acquire_timeout`, which waits forever unless you set it.

        Raises:
            AcquireTimeoutError: `n` permits were not free within `timeout` seconds; the text says
                if the semaphore does not exist, or if some of its permits are missing.
            ConnectionLostError: Redis did not answer, or refused all clients, until `timeout` was
                over; without one, for `command_timeout`. What may be held is released as soon
                as Redis answers, and ends with its lease in any case.
            LeaseLostError: Three grants in a row came too late to be used.
            ScriptError: Redis refused: wrong type of key, out of memory, no permission.
            ClientClosedError: The client was closed.
            TypeError: `n` is not an int, or the timeout is not a time.
            ValueError: A number or time is out of range; nothing was sent.
        """
        units = check_whole(n, "n", 0)
        if not units:
            check_timeout(timeout)
            return self._nothing()
        if units == 1 and timeout is None and self._ownership.acquire_timeout is None:
            return await self._acquire_one()
        (permit,) = await self._acquire(units, timeout, None)
        return permit

    @acquiring
    async def try_acquire(self, n: int = 1, *, timeout: Duration | None = 0) -> Permit | None:
        """Take `n` permits within `timeout` seconds, or return None if they are not free.

        By default this asks once and waits only for the answer. It never overtakes: if tasks of
        this client are waiting, or it is another process's turn, it returns None. Arguments and
        other errors are those of `acquire`; no answer from Redis is an error, never None.
        """
        units = check_whole(n, "n", 0)
        if not units:
            check_timeout(timeout)
            return self._nothing()
        permits = await self._try_acquire(units, timeout, None)
        return None if permits is None else permits[0]

    @explained
    def hold(self, n: int = 1, *, timeout: Duration | None = None) -> HoldBlock[Self, Permit]:
        """Return a block with the options of `acquire`: `async with s.hold(n=2) as permit`.

        As a decorator, `@s.hold(n=2)` is `@s` with these options. Each call returns a new block;
        entering a block that is in use raises `RuntimeError`.

        Raises:
            TypeError: `n` is not an int, or the timeout is not a time.
            ValueError: A number or time is out of range.
        """
        units = check_whole(n)
        check_timeout(timeout)
        return HoldBlock(self, lambda source: source.acquire(units, timeout=timeout))

    async def release(self, n: int = 1) -> None:
        """Release `n` permits.

        It releases the newest that the current task acquired outside a block, then the newest that
        any task of this client acquired outside a block. A `Permit` of several units may be
        released in part. `release` never touches the permit of a block, and never creates permits:
        only `add_permits` does. With `n=0` it does nothing. A cancelled release is carried out.

        Raises:
            NotHeldError: This client holds fewer outside blocks; none was released.
            LeaseLostError: One of them was already lost; the others were released.
            ReleaseFailedError: Redis did not answer for `command_timeout`. The release is repeated
                until the lease has run out.
            ScriptError: Redis refused: wrong type of key, no permission.
            ClientClosedError: The client was closed.
            TypeError: `n` is not an int.
            ValueError: `n` is negative; nothing was sent.
        """
        units = check_whole(n, "n", 0)
        if units:
            await self._ownership.release_units(current_task(), units)

    async def release_if_exists(self, n: int = 1) -> bool:
        """Release `n` permits as `release` does; return False if this client does not hold them.

        It returns False if this client holds fewer, if one of them was lost, or if `n` is 0. Other
        errors are those of `release`.
        """
        units = check_whole(n, "n", 0)
        try:
            await self.release(units)
        except (NotHeldError, LeaseLostError):
            return False
        return units > 0

    async def available(self) -> int:
        """Return how many permits are free; below zero after `add_permits` of a negative number.

        The permits of dead holders are returned first.
        """
        await self._create()
        return int(await self._answer(self._commands.available()))

    async def try_set_permits(self, n: int, *, lifetime: Duration | None = None) -> bool:
        """Create the semaphore with `n` permits if there is none; return whether it was created.

        A cancelled call is carried out, as are the other calls that change the number, and
        `delete`.

        Args:
            n: How many, 0 or more.
            lifetime: Seconds after which Redis drops the semaphore, instead of the client's
                `idle_lifetime`. Default: as `idle_lifetime` says, which keeps it unless you set it.

        Raises:
            ConnectionLostError: Redis did not answer; the semaphore may have been created.
            ScriptError: Redis refused: wrong type of key, no permission.
            ClientClosedError: The client was closed.
            TypeError: `n` is not an int, or `lifetime` is not a time.
            ValueError: A number or time is out of range, or the client has an `idle_lifetime` too;
                nothing was sent.
        """
        units = check_whole(n, "n", 0)
        life_ms = 0
        if lifetime is not None:
            life_ms = milliseconds(check_lease_time(lifetime, "lifetime"))
            if self._commands.idle_ms:
                raise ValueError("give lifetime or the client's idle_lifetime, not both")
        made = self._made(await self._receipts.run(self._commands.make(units, life_ms)))
        self._ownership.permit_queue.number_known |= made
        return made

    async def set_permits(self, n: int) -> None:
        """Set the number of permits to `n`, taken ones included; create the semaphore if needed.

        Permits that clients of this library hold count. If they are more than `n`, the number of
        free permits is below zero, and releases first bring it back to zero. Permits that
        Redisson's clients hold leave no record, so they cannot count: each adds to `n` when it is
        released. Where they hold permits, use `add_permits` with the difference.

        The semaphore keeps its expiry. Waiters are woken if permits become free. The time on
        the server grows with the number of holders: a millisecond for a few thousand. Errors are
        those of `try_set_permits`.
        """
        change = self._commands.set(check_whole(n, "n", 0), replaces=1)
        self._ownership.permit_queue.number_known = True
        await self._receipts.run(change)
        self._created = True

    async def add_permits(self, n: int) -> None:
        """Add `n` permits; a negative `n` removes permits.

        Removing more than are free leaves a number below zero, which releases first bring back to
        zero. The semaphore keeps its expiry. Errors are those of `try_set_permits`.
        """
        units = check_whole(n, "n", 1 - EXACT_LIMIT)
        await self._change(self._commands.add(units))

    async def drain(self) -> int:
        """Remove all free permits permanently; return how many there were.

        A number below zero is raised to zero. Errors are those of `try_set_permits`.
        """
        return int(await self._change(self._commands.drain()))

    async def delete(self) -> bool:
        """Delete the semaphore; return whether it existed.

        Permits in use become void: their holders notice at the next renewal or release, as with
        any loss (`"taken"`), and the permits do not return to a semaphore created later. Waiters
        ask again: those with `permits` create a new one, others wait until a client does. Errors
        are those of `try_set_permits`.
        """
        deleted = bool(await self._receipts.run(self._commands.delete()))
        self._forget_creation()
        return deleted

    async def inspect(self) -> SemaphoreSnapshot:
        """Return a snapshot of holders and waiters, for people. Decide nothing from it."""
        free, total, words, *others = await self._answer(self._commands.inspect())
        rows = others[:words]
        found = [
            (owner, stored_number(units), seconds(left))
            for owner, units, left in zip(texts(rows[::3]), rows[1::3], rows[2::3], strict=True)
        ]
        return await self._snapshot(free, found, total, waits(others[words:]))
