"""The client of a store other than Redis: its watchdog, its waiters, and its locks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self

from redisson_py._arguments import explained
from redisson_py._engine.awaiting import AsyncOnly
from redisson_py._engine.bus import Bus
from redisson_py._engine.client_life import ClientLife
from redisson_py._engine.context import Context
from redisson_py._engine.hold import FencedLease
from redisson_py._engine.wakeups import Table
from redisson_py._engine.watchdog import Watchdog
from redisson_py._keys import Name
from redisson_py._listener import Teller
from redisson_py._outage import Outages
from redisson_py._owner import Owners
from redisson_py._statistics import ClientStatistics, Counts
from redisson_py._stores.commands import own_channel
from redisson_py._stores.contract import Store
from redisson_py._stores.executor import StoreExecutor
from redisson_py._stores.locks import FencedStoreLock, StoreLock, lock_ownership
from redisson_py._stores.options import StoreOptions, check_store_options
from redisson_py._stores.requests import Ping
from redisson_py._time import Duration, check_timeout
from redisson_py.locks.lock_of import LockOf


class StoreClient(AsyncOnly):
    """Base of the clients of stores: makes locks and keeps what they hold.

    Use it as `async with`, or call `aclose()` in the end; `async with` opens it again, with a new
    id. Nothing connects until first use. It belongs to the event loop of its first use. When that
    loop is closed, the next use moves the client to the running loop, if it holds nothing and no
    task waits. A client that has connected cannot be used after a fork.

    Args:
        make_store: Makes the store, for a lease time in seconds.
        options: See `StoreOptions`.
    """

    def __init__(self, make_store: Callable[[float], Store], options: StoreOptions) -> None:
        checked = check_store_options(options)
        teller = None if checked.listener is None else Teller(checked.listener)
        store = self._store = make_store(checked.lease_time)
        counts, life = Counts(), ClientLife()
        self._life = life
        outages = Outages(store.where, counts, teller, server=store.title)
        self._executor = StoreExecutor(store, life, checked, self._rang, outages)
        self._watchdog = Watchdog(self._executor, checked.lease_time, counts=counts)
        self._context = Context(
            checked,
            self._executor,
            Bus(Table()),
            self._watchdog,
            Owners(),
            life.check,
            lambda present: None,
            f"{store.title} at {store.where}",
            counts,
            teller,
            store.title.lower(),
        )
        life.attach(self._context, self._executor.carrier)

    def __repr__(self) -> str:
        state = "closed" if self._life.closed else f"{len(self._watchdog.holds)} held"
        return f"<{type(self).__name__} {self._store.where}: {state}>"

    @property
    def id(self) -> str:
        """The client's id. It is the first part of every owner of this client."""
        return self._context.owners.client_id

    async def __aenter__(self) -> Self:
        await self._life.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    @explained
    async def ping(self, *, timeout: Duration | None = None) -> None:
        """Return when the store has answered. Cancelling is harmless.

        Args:
            timeout: Seconds to wait, connecting included; None for `command_timeout`, 0 fails with
                the first attempt that fails.

        Raises:
            ConnectionLostError: It did not answer in time.
            BackendError: It refused us.
            ClientClosedError: The client was closed.
            ValueError: The timeout is negative or NaN; nothing was sent.
        """
        seconds = check_timeout(timeout)
        self._life.check()
        executor = self._executor
        call = executor.start(Ping(), executor.time() + seconds if seconds else None)
        call.fails_fast = seconds == 0
        await executor.answer(call)

    @explained
    def get_lock(self, name: Name, *, reentrant: bool = True) -> StoreLock:
        """Return the reentrant lock `name`; with `reentrant=False`, one that refuses re-entry.

        Raises:
            TypeError: The name is neither str nor bytes.
            ValueError: It is empty, longer than 4 KiB, no UTF-8, or has a NUL character.
        """
        make = partial(lock_ownership, self._context, self._executor, reentrant=reentrant)
        return StoreLock(make, name)

    @explained
    def get_fenced_lock(self, name: Name) -> LockOf[FencedLease]:
        """Return the lock `name` whose leases carry a fencing token; errors as for `get_lock`."""
        make = partial(lock_ownership, self._context, self._executor, lease_kind=FencedLease)
        return FencedStoreLock(make, name)

    def statistics(self) -> ClientStatistics:
        """Return local counters. No I/O."""
        carrier = self._executor.carrier
        return self._context.statistics(commands_sent=carrier.requests, connections=carrier.starts)

    async def aclose(self) -> None:
        """Close: release what is still held, send waiters away, disconnect. Idempotent.

        Waiters get `ClientClosedError`. What is still held is released, with one warning that
        names it; a block that is still running learns that it lost its lock. A second call
        returns when the first has finished. If cancelled, the client is closed all the same: it
        releases and disconnects in the background, for as long as the event loop runs.
        """
        await self._life.close()

    def _rang(self, name: str | None, owner: str | None) -> None:
        """Wake those that wait for a name; with None all of them, and look after all holds."""
        if name is None:
            self._context.bus.table.wake_all()
            self._watchdog.ask_now(lambda key: True)
        else:
            self._context.bus.table.wake_first(own_channel(owner or ""), name.encode())
