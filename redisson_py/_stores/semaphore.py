"""The semaphore of a store: a number of permits, and who has how many until when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Self, cast, final

from redisson_py._answers import Disagrees
from redisson_py._arguments import explained
from redisson_py._engine.awaiting import acquiring
from redisson_py._engine.block import HoldBlock
from redisson_py._engine.context import Context
from redisson_py._engine.server import Asked, Held
from redisson_py._engine.snapshots import HolderSnapshot, WaiterSnapshot
from redisson_py._keys import Name
from redisson_py._loop import current_task
from redisson_py._stores.commands import StoreLockCommands
from redisson_py._stores.contract import Permits, PermitStore, Verb, Wish
from redisson_py._stores.executor import StoreExecutor
from redisson_py._stores.locks import name_of
from redisson_py._stores.requests import OwnedSpecial, Request, Special
from redisson_py._time import Duration, check_timeout
from redisson_py.errors import LeaseLostError, NotHeldError
from redisson_py.semaphores._ownership import PermitOwnership
from redisson_py.semaphores._queue import PermitRequest
from redisson_py.semaphores.permit import Permit
from redisson_py.semaphores.semaphore_like import SemaphoreSnapshot
from redisson_py.semaphores.units_like import UnitsLike

#: The greatest number of permits, and of permits of one call: of 31 bits, as that of Redisson.
_MOST = 2**31 - 1


def check_units(number: object, what: str = "n", least: int = 0) -> int:
    """Return a number of permits.

    Raises:
        TypeError: It is not an int.
        ValueError: It is out of range.
    """
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"{what} must be int, not {type(number).__name__}")
    if not least <= number <= _MOST:
        raise ValueError(f"{what} must be {least} to {_MOST}, not {number}")
    return number


class StorePermitCommands(StoreLockCommands):
    """The requests about a semaphore of a store.

    Args:
        name: The name, with the client's prefix.
        start_units: How many permits the first request creates it with; below zero: it does not.
        store: The store.
    """

    __slots__ = ("_store", "start_units")

    passes = True
    records_all = True
    missing = ""

    permit_text: staticmethod[[bytes], str] = staticmethod(bytes.decode)

    def __init__(self, name: str, start_units: int, store: PermitStore) -> None:
        super().__init__(name, held="permit")
        self.start_units = start_units
        self._store = store

    @staticmethod
    def clients_for(units: int) -> None:
        """Return no queue that the engine must know: the store rings for who is next."""

    @staticmethod
    def fields(owner: str, units: int) -> list[tuple[bytes, int]]:
        """Return field and units of the hold that a request gets."""
        return [(owner.encode(), units)]

    def wish(self, request: Asked) -> Wish:
        """Return what an acquire request asks the store for.

        Only the head of the local queue waits in the store's; the others ask once.
        """
        waits = isinstance(request, PermitRequest) and request.registers and not request.once
        permits = None if self.start_units < 0 else self.start_units
        wish = super().wish(request)
        compares = request.compares and permits is not None
        return replace(wish, waits=waits, units=request.target, permits=permits, compares=compares)

    def lower(self, hold: Held, target: int, lease_time: float) -> Request:
        """Return the request that lowers the units of a hold."""
        ask = partial(self._store.lower_units, self.name, hold.owner, target)
        return OwnedSpecial(ask, self.name, hold.owner)


class StorePermitOwnership(PermitOwnership[StorePermitCommands, Context]):
    """One client's units of one semaphore in its store."""

    def __init__(self, context: Context, name: Name, permits: int | None) -> None:
        start = -1 if permits is None else check_units(permits, "permits")
        self._executor = cast("StoreExecutor", context.executor)
        self._store = cast("PermitStore", self._executor.carrier.store)
        super().__init__(
            context, name, StorePermitCommands(name_of(context, name), start, self._store)
        )

    async def exists(self) -> bool:
        """Return whether there is such a semaphore; raise if the store does not answer."""
        return (await self.permits(fails_fast=True)).number is not None

    async def permits(self, *, fails_fast: bool = False) -> Permits:
        """Return how many permits there are, and who has them."""
        self.context.check()
        ask = partial(self._store.permits, self.commands.name)
        return cast("Permits", await self._answer(ask, must=False, fails_fast=fails_fast))

    async def change(self, verb: Verb, units: int = 0) -> int:
        """Change the number of permits, once, also if the caller is cancelled."""
        self.context.check()
        # Who changes the number need not be told that it is another one.
        self.permit_queue.number_known |= verb in ("set", "add", "drain")
        start = self.commands.start_units
        # The first of its requests and all copies of it have this id.
        request = self.context.owners.new_owner()
        first = None if start < 0 else start
        ask = partial(self._store.change_permits, self.commands.name, request, verb, units, first)
        result = int(await self._answer(ask, must=True))
        self.permit_queue.number_known |= verb == "make" and result == 1
        return result

    async def _answer(
        self, ask: Callable[..., Any], *, must: bool, fails_fast: bool = False
    ) -> Any:
        call = self._executor.start(Special(ask), must=must)
        call.fails_fast = fails_fast
        return await self._executor.answer(call)


@final
class StoreSemaphore(UnitsLike[StorePermitOwnership]):
    """A number of permits in a store, which tasks, processes and hosts acquire and release.

    Made by `client.get_semaphore(name, permits)`. With `permits`, the first use creates the
    semaphore if it does not exist; an existing one keeps its number. If that is another one, a
    warning is logged, once for a client and a name. `async with semaphore:` takes one. Any task of
    this client may release another task's permit.

    Use it to limit how many tasks do something at once; use a lock where the holder should be
    known. A lock of the same name has nothing to do with it.

    Promised: as the store sees it, never more permits are taken than exist. The permits of a dead
    holder return within one lease, by the store's clock. An acquire takes all `n` permits or none.
    `release` never creates permits. Clients are served in order of arrival, also those that want
    many, and so are the tasks of one client; tasks of one client may pass permits on out of the
    order of clients, for as long as the client's `turn`.

    Not promised: that a paused holder notices its loss in time; that lowering the number below what
    is taken takes permits away from their holders.

    Cost: one statement to acquire and one to release, if permits are free. The time of a statement
    grows with the number of holders and of waiting clients: on a small machine 1.5 ms with a
    hundred holders, 4 ms with a thousand.
    For cancellation, times and errors see `acquire` and `release`.
    """

    def __init__(self, context: Context, name: Name, permits: int | None = None) -> None:
        super().__init__(StorePermitOwnership(context, name, permits), permits)

    def _named(self, name: Name) -> Self:
        return type(self)(self._ownership.context, name, self._permits)

    @acquiring
    async def acquire(self, n: int = 1, *, timeout: Duration | None = None) -> Permit:
        """Take `n` permits, all or none, waiting until that many are free.

        They are one `Permit`, which any task may release; until then the watchdog renews it. With
        `n=0` nothing is sent, and the permit has no units.

        Waiting sends nothing: the store rings. A cancelled acquire holds nothing.

        Args:
            n: How many, 0 or more. Default: 1.
            timeout: Seconds to wait, including connecting and retries; 0 asks once. Default: the
                client's `acquire_timeout`, which waits forever unless you set it.

        Raises:
            AcquireTimeoutError: `n` permits were not free within `timeout` seconds; the text says
                if the semaphore does not exist.
            ConnectionLostError: The store did not answer until `timeout` was over; without one, for
                `command_timeout`. What may be held is released as soon as it answers, and ends
                with its lease in any case.
            LeaseLostError: Three grants in a row came too late to be used.
            BackendError: The store refused: no permission, no table.
            ClientClosedError: The client was closed.
            TypeError: `n` is not an int, or the timeout is not a time.
            ValueError: A number or time is out of range; nothing was sent.
        """
        units = check_units(n)
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

        By default this asks once and waits only for the answer. It never overtakes: if others wait,
        here or in another process, for what is free, it returns None. Arguments and other errors
        are those of `acquire`; no answer from the store is an error, never None.
        """
        units = check_units(n)
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
        units = check_units(n, least=1)
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
            ReleaseFailedError: The store did not answer for `command_timeout`. The release is
                repeated until the lease has run out.
            BackendError: The store refused.
            ClientClosedError: The client was closed.
            TypeError: `n` is not an int.
            ValueError: `n` is negative; nothing was sent.
        """
        units = check_units(n)
        if units:
            await self._ownership.release_units(current_task(), units)

    async def release_if_exists(self, n: int = 1) -> bool:
        """Release `n` permits as `release` does; return False if this client does not hold them.

        It returns False if this client holds fewer, if one of them was lost, or if `n` is 0. Other
        errors are those of `release`.
        """
        units = check_units(n)
        try:
            await self.release(units)
        except (NotHeldError, LeaseLostError):
            return False
        return units > 0

    async def available(self) -> int:
        """Return how many permits are free; below zero if there are fewer than are taken.

        Those of dead holders count as free when their leases have ended.
        """
        permits = await self._ownership.permits()
        if permits.number is None and self._permits is not None:
            await self._ownership.change("make", self._permits)
            permits = await self._ownership.permits()
        self._ownership.disagrees(Disagrees(permits.number))
        return permits.available

    async def try_set_permits(self, n: int) -> bool:
        """Create the semaphore with `n` permits if there is none; return whether it was created.

        A cancelled call is carried out, as are the other calls that change the number, and
        `delete`.

        Raises:
            ConnectionLostError: The store did not answer; it may have been carried out.
            BackendError: The store refused.
            ClientClosedError: The client was closed.
            TypeError: `n` is not an int.
            ValueError: `n` is out of range; nothing was sent.
        """
        return bool(await self._ownership.change("make", check_units(n)))

    async def set_permits(self, n: int) -> None:
        """Set the number of permits to `n`, taken ones included; create the semaphore if needed.

        Waiters are woken if permits become free. Errors are those of `try_set_permits`.
        """
        await self._ownership.change("set", check_units(n))

    async def add_permits(self, n: int) -> None:
        """Add `n` permits; a negative `n` removes permits.

        Removing more than are free leaves a number below zero, which releases first bring back to
        zero. Errors are those of `try_set_permits`.
        """
        await self._ownership.change("add", check_units(n, least=-_MOST))

    async def drain(self) -> int:
        """Remove all free permits permanently; return how many there were.

        A number below zero is raised to zero. Errors are those of `try_set_permits`.
        """
        return await self._ownership.change("drain")

    async def delete(self) -> bool:
        """Delete the semaphore; return whether it existed.

        Permits in use become void: their holders notice at the next renewal or release, as with
        any loss (`"taken"`). Waiters ask again: those with `permits` create a new one, others wait
        until a client does. Errors are those of `try_set_permits`.
        """
        return bool(await self._ownership.change("delete"))

    async def inspect(self) -> SemaphoreSnapshot:
        """Return a snapshot of holders and waiters, for people. Decide nothing from it."""
        ownership = self._ownership
        permits = await ownership.permits()
        own = {hold.owner: hold.task() for hold in ownership.all_holds()}
        holders = []
        for state, units in permits.holders:
            task = own.get(state.owner)
            name = None if task is None else task.get_name()
            holders.append(HolderSnapshot(state.owner, units, state.remaining, task=name))
        return SemaphoreSnapshot(
            None if permits.number is None else permits.available,
            tuple(holders),
            (),
            self.statistics().waiters,
            permits.keys,
            waiting=tuple(WaiterSnapshot(owner) for owner in permits.waiters),
        )
