"""The life of a client: its event loop, the end of that, forks, closing, and opening again.

A client belongs to the event loop of its first use. From the first request on, a background task
keeps its connections. There are four ends:

- `close`: the client lets everything go, refuses all calls, and disconnects in the background.
- The event loop ends every task, as `asyncio.run` does. Holds are kept while their tasks clean up;
  then the client lets the rest go, and refuses all calls in this loop. The block of an async
  generator is left later: until then the connections stay.
- The event loop was closed without that. Whatever was left there is lost. The next use finds out.
- A fork. A child must not touch the connections of its parent; it may begin anew without any.

After an end, `open` begins anew under another id; after the end of a loop, so does the next use in
another loop, under the same id.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import Protocol

from redisson_py._engine.context import Context
from redisson_py._engine.hold import Hold
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
from redisson_py.errors import ClientClosedError

log = logging.getLogger("redisson_py")

#: Most iterations of the event loop to wait until the waiters that `close` failed have left.
_LAST_ITERATIONS = 100

#: Most holds that the warning of a closing client names.
_MOST_NAMED_HOLDS = 10

ENDED_WITH_LOOP = "the client is closed: its event loop was shut down"

_lives: weakref.WeakSet[ClientLife] = weakref.WeakSet()
#: What belongs to the parent process after a fork. Kept for ever: its cleanup would change the
#: selector that the parent still uses.
_of_parents: list[object] = []


def _note_fork() -> None:
    for life in _lives:
        life.note_fork()


os.register_at_fork(after_in_child=_note_fork)


class Connections(Protocol):
    """What a client has open to its servers."""

    @property
    def connected(self) -> bool:
        """Whether anything may be open, which the child of a fork must not touch."""
        ...

    async def run(self) -> None:
        """Keep them until cancelled.

        If an event loop ends every task, `ClientLife.end_with_loop` says when they may be closed.
        """

    async def finish(self, seconds: float) -> None:
        """Wait until everything that was sent has been answered, for at most some seconds."""

    async def close(self) -> None:
        """Give up what is under way, and disconnect. May be called again."""

    def leave_behind(self) -> None:
        """Close everything at once: the event loop was closed, or ends now."""

    def reset(self) -> object:
        """Forget everything, for another event loop or process; return what was there."""
        ...


def let_go(context: Context, error: ClientClosedError, holds: Sequence[Hold]) -> None:
    """Undo requests, raise `error` in waiters, and give back holds, without waiting."""
    for request in list(context.pending):
        request.give_up(error)
    context.registry.close(error)
    context.leave_queues()
    if holds:
        some = [
            f"{hold.ownership.kind} {hold.ownership.name!r}" for hold in holds[:_MOST_NAMED_HOLDS]
        ]
        more = f" and {len(holds) - len(some)} more" if len(holds) > len(some) else ""
        log.warning("closing while still holding %s%s", ", ".join(some), more)
    for hold in holds:
        for lease in hold.live:
            lease._close(error)
        hold.ownership.give_back(hold)


class ClientLife:
    """Decides whether a client may be used now and here, and ends it.

    Attributes:
        closed: It refuses every call.
        loop: The event loop of the last use; never asked for anything once it was closed.
    """

    _context: Context
    _connections: Connections

    def __init__(self) -> None:
        #: Context variables of the background: no caller's, but those of where the client is made.
        self._made_in = copy_context()
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.closed: bool = False
        self.loop: object = None
        self._forked = False
        self._root: Task | None = None
        self._why_closed = "the client is closed"
        #: It ended with its event loop, and not by `close`: another loop may go on with it.
        self._ended_with_loop = False
        #: What has begun when an event loop ended every task.
        self._ending: Future[None] | None = None
        #: The background task has ended with the loop, but blocks of generators are not left yet.
        self._outlives = False
        self._closing: Future[None] | None = None
        self._disconnected = False

    def attach(self, context: Context, connections: Connections) -> None:
        """Set the parts of the client."""
        self._context = context
        self._connections = connections
        _lives.add(self)

    def note_fork(self) -> None:
        """Note that this is the child of a fork."""
        self._forked = True
        # Its next use calls `check`.
        self._context.executor.loop = None

    @property
    def holding(self) -> bool:
        """Whether anything is held."""
        return len(self._context.watchdog.holds) > 0

    # Use.

    def check(self) -> None:
        """Raise unless the client may be used now and here; it may have to move here first."""
        if self.closed and not self._ended_with_loop:
            raise ClientClosedError(self._why_closed)
        if self._forked:
            self._refuse_after_fork()
        loop = here()
        if self._forked:
            self._reset(new_id=True)
        elif self.loop is loop:
            if self.closed:
                raise ClientClosedError(self._why_closed)
            return
        elif self.loop is not None:
            self._refuse_to_move()
            self._reset(new_id=False)
        self.loop = loop
        self._context.executor.use(loop)

    def begin(self) -> None:
        """Start the background task before the first request, and again if it has failed."""
        self.check()
        root = self._root
        if root is None or (root.done() and not root.cancelling()):
            name = f"redisson_py {self._context.owners.client_id[:8]}"
            root = self._root = start_task(self._run(), name, self._made_in)
            hush(root)
            root.add_done_callback(self._root_done)

    def _refuse_after_fork(self) -> None:
        """Raise if connections of the parent are open: a child must not touch them."""
        root = self._root
        lives = root is not None and (not root.done() or self._outlives)
        if lives and self._connections.connected:
            raise ClientClosedError(
                "the client was connected before a fork; create a client in the child, or connect"
                " only there"
            )

    def _refuse_to_move(self) -> None:
        """Raise if the last event loop may go on, or has left what cannot be moved to another."""
        if not is_closed(self.loop):
            raise ClientClosedError(
                "the client belongs to another event loop, which is not closed; create a client for"
                " each event loop"
            )
        held = next((hold for hold in self._context.watchdog.holds if hold.valid), None)
        if held is not None:
            raise ClientClosedError(
                f"the client's event loop was closed while it held {held.ownership!r}, and a lease"
                " cannot move to another event loop; create a client for each"
            )
        if not self._ended_with_loop and self._context.waits:
            raise ClientClosedError(
                "the client's event loop was closed while tasks waited, and they cannot move to"
                " another event loop; create a client for each"
            )

    def _reset(self, *, new_id: bool) -> None:
        """Reset everything for another event loop or process; nothing is held or waits."""
        context = self._context
        if not self._forked:
            self._leave_behind()
        if new_id:
            context.owners.renew()
        context.bus.reset()
        before = self._connections.reset()
        if self._forked:
            _of_parents.append((self._root, before, self.loop))
        context.watchdog.reset()
        context.reset()
        context.executor.loop = None
        self._begin_anew()

    def _leave_behind(self) -> None:
        """End what is left by an event loop that was closed before its tasks ended."""
        self.closed, self._ended_with_loop = True, False
        self._context.executor.loop = None
        self._lose_everything()
        if is_closed(self.loop):
            self._connections.leave_behind()
            if self._root is not None and not self._root.done():
                discard(self._root)

    def _lose_everything(self) -> None:
        watchdog = self._context.watchdog
        for hold in list(watchdog.holds):
            # A task that waits for the loss may belong to a closed loop.
            with suppress(RuntimeError):
                watchdog.lose(hold, "expired")

    # Closing, and opening again.

    async def close(self) -> None:
        """Let everything go, refuse all calls, and disconnect. Idempotent.

        A second call returns when the first has finished. If cancelled, the rest happens in the
        background.
        """
        if self._forked:
            self._refuse_after_fork()
        elif self._closing is not None and not self._closing.done() and self.loop is here():
            await wait_for_all([self._closing])
        self._ended_with_loop = False
        if self.closed or self._forked:
            self.closed = True
            return
        if self._root is None:
            self._refuse()
            return
        if is_closed(self.loop):
            # Nothing can release what it left there: the leases run out.
            self._leave_behind()
            return
        self.check()
        error = ClientClosedError("the client was closed")
        let_go(self._context, error, list(self._context.watchdog.holds))
        self._refuse()
        closing = self._closing = new_future()
        self._disconnect_in_background(closing)
        await wait_for_all([closing])
        closing.result()

    def _refuse(self) -> None:
        """Refuse all calls from now on, and wake all that wait, which find that out."""
        self.closed, self._outlives = True, False
        self._context.executor.loop = None
        self._context.watchdog.close()
        self._context.bus.close()
        self._context.bus.table.wake_all()

    def _disconnect_in_background(self, closing: Future[None]) -> None:
        """Start to disconnect, and once more if an event loop that ends has cancelled that."""

        def again(_: Task) -> None:
            if not closing.done():
                self._disconnect_in_background(closing)

        task = start_task(self._disconnect(closing), "redisson_py aclose", self._made_in)
        task.add_done_callback(again)

    async def _disconnect(self, closing: Future[None]) -> None:
        try:
            await self._connections.finish(self._context.options.reply_timeout)
            await self._connections.close()
        except Exception as error:
            fail(closing, error)
        self._disconnected = True
        # One that was cancelled by the end of the event loop waits for this.
        if self._root is not None and not self._root.cancelling():
            await stop_task(self._root)
        wake(closing)

    async def open(self) -> None:
        """Begin again after an end, as another client; raise unless it may be used here."""
        if self.closed:
            await self._reopen()
        self.check()

    async def _reopen(self) -> None:
        if self._forked:
            self._refuse_after_fork()
        elif self._closing is not None and not self._closing.done():
            if self.loop is here():
                await wait_for_all([self._closing])
            elif not is_closed(self.loop):
                raise ClientClosedError("the client is being closed in another event loop")
        for _ in range(_LAST_ITERATIONS):
            # The waiters that `close` failed have not left yet.
            if not self._context.waits:
                break
            await sleep(0)
        # Another task may have been faster.
        if self.closed:
            self._reset(new_id=True)

    # The end of an event loop, which cancels every task.

    async def _run(self) -> None:
        try:
            await self._connections.run()
        except Cancelled:
            await self._until_disconnected()
            raise

    async def _until_disconnected(self) -> None:
        """Keep an event loop that ends from ending before what `close` has begun."""
        if self._closing is not None and not self._disconnected:
            await wait_for_all([self._closing])

    async def end_with_loop(self) -> bool:
        """Let go of all that tasks do not need any more; return whether blocks rely on us still.

        Called in a task that keeps a connection, when it was cancelled; the connection must stay
        until this returns. An event loop that ends cancels all of them at once: the first one does
        the work.
        """
        if self._root is None or not self._root.cancelling():
            # Another task of the background has failed.
            return False
        if self._ending is not None:
            await wait_for_all([self._ending])
            return self._outlives
        ending = self._ending = new_future()
        try:
            await self._leave_loop()
        finally:
            wake(ending)
        return self._outlives

    async def _leave_loop(self) -> None:
        """Keep holds while their tasks clean up under their protection, then release them.

        After these tasks have ended, holds that can no longer be released are released here. What
        the block of an async generator holds is left to the generator.
        """
        context = self._context
        # The other tasks that were cancelled undo their requests in this iteration of the loop.
        await sleep(0)
        while not self.closed:
            tasks = {hold.task() for hold in context.watchdog.holds}
            running = [task for task in tasks if task is not None and not task.done()]
            if not running:
                break
            await wait_for_all(running)
        if self.closed:
            await self._until_disconnected()
            return
        holds = list(context.watchdog.holds)
        in_blocks = {hold for hold in holds if hold.left_to_block}
        left = [hold for hold in holds if hold not in in_blocks]
        let_go(context, ClientClosedError("the event loop was shut down"), left)
        self._outlives = bool(in_blocks)
        # A server whose answers find the connection closed reads no more from it.
        await self._connections.finish(context.options.reply_timeout)

    def _root_done(self, root: Task) -> None:
        if not root.cancelled():
            # The connections have logged it. The next use starts the task again.
            root.exception()
        if root is self._root and root.cancelling() and not (self.closed or self._outlives):
            self._end()

    def outlived(self) -> None:
        """Note that nothing is left of what has outlived the background task."""
        if self._outlives:
            self._end()

    def _end(self) -> None:
        """The background task has ended with its event loop, and nothing is needed any more."""
        self._ended_with_loop, self._why_closed = True, ENDED_WITH_LOOP
        self._refuse()
        self._lose_everything()
        self._context.registry.close(ClientClosedError(ENDED_WITH_LOOP))
        self._connections.leave_behind()
