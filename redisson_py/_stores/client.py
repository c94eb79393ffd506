"""The client of a store other than Redis: its watchdog, its waiters, and its locks."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from types import TracebackType
from typing import Self

from redisson_py._arguments import explained
from redisson_py._engine.awaiting import AsyncOnly
from redisson_py._engine.bus import Bus
from redisson_py._engine.closing import let_go, statistics_of
from redisson_py._engine.context import Context
from redisson_py._engine.hold import FencedLease
from redisson_py._engine.wakeups import Table
from redisson_py._engine.watchdog import Watchdog
from redisson_py._keys import Name
from redisson_py._listener import Teller
from redisson_py._loop import (
    Cancelled,
    Future,
    Task,
    discard,
    fail,
    here,
    hush,
    is_closed,
    new_future,
    sleep,
    start_task,
    stop_task,
    wait_for_all,
    wake,
)
from redisson_py._owner import Owners
from redisson_py._statistics import ClientStatistics, Counts
from redisson_py._stores.commands import own_channel
from redisson_py._stores.contract import Store
from redisson_py._stores.executor import StoreExecutor
from redisson_py._stores.locks import FencedStoreLock, StoreLock, lock_ownership
from redisson_py._stores.options import StoreOptions, check_store_options
from redisson_py._stores.requests import Ping
from redisson_py._stream.outage import Outages
from redisson_py._time import Duration, check_timeout
from redisson_py.errors import ClientClosedError
from redisson_py.locks.lock_of import LockOf

log = logging.getLogger("redisson_py")

#: Most turns of the event loop to wait until the waiters that `aclose` failed have left.
_LAST_TURNS = 100
_ONE_SLEEP = 3600.0

_ENDED = "its event loop was shut down"


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
        checked = self._options = check_store_options(options)
        teller = None if checked.listener is None else Teller(checked.listener)
        store = self._store = make_store(checked.lease_time)
        self._owners = Owners()
        self._table = Table()
        counts = Counts()
        outages = Outages(store.where, counts, teller, server=store.title)
        self._executor = StoreExecutor(store, self._check, checked, self._rang, outages)
        self._watchdog = Watchdog(self._executor, checked.lease_time, counts=counts)
        self._context = Context(
            checked,
            self._executor,
            Bus(self._table),
            self._watchdog,
            self._owners,
            self._check,
            lambda present: None,
            f"{store.title} at {store.where}",
            counts,
            teller,
            store.title.lower(),
        )
        self._loop: object = None
        #: Ends last when the event loop ends every task. Only the loop refers to it: if that was
        #: closed, it is collected, and disconnects. It has the context variables of where the
        #: client is made, as all that is done in the background.
        self._root: Callable[[], Task | None] = lambda: None
        self._made_in = copy_context()
        self._closed = self._disconnected = False
        self._closing: Future[None] | None = None
        #: It was closed by the end of its event loop, not by `aclose`: another may go on with it.
        self._ended_with_loop = False
        self._pid = os.getpid()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self._watchdog.holds)} held"
        return f"<{type(self).__name__} {self._store.where}: {state}>"

    @property
    def id(self) -> str:
        """The client's id. It is the first part of every owner of this client."""
        return self._owners.client_id

    async def __aenter__(self) -> Self:
        if self._closed:
            await self._reopen()
        self._check()
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
        self._check()
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
        return statistics_of(
            self._context, commands_sent=carrier.requests, connections=carrier.starts
        )

    async def aclose(self) -> None:
        """Close: release what is still held, send waiters away, disconnect. Idempotent.

        Waiters get `ClientClosedError`. What is still held is released, with one warning that
        names it; a block that is still running learns that it lost its lock. A second call
        returns when the first has finished. If cancelled, the client is closed all the same: it
        releases and disconnects in the background, for as long as the event loop runs.
        """
        if self._closing is not None and not self._closing.done() and self._loop is here():
            await wait_for_all([self._closing])
        self._ended_with_loop = False
        if self._closed or self._loop is None:
            self._closed = True
            return
        self._refuse_after_fork()
        if is_closed(self._loop):
            # Nothing can release what it left there: the leases run out.
            self._let_go()
            self._executor.carrier.leave_behind()
            self._closed = True
            return
        self._check()
        error = ClientClosedError("the client was closed")
        let_go(self._context, error, list(self._watchdog.holds))
        self._refuse_all()
        closing = self._closing = new_future()
        self._begin_to_close(closing)
        await wait_for_all([closing])
        closing.result()

    def _begin_to_close(self, closing: Future[None]) -> None:
        """Start to disconnect, and once more if an event loop that ends has cancelled that."""

        def again(_: Task) -> None:
            if not closing.done():
                self._begin_to_close(closing)

        task = start_task(self._close(closing), "redisson_py aclose", self._made_in)
        task.add_done_callback(again)

    async def _close(self, closing: Future[None]) -> None:
        try:
            await self._executor.carrier.finish(self._options.reply_timeout)
            await self._disconnect()
        except Exception as error:
            fail(closing, error)
        # One that was cancelled by the end of the event loop waits for this.
        if (root := self._root()) is not None and not root.cancelling():
            await stop_task(root)
        wake(closing)

    async def _disconnect(self) -> None:
        try:
            await self._executor.carrier.close()
        finally:
            self._disconnected = True
            self._context.bus.close()

    def _refuse_all(self) -> None:
        self._closed = True
        self._executor.close()
        self._watchdog.close()
        self._table.wake_all()

    # The end of an event loop. `asyncio.run` cancels every task.

    async def _end_with_loop(self) -> None:
        """Wait until the event loop ends every task; then disconnect, after blocks were left."""
        try:
            while True:
                # Its timer has the loop refer to this task, and so to the client.
                await sleep(_ONE_SLEEP)
        except GeneratorExit:
            # The event loop was closed, and this coroutine was collected.
            self._executor.carrier.leave_behind()
            raise
        except Cancelled:
            while not self._closed and (running := self._holding_tasks()):
                await wait_for_all(running)
            if not self._closed:
                await self._end_after_blocks()
            elif self._closing is not None and not self._disconnected:
                await wait_for_all([self._closing])
            raise

    def _holding_tasks(self) -> list[Task]:
        tasks = {hold.task() for hold in self._watchdog.holds}
        return [task for task in tasks if task is not None and not task.done()]

    async def _end_after_blocks(self) -> None:
        """Release what no block can release any more, and disconnect.

        What the block of an async generator holds is left to that: the loop closes it later.
        """
        holds, error = self._watchdog.holds, ClientClosedError(_ENDED)
        in_blocks = {hold for hold in holds if any(lease._left_to_block for lease in hold.live)}
        let_go(self._context, error, [hold for hold in holds if hold not in in_blocks])
        if in_blocks:
            self._executor.carrier.tasks.when_idle = self._end_after_generators
            await self._executor.carrier.finish(self._options.reply_timeout)
        else:
            self._ended_with_loop = True
            self._refuse_all()
            closing = self._closing = new_future()
            try:
                await self._executor.carrier.finish(self._options.reply_timeout)
            finally:
                try:
                    await self._disconnect()
                finally:
                    wake(closing)

    def _end_after_generators(self) -> None:
        if not (self._closed or self._watchdog.holds):
            self._ended_with_loop = True
            self._refuse_all()
            self._executor.carrier.leave_behind()

    def _rang(self, name: str | None, owner: str | None) -> None:
        """Wake those that wait for a name; with None all of them, and look after all holds."""
        if name is None:
            self._table.wake_all()
            self._watchdog.ask_now(lambda key: True)
        else:
            self._table.wake_first(own_channel(owner or ""), name.encode())

    def _check(self) -> None:
        """Raise unless the client may be used now and here; it may have to move here first."""
        if self._closed and not self._ended_with_loop:
            raise ClientClosedError("the client is closed")
        loop = here()
        if self._pid != os.getpid():
            self._refuse_after_fork()
            self._start_over()
            self._owners.renew()
        elif self._loop is loop:
            if self._closed:
                raise ClientClosedError(f"the client is closed: {_ENDED}")
            return
        elif self._loop is not None:
            self._refuse_to_move()
            self._start_over()
        self._loop = loop
        self._executor.use(loop)
        root = start_task(self._end_with_loop(), f"redisson_py {self.id[:8]}", self._made_in)
        hush(root)
        self._root = weakref.ref(root)

    def _refuse_after_fork(self) -> None:
        used = self._loop is not None and not self._closed
        if used and self._pid != os.getpid():
            raise ClientClosedError(
                "the client was used before a fork; make one in the child, or use it no earlier"
                " than there"
            )

    def _refuse_to_move(self) -> None:
        """Raise if the last event loop may go on, or has left what cannot be moved to another."""
        if not is_closed(self._loop):
            raise ClientClosedError(
                "the client belongs to another event loop, which is not closed; make one for each"
            )
        held = next((hold for hold in self._watchdog.holds if hold.valid), None)
        if held is not None or (self._context.waits and not self._ended_with_loop):
            what = "tasks waited" if held is None else f"it held {held.ownership!r}"
            raise ClientClosedError(
                f"the client's event loop was closed while {what}, and that does not move to"
                " another; make a client for each event loop"
            )

    async def _reopen(self) -> None:
        """Begin again after `aclose`, as another client."""
        closing, lives = self._closing, self._pid == os.getpid() and not is_closed(self._loop)
        if lives and closing is not None and not closing.done():
            if self._loop is not here():
                raise ClientClosedError("the client is being closed in another event loop")
            await wait_for_all([closing])
        for _ in range(_LAST_TURNS):
            # The waiters that `aclose` failed have not left yet.
            if not self._context.waits:
                break
            await sleep(0)
        # Another task may have been faster.
        if self._closed:
            self._start_over()
            self._owners.renew()

    def _let_go(self) -> None:
        """End what an event loop that was closed has left."""
        for hold in list(self._watchdog.holds):
            # A task that waits for the loss belongs to the closed loop.
            with suppress(RuntimeError, ClientClosedError):
                self._watchdog.lose(hold, "expired")

    def _start_over(self) -> None:
        """Reset everything for another event loop or another life; nothing is held or waits."""
        if is_closed(self._loop):
            self._let_go()
            if (root := self._root()) is not None and not root.done():
                discard(root)
        self._context.bus.start_over()
        self._watchdog.start_over()
        self._context.start_over()
        self._executor.start_over()
        self._loop = self._closing = None
        self._root = lambda: None
        self._closed = self._ended_with_loop = self._disconnected = False
        self._pid = os.getpid()
