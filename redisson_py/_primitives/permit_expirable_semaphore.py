"""PermitExpirableSemaphore: permits with ids, as Redisson's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self, final

from redisson_py._keys import Name
from redisson_py._primitives.permit import Permit
from redisson_py._primitives.permit_holds import RECLAIMS, TOO_MANY, check_units
from redisson_py._primitives.permit_ids import IdPermits, check_id, owner_of
from redisson_py._primitives.permit_looking import SemaphoreSnapshot, look_at_semaphore
from redisson_py._primitives.permits import PermitBlock
from redisson_py._scripts import source
from redisson_py._time import Duration, check_lease_time, check_timeout, milliseconds
from redisson_py.errors import LeaseLostError, NotHeldError

ADD = source.load("expirable_semaphore.add")
INSPECT = source.load("expirable_semaphore.inspect")
LEASE_LEFT = source.load("expirable_semaphore.lease_left")
UPDATE_LEASE = source.load("expirable_semaphore.update_lease")


@final
class PermitExpirableSemaphore(IdPermits):
    """A number of permits, each with an id and a lease of its own.

    `async with semaphore:` takes one. Whoever knows the id of a permit, in another process or
    in Java, can release it or set its lease. With `permits`, the first use makes the semaphore
    if there is none; an existing one keeps its count.

    Use it instead of `Semaphore` where a permit is handed over by its id, or ends by itself:
    with a `lease_time` it is back after that time, even if its holder still works. Without,
    the watchdog of the client that took it renews it until it is released.

    Promised: never more permits are out than there are, as the server sees it; each is given
    back exactly once, whatever is lost on the way; one of a holder that died is back within
    one lease. Of several that are taken together, or released together, all or none. Tasks of
    one client are served in the order they came.

    Not promised: an order between processes; that a holder learns of its loss in time if it
    is paused; that a `Permit` notices a lease that somebody else set for its id. Permits are
    not passed from task to task without Redis, as those of a `Semaphore` are: an id is for
    one acquisition only.

    Protocol: Redisson's RPermitExpirableSemaphore, a counter, a sorted set of ids by the end
    of their leases, by the server's clock, and a message.
    """

    def _named(self, name: Name) -> Self:
        return type(self)(self._context, name, self._permits)

    async def acquire(
        self, *, lease_time: Duration | None = None, timeout: Duration | None = None
    ) -> Permit:
        """Take a permit, waiting until one is free.

        Waiting costs one subscription for all waiters of this client and no polling. If
        cancelled, nothing is held.

        Args:
            lease_time: Seconds after which it ends by itself; None renews it until it is
                released.
            timeout: Seconds to wait, in all: connecting, retries and waiting; None waits for
                ever, 0 asks once.

        Raises:
            AcquireTimeoutError: None was free within `timeout` seconds.
            ConnectionLostError: Redis did not answer. What may be held is given back as soon
                as it answers, and ends with its lease in any case.
            LeaseLostError: Three grants in a row came too late to be used.
            ScriptError: Redis refused: wrong type of key, out of memory, no permission.
            ClientClosedError: The client was closed.
            TypeError: A time is no time.
            ValueError: A time is out of range; nothing was sent.
        """
        (permit,) = await self._acquire_checked(1, timeout, lease_time)
        return permit

    async def try_acquire(
        self, *, lease_time: Duration | None = None, timeout: Duration | None = 0
    ) -> Permit | None:
        """Take a permit if one is free within `timeout` seconds; return None if not.

        By default this asks once and waits for nothing but the answer. In all else as
        `acquire`, which see for the arguments and errors.
        """
        permits = await self._try_acquire_checked(1, timeout, lease_time)
        return None if permits is None else permits[0]

    async def acquire_many(
        self, n: int, *, lease_time: Duration | None = None, timeout: Duration | None = None
    ) -> list[Permit]:
        """Take `n` permits, waiting until so many are free: all of them or none.

        Each has an id and can be released by itself. For the rest see `acquire`.
        """
        units = check_units(n)
        return await self._acquire_checked(units, timeout, lease_time)

    async def try_acquire_many(
        self, n: int, *, lease_time: Duration | None = None, timeout: Duration | None = 0
    ) -> list[Permit] | None:
        """Take `n` permits if so many are free within `timeout` seconds; return None if not."""
        units = check_units(n)
        return await self._try_acquire_checked(units, timeout, lease_time)

    def hold(
        self, *, lease_time: Duration | None = None, timeout: Duration | None = None
    ) -> PermitBlock:
        """Return a block with the options of `acquire`: `async with s.hold(lease_time=5)`.

        Above an async function, `@s.hold(timeout=1)` is `@s` with these options.

        Raises:
            TypeError: A time is no time.
            ValueError: A time is out of range.
        """
        check_timeout(timeout)
        if lease_time is not None:
            check_lease_time(lease_time)
        return PermitBlock(self, 1, timeout, lease_time)

    async def release(self, permit: Permit | str) -> None:
        """Give a permit back, or one that anybody took, by its id.

        Cancelled, it is carried out all the same.

        Raises:
            NotHeldError: It was released already, or there is no such permit, or, given by an
                id that is not of this client, its lease is over.
            LeaseLostError: This client took it and lost it.
            ConnectionLostError: Redis did not answer; it may have been released.
            ScriptError: Redis refused: wrong type of key, no permission.
            ClientClosedError: The client was closed.
            TypeError: It is neither a permit nor a str.
            ValueError: An id is 32 hex digits, and this is none.
        """
        permit_id = check_id(permit)
        own = permit if isinstance(permit, Permit) else self._line.permits.get(permit_id)
        if own is not None:
            await own.release()
        elif not await self._release_foreign(permit_id):
            raise NotHeldError(
                f"{self.kind} {self._name!r}: permit {permit_id} was released already, has"
                " expired, or never was"
            )

    async def try_release(self, permit: Permit | str) -> bool:
        """Give a permit back; return False if it was not there, or its lease was over.

        Errors as for `release`, but for NotHeldError and LeaseLostError.
        """
        try:
            await self.release(permit)
        except (NotHeldError, LeaseLostError):
            return False
        return True

    async def release_many(self, permits: Iterable[Permit | str]) -> None:
        """Give several permits back, all or none, by whoever they were taken.

        Raises:
            NotHeldError: One of them is not there, or its lease is over; all stay as they are.
            ValueError: An id is none, or is there twice.
        """
        ids = self._ids(permits)
        if ids and not await self._release_all(ids):
            raise NotHeldError(
                f"{self.kind} {self._name!r}: one of {len(ids)} permits was released already,"
                " has expired, or never was; none was released"
            )

    async def try_release_many(self, permits: Iterable[Permit | str]) -> int:
        """Give several permits back, all or none; return how many these were, or 0."""
        ids = self._ids(permits)
        return await self._release_all(ids) if ids else 0

    async def update_lease_time(self, permit: Permit | str, lease_time: Duration) -> bool:
        """Set the lease of a permit, of anybody's, from now; return whether it was there.

        It then ends by itself: the watchdog renews it no more. A permit of another process
        keeps to what that process knows; see the class. A `Permit` that was lost or released
        stays so; of an id Redis alone knows, because others may have got it.
        """
        seconds = check_lease_time(lease_time)
        permit_id = check_id(permit)
        own = permit if isinstance(permit, Permit) else self._line.permits.get(permit_id)
        if own is not None:
            try:
                await own.extend(seconds)
            except (NotHeldError, LeaseLostError):
                return False
            return True
        self._context.check()
        found = await self._context.executor.run(
            UPDATE_LEASE,
            self._key,
            counter=self._key,
            permits=self._permits_key,
            id=bytes.fromhex(permit_id),
            lease_ms=milliseconds(seconds),
            reclaims=RECLAIMS,
            channel=self.channel,
        )
        return bool(found)

    async def lease_time(self, permit: Permit | str) -> float:
        """Return the seconds left of a permit, of anybody's; infinity if it never ends.

        Raises:
            NotHeldError: It is not there, or its lease is over.
        """
        permit_id = check_id(permit)
        self._context.check()
        left = await self._context.executor.run(
            LEASE_LEFT,
            self._key,
            counter=self._key,
            permits=self._permits_key,
            id=bytes.fromhex(permit_id),
            reclaims=RECLAIMS,
            channel=self.channel,
        )
        if left == -2:
            raise NotHeldError(f"{self.kind} {self._name!r}: there is no permit {permit_id}")
        return float("inf") if left == -1 else left / 1000

    async def available(self) -> int:
        """Return how many permits are free; what dead holders had is given back first."""
        return (await self._counts())[0]

    async def acquired(self) -> int:
        """Return how many permits are taken."""
        return (await self._counts())[1]

    async def permits(self) -> int:
        """Return how many permits there are, free and taken."""
        return sum(await self._counts())

    async def try_set_permits(self, n: int) -> bool:
        """Make the semaphore with `n` permits unless there is one; return whether it was made.

        Cancelled, it is carried out all the same; so are `set_permits` and `add_permits`.

        Raises:
            ConnectionLostError: Redis did not answer; it may have been made.
            ScriptError: Redis refused: wrong type of key, no permission.
            ClientClosedError: The client was closed.
            TypeError: `n` is no int.
            ValueError: It is negative; nothing was sent.
        """
        return await self._set(check_units(n, least=0), replaces=0)

    async def set_permits(self, n: int) -> None:
        """Have `n` permits in all, taken ones included; make the semaphore if there is none.

        Fewer than are taken leave a number below zero free, which releases fill up first.
        Errors as for `try_set_permits`.
        """
        await self._set(check_units(n, least=0), replaces=1)

    async def add_permits(self, n: int) -> None:
        """Have `n` permits more than before; below zero, so many fewer.

        An expiry of the semaphore stays. Errors as for `try_set_permits`.
        """
        units = check_units(n, least=1 - TOO_MANY)
        await self._make()
        await self._receipts.run(
            ADD, counter=self._key, permits=self._permits_key, units=units, channel=self.channel
        )

    async def inspect(self) -> SemaphoreSnapshot:
        """Return who has what, as a snapshot for people. Nothing should be decided from it."""
        self._context.check()
        free, *rows = await self._context.executor.run(
            INSPECT,
            self._key,
            counter=self._key,
            permits=self._permits_key,
            holders=RECLAIMS,
        )
        ids = rows[::2]
        found = [
            (owner_of(raw), 1, float("inf") if left == -1 else left / 1000)
            for raw, left in zip(ids, rows[1::2], strict=True)
        ]
        keys, waiters = (self._key, self._permits_key), self.statistics().waiters
        texts = tuple(raw.hex() for raw in ids)
        return await look_at_semaphore(self._context, free, found, waiters, keys, texts)
