"""PermitExpirableSemaphore: permits with ids, as Redisson's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Self, final

from redisson_py._arguments import explained
from redisson_py._engine.awaiting import acquiring
from redisson_py._engine.block import HoldBlock
from redisson_py._engine.hold import Hold, hold_of
from redisson_py._engine.ownership import when_answered
from redisson_py._keys import Name
from redisson_py._loop import Future
from redisson_py._redis.commands.client_queue import waits
from redisson_py._redis.commands.permit_expirable_semaphore import (
    MOST_PERMITS_AT_ONCE,
    PermitExpirableSemaphoreCommands,
    owner_of,
)
from redisson_py._redis.commands.permits import PermitCommands
from redisson_py._redis.inspecting import seconds
from redisson_py._redis.numbers import EXACT_LIMIT, check_whole
from redisson_py._time import Duration, check_lease_time, check_timeout, milliseconds
from redisson_py.errors import LeaseLostError, NotHeldError
from redisson_py.semaphores._ownership import PermitOwnership
from redisson_py.semaphores.permit import Permit, id_of
from redisson_py.semaphores.semaphore_like import SemaphoreLike, SemaphoreSnapshot


@final
class PermitExpirableSemaphore(SemaphoreLike):
    """A number of permits, each with its own id and lease.

    `async with semaphore:` takes one. A client that knows the id of a permit, in another process
    or in Java, can release it or set its lease. With `permits`, the first use creates the semaphore
    if it does not exist; an existing one keeps its number. If that is another one, the client logs
    one warning at its first use, with both numbers: `set_permits` or `add_permits` changes it.

    Use it instead of `Semaphore` where a permit is handed over by its id, or must expire: with a
    `lease_time` it returns after that time, even if its holder is still working. Without, the
    client that took it renews it until it is released.

    Promised: on the server, never more permits are taken than exist; each returns exactly once,
    whatever is lost on the way; the permit of a dead holder returns within one lease. Several
    permits are taken, or released, all or none. Tasks of one client are served in order of
    arrival.

    Not promised: an order between processes; that a paused holder notices its loss in time;
    that a `Permit` notices a lease that another client set for its id. Permits are not passed
    from task to task without Redis, as those of a `Semaphore` are: an id belongs to one
    acquisition.

    Cost: one round trip to acquire and one to release. For cancellation, times and errors see
    `acquire` and `release`.

    Protocol: Redisson's RPermitExpirableSemaphore: a counter, a sorted set of ids by the end of
    their leases on the server's clock, and a message.
    """

    _kind: ClassVar[type[PermitCommands]] = PermitExpirableSemaphoreCommands

    @property
    def _commands(self) -> PermitExpirableSemaphoreCommands:
        commands = self._ownership.commands
        assert isinstance(commands, PermitExpirableSemaphoreCommands)
        return commands

    def _named(self, name: Name) -> Self:
        return type(self)(self._context, name, self._permits)

    @acquiring
    async def acquire(
        self, *, lease_time: Duration | None = None, timeout: Duration | None = None
    ) -> Permit:
        """Take a permit, waiting until one is free.

        Waiting costs one subscription for all waiters of this client and no polling. A cancelled
        acquire holds nothing.

        Args:
            lease_time: Seconds after which the permit expires. Default: renewed until released.
            timeout: Seconds to wait, including connecting and retries; 0 asks once. Default: the
                client's `acquire_timeout`, which waits forever unless you set it.

        Raises:
            AcquireTimeoutError: No permit was free within `timeout` seconds.
            ConnectionLostError: Redis did not answer, or refused all clients, until `timeout` was
                over; without one, for `command_timeout`. What may be held is released as soon
                as Redis answers, and ends with its lease in any case.
            LeaseLostError: Three grants in a row came too late to be used.
            ScriptError: Redis refused: wrong type of key, out of memory, no permission.
            ClientClosedError: The client was closed.
            TypeError: A time is neither a number nor a timedelta.
            ValueError: A time is out of range; nothing was sent.
        """
        (permit,) = await self._acquire(1, timeout, lease_time)
        return permit

    @acquiring
    async def try_acquire(
        self, *, lease_time: Duration | None = None, timeout: Duration | None = 0
    ) -> Permit | None:
        """Take a permit within `timeout` seconds, or return None if none is free.

        By default this asks once and waits only for the answer. It never overtakes: if tasks of
        this client are waiting, or it is another process's turn, it returns None. Arguments and
        other errors are those of `acquire`; no answer from Redis is an error, never None.
        """
        permits = await self._try_acquire(1, timeout, lease_time)
        return None if permits is None else permits[0]

    @acquiring
    async def acquire_many(
        self, n: int, *, lease_time: Duration | None = None, timeout: Duration | None = None
    ) -> list[Permit]:
        """Take `n` permits, all or none, waiting until that many are free.

        Each has its own id and can be released alone. At most 10,000 can be taken at once; more
        raises `ValueError`. Other arguments and errors are those of `acquire`.
        """
        units = _check_many(n)
        return await self._acquire(units, timeout, lease_time)

    @acquiring
    async def try_acquire_many(
        self, n: int, *, lease_time: Duration | None = None, timeout: Duration | None = 0
    ) -> list[Permit] | None:
        """Take `n` permits as `acquire_many` does, or return None after `timeout` seconds."""
        units = _check_many(n)
        return await self._try_acquire(units, timeout, lease_time)

    @explained
    def hold(
        self, *, lease_time: Duration | None = None, timeout: Duration | None = None
    ) -> HoldBlock[Self, Permit]:
        """Return a block with the options of `acquire`: `async with s.hold(lease_time=5)`.

        As a decorator, `@s.hold(timeout=1)` is `@s` with these options. Each call returns a new
        block; entering a block that is in use raises `RuntimeError`.

        Raises:
            TypeError: A time is neither a number nor a timedelta.
            ValueError: A time is out of range.
        """
        check_timeout(timeout)
        if lease_time is not None:
            check_lease_time(lease_time)
        return HoldBlock(
            self, lambda source: source.acquire(timeout=timeout, lease_time=lease_time)
        )

    async def release(self, permit: Permit | str) -> None:
        """Release a permit: a `Permit` of this client, or any by its id, whoever took it.

        A cancelled release is carried out.

        Raises:
            NotHeldError: It is already released, does not exist, belongs to another semaphore, or
                another client took it and its lease is over.
            LeaseLostError: This client took it and lost it.
            ConnectionLostError: Redis did not answer; the permit may have been released.
            ScriptError: Redis refused: wrong type of key, no permission.
            ClientClosedError: The client was closed.
            TypeError: It is neither a `Permit` nor a str.
            ValueError: The id is not 32 hex digits.
        """
        permit_id = check_id(permit)
        own = self._own(permit, permit_id)
        if own is not None:
            await own.release()
        elif not await self._change_foreign(bytes.fromhex(permit_id)):
            raise NotHeldError(
                f"{self.kind} {self.name!r}: permit {permit_id} does not exist: it was released,"
                " has expired, or was never granted"
            )

    def _own(self, permit: Permit | str, permit_id: str) -> Permit | None:
        """Return the permit if this client took it from this semaphore and still knows of it.

        Raises:
            NotHeldError: It is a permit of another semaphore.
        """
        if isinstance(permit, Permit):
            theirs = hold_of(permit).ownership
            if (
                not isinstance(theirs, PermitOwnership)
                or theirs.identity != self._ownership.identity
            ):
                raise NotHeldError(f"{permit!r} belongs to another semaphore, not to {self!r}")
            return permit
        hold = self._ownership.hold_of(bytes.fromhex(permit_id))
        return None if hold is None else self._ownership.permit_of(hold)

    async def _change_foreign(self, permit: bytes) -> bool:
        """Give back a permit that this client did not take; return whether it was in force."""
        return bool(await self._receipts.run(self._commands.release_id(permit)))

    async def try_release(self, permit: Permit | str) -> bool:
        """Release a permit as `release` does; return False if it does not exist or was lost.

        Other errors are those of `release`.
        """
        try:
            await self.release(permit)
        except (NotHeldError, LeaseLostError):
            return False
        return True

    async def release_many(self, permits: Iterable[Permit | str]) -> None:
        """Release several permits, all or none, whoever took them.

        A cancelled release is carried out. Other errors are those of `release`.

        Raises:
            NotHeldError: One of them does not exist, or its lease is over; none was released.
            ValueError: An id is not 32 hex digits, is given twice, or there are over 10,000.
        """
        ids = self._ids(permits)
        if ids and not await self._release_all(ids):
            raise NotHeldError(
                f"{self.kind} {self.name!r}: none of {len(ids)} permits was released, because one"
                " of them does not exist: it was released, has expired, or was never granted"
            )

    async def try_release_many(self, permits: Iterable[Permit | str]) -> int:
        """Release several permits, all or none; return how many were released.

        Errors are those of `release_many`, except that it returns 0 instead of `NotHeldError`.
        """
        ids = self._ids(permits)
        return await self._release_all(ids) if ids else 0

    async def update_lease_time(self, permit: Permit | str, lease_time: Duration) -> bool:
        """Set the lease of a permit from now, whoever took it; return whether the permit exists.

        The permit then expires: this client stops renewing it. Another process that holds it does
        not notice. A `Permit` that was lost or released stays so. For a bare id Redis alone
        decides, because another client may hold it.
        """
        lease = check_lease_time(lease_time)
        permit_id = check_id(permit)
        own = self._own(permit, permit_id)
        if own is not None:
            try:
                await own.extend(lease)
            except (NotHeldError, LeaseLostError):
                return False
            return True
        owners = self._context.owners
        command = self._commands.update_lease(
            bytes.fromhex(permit_id), owners.client_id, milliseconds(lease), owners.new_number()
        )
        return bool(await self._answer(command))

    async def lease_time(self, permit: Permit | str) -> float:
        """Return the seconds left of a permit, whoever took it; infinity if it never ends.

        Raises:
            NotHeldError: It does not exist, or its lease is over.
        """
        permit_id = check_id(permit)
        left = await self._answer(self._commands.lease_left(bytes.fromhex(permit_id)))
        if left == -2:
            raise NotHeldError(f"{self.kind} {self.name!r}: permit {permit_id} does not exist")
        return seconds(left)

    async def available(self) -> int:
        """Return how many permits are free; the permits of dead holders are returned first."""
        return (await self._counts())[0]

    async def acquired(self) -> int:
        """Return how many permits are taken."""
        return (await self._counts())[1]

    async def permits(self) -> int:
        """Return how many permits there are, free and taken."""
        return sum(await self._counts())

    async def try_set_permits(self, n: int) -> bool:
        """Create the semaphore with `n` permits if there is none; return whether it was created.

        A cancelled call is carried out, as are `set_permits` and `add_permits`.

        Raises:
            ConnectionLostError: Redis did not answer; the semaphore may have been created.
            ScriptError: Redis refused: wrong type of key, no permission.
            ClientClosedError: The client was closed.
            TypeError: `n` is not an int.
            ValueError: `n` is negative; nothing was sent.
        """
        made = self._made(await self._receipts.run(self._commands.make(check_whole(n, "n", 0))))
        self._ownership.permit_queue.number_known |= made
        return made

    async def set_permits(self, n: int) -> None:
        """Set the number of permits to `n`, taken ones included; create the semaphore if needed.

        If more are taken, the number of free ones is below zero, and releases first bring it back
        to zero. Errors are those of `try_set_permits`.
        """
        change = self._commands.set(check_whole(n, "n", 0), replaces=1)
        self._ownership.permit_queue.number_known = True
        await self._receipts.run(change)
        self._created = True

    async def add_permits(self, n: int) -> None:
        """Add `n` permits; a negative `n` removes permits.

        The semaphore keeps its expiry. Errors are those of `try_set_permits`.
        """
        units = check_whole(n, "n", 1 - EXACT_LIMIT)
        await self._change(self._commands.add(units))

    async def _counts(self) -> tuple[int, int]:
        """Return how many permits are free, and how many taken."""
        await self._create()
        free, taken = await self._answer(self._commands.available())
        return int(free), int(taken)

    async def inspect(self) -> SemaphoreSnapshot:
        """Return a snapshot of holders and waiters, for people. Decide nothing from it."""
        free, total, words, *others = await self._answer(self._commands.inspect())
        rows, waiting = others[:words], waits(others[words:])
        ids = rows[::2]
        found = [
            (owner_of(raw), 1, seconds(left)) for raw, left in zip(ids, rows[1::2], strict=True)
        ]
        return await self._snapshot(free, found, total, waiting, tuple(raw.hex() for raw in ids))

    # Several permits.

    def _ids(self, permits: Iterable[Permit | str]) -> list[str]:
        """Return the ids of permits, checked."""
        ids: list[str] = []
        for permit in permits:
            permit_id = check_id(permit)
            self._own(permit, permit_id)
            ids.append(permit_id)
        if len({*ids}) < len(ids):
            raise ValueError("a permit is given twice")
        if len(ids) > MOST_PERMITS_AT_ONCE:
            raise ValueError(
                f"at most {MOST_PERMITS_AT_ONCE} permits can be released at once, not {len(ids)}"
            )
        return ids

    async def _release_all(self, ids: list[str]) -> int:
        """Give back all of these, or none; return how many."""
        raw = [bytes.fromhex(permit_id) for permit_id in ids]
        own = [hold for each in raw if (hold := self._ownership.hold_of(each)) is not None]
        started = self._receipts.start(self._commands.release_ids(raw))
        # A renewal after the release would find nothing and report a loss.
        for hold in own:
            hold.suspend()
        when_answered(started[1], lambda done: self._all_released(own, done))
        return int(await self._receipts.answer(started))

    def _all_released(self, own: list[Hold], done: Future[int]) -> None:
        released = done.exception() is None and done.result() > 0
        for hold in own:
            # Without an answer it is unknown; the next renewal will tell.
            hold.resume()
            if released:
                self._ownership.released_by_id(hold)


def _check_many(n: object) -> int:
    """Return how many permits to take at once.

    Raises:
        TypeError: It is not an int.
        ValueError: It is below 1, or more than one script can take.
    """
    units = check_whole(n)
    if units > MOST_PERMITS_AT_ONCE:
        raise ValueError(
            f"at most {MOST_PERMITS_AT_ONCE} permits can be taken at once, not {units}"
        )
    return units


def check_id(permit: object) -> str:
    """Return the id of a permit as text.

    Raises:
        TypeError: It is neither a permit nor a str.
        ValueError: It is not 32 hex digits.
    """
    if isinstance(permit, Permit):
        return id_of(permit)
    if not isinstance(permit, str):
        raise TypeError(f"a permit must be a Permit or its id, not {type(permit).__name__}")
    try:
        raw = bytes.fromhex(permit)
    except ValueError:
        raw = b""
    if len(raw) != 16 or len(permit) != 32:
        raise ValueError(f"the id of a permit must be 32 hex digits, not {permit!r}")
    return permit.lower()
