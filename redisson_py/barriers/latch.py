"""CountDownLatch: a count that tasks bring to zero, and a wait until it is zero."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any, final

from redisson_py._answers import Busy, Wakes, wakes_everybody
from redisson_py._arguments import explained
from redisson_py._engine import waiting
from redisson_py._engine.local_queue import LEAVE, LocalQueue, Waiter
from redisson_py._engine.server import Way
from redisson_py._engine.wait import Wait
from redisson_py._keys import Name, latch_channel
from redisson_py._loop import call_later, current_task, fail, wake
from redisson_py._owner import TaskRef, reference
from redisson_py._process_bound import ProcessBound
from redisson_py._redis.commands import latch as commands
from redisson_py._redis.commands.latch import LatchCommands, LatchState
from redisson_py._redis.context import RedisContext
from redisson_py._redis.inspecting import texts
from redisson_py._redis.numbers import check_whole
from redisson_py._redis.receipts import Receipts, receipt_key, receipt_time
from redisson_py._statistics import PrimitiveStatistics
from redisson_py._time import (
    Duration,
    check_lease_time,
    check_timeout,
    milliseconds,
    within,
)
from redisson_py.errors import AcquireTimeoutError, ConnectionLostError, RedissonError

log: logging.Logger = logging.getLogger("redisson_py")


@dataclass(frozen=True, slots=True)
class LatchSnapshot:
    """A latch in Redis, a moment ago.

    Attributes:
        count: The count that is left; 0 means open.
        waiters: Tasks of this client that wait for it.
        keys: The keys it uses.
        ends_in: Seconds until it is unset; None: it was set without an end.
    """

    count: int
    waiters: int
    keys: tuple[str, ...]
    ends_in: float | None = None


@final
class CountDownLatch(ProcessBound):
    """A count in Redis, and a wait until it has come to zero, across processes and hosts.

    A latch that was never set is open: its count is 0, and `wait()` returns at once. So set it to
    the number of jobs before anybody waits: `client.get_latch("job", 3)`, or `try_set_count(3)`.
    Each job calls `count_down()` when it is done, and `wait()` returns after the third.

    Use it instead of `CyclicBarrier` where the tasks that wait are not those that arrive, or where
    one of them may arrive more than once. It opens once: to use it again set a new count.

    With `count`, the first call on this object sets the latch if it is unset. If more is left than
    that, another count was set, and the client logs one warning. If less is left, the latch may
    have been counted down. A latch that was counted down to zero is unset too, so an object first
    used after the last count_down must not have a `count`, or it starts another round. Where jobs
    may be delivered twice, let one coordinator call `try_set_count` with a new name for each run,
    and give the jobs no count. Each delivery counts down: if it must not, give each job its own
    latch with the count 1. docs/safety.md has the code.

    Promised: each call of count_down counts once, whatever happens to the connection; waiters are
    released when the count is zero, even if the message is lost; 10,000 waiting tasks share one
    subscription, and one request releases them all.

    Not promised: that a waiter sees a zero if somebody sets a new count at once (it then waits for
    that one too); that the count comes to zero if a task that should count down dies. A latch that
    nothing will bring to zero stays in Redis: delete it, or set it with `expire_in`, after which
    Redis removes it. If Redis loses its data the latch is unset, that is open, and waiters are
    released.

    A cancelled wait leaves nothing behind; any other cancelled call is carried out. In a Redis
    Cluster a name with braces is refused. Protocol: Redisson's RCountDownLatch, a string that
    counts down and a message at zero.
    """

    kind = "latch"

    def __init__(self, context: RedisContext, name: Name, count: int | None) -> None:
        self._context = context
        self._name = name
        self._key = context.options.names.key(name, latch_channel)
        self._waiters_key = self.kind.encode() + b":" + self._key
        self._started_by = ""
        self._commands = LatchCommands(self._key, b"", latch_channel(self._key))
        self._first_count = 0 if count is None else check_whole(count, "count")
        self._queue: LocalQueue[Any] = context.registry.queues[self.kind].get(self._key, LocalQueue)
        self._receipts = Receipts(context, self._key)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r}>"

    @property
    def name(self) -> Name:
        """The resource name, as given."""
        return self._name

    @property
    def key(self) -> bytes:
        """The key in Redis."""
        return self._key

    @property
    def channel(self) -> bytes:
        """The channel on which zero and new counts are announced."""
        return self._commands.channel

    @explained
    async def wait(self, timeout: Duration | None = None) -> None:
        """Wait until the count is zero; return at once if the latch was never set.

        At zero it returns after one round trip; the first time, a DEBUG record says that the latch
        was open. All waiters of this client share one subscription and one request after each
        message. A cancelled wait leaves nothing behind.

        It also returns when the latch is deleted, or its `expire_in` is over: then there is no
        latch, which is open. So a return says that nothing is left to wait for, not that every job
        is done; where that matters, give `wait` a timeout below `expire_in`, or let each job record
        its result.

        Args:
            timeout: Seconds to wait, including connecting and retries; 0 asks once. Default: waits
                forever.

        Raises:
            AcquireTimeoutError: The count was not zero within `timeout` seconds.
            ConnectionLostError: Redis did not answer.
            ScriptError: Redis refused: the key is not a count, or no permission.
            ClientClosedError: The client was closed.
            ValueError: The timeout is negative or NaN; nothing was sent.
        """
        seconds = check_timeout(timeout)
        context = self._context
        context.check()
        once = seconds == 0
        deadline = None if once else waiting.deadline_in(seconds)
        with Wait(context, self.kind, self._name) as wait:
            if once or self._first_count:
                # Send our own request, because another waiter's would not set our count.
                with context.waiting(self._waiters_key):
                    request = _OpenRequest(self, fails_fast=once)
                    if await waiting.acquire(request, context.bus, deadline, once=True):
                        return
            if once or not await self._wait_in_queue(deadline, wait):
                wait.timed_out(once)
                raise AcquireTimeoutError(
                    f"{self.kind} {self._name!r} was not open{within(seconds)}"
                )

    async def _wait_in_queue(self, deadline: float | None, wait: Wait) -> bool:
        """Wait until it is open, or time is up; the first in the local queue asks for all."""
        context = self._context
        queue = self._queue
        if not queue.go_first():
            waiter = _Waiter(reference(current_task()), passable=False)
            wait.start()
            if not await queue.wait(queue.join(waiter), deadline, self._way.probe):
                if waiter.let_go:
                    return True
                if deadline is None or not (
                    queue.is_busy(waiter) and await self._way.answered_at(deadline)
                ):
                    raise self._no_answer()
                return False
        try:
            request = _OpenRequest(self, queue)
            return bool(await waiting.acquire(request, context.bus, deadline, wait=wait))
        finally:
            queue.asked()

    @property
    def _way(self) -> Way:
        return self._context.executor.way_to(self._key)

    def _no_answer(self) -> ConnectionLostError:
        return self._way.no_answer(maybe_held=False)

    @explained
    async def try_set_count(self, n: int, expire_in: Duration | None = None) -> bool:
        """Set the count if the latch is unset; return whether this call set it.

        With `expire_in` an abandoned latch does not stay in Redis: it is unset after that time, by
        the server's clock, unless it came to zero or was deleted before. Then it is open, as after
        `delete()`: `wait()` returns, and `count_down()` does nothing. Waiters of this library know
        the moment from their last question and ask again then; Redisson's keep waiting, as after a
        deletion. Counting down does not move the end. A latch that is set keeps the end that it
        has, or none, whatever this call names. `count` of `get_latch` sets no end.

        A cancelled call is carried out.

        Args:
            n: The count, 1 or more.
            expire_in: Seconds until the latch is unset. Default: never.

        Raises:
            ConnectionLostError: Redis did not answer; the count may have been set.
            ScriptError: Redis refused: wrong type of key, or no permission.
            ClientClosedError: The client was closed.
            TypeError: `n` is not an int, or `expire_in` neither a number nor a timedelta.
            ValueError: `n` is below 1, or too large to be exact; `expire_in` is shorter than a
                millisecond, longer than ten years, or not finite. Nothing was sent.
        """
        count = check_whole(n)
        seconds = None if expire_in is None else check_lease_time(expire_in, "expire_in")
        expire_ms = 0 if seconds is None else milliseconds(seconds)
        reply = await self._receipts.run(self._commands.try_set_count(count, expire_ms))
        self._first_count = 0
        return commands.is_done(reply)

    async def count_down(self, n: int = 1) -> int:
        """Count down by `n`, never below zero; return what is left.

        The call that brings the count to zero releases all waiters. On an unset latch nothing
        happens. A cancelled call is carried out.

        Args:
            n: How much to subtract, 1 or more. Default: 1.

        Raises:
            ConnectionLostError: Redis did not answer; the call may have counted.
            ScriptError: Redis refused: the key is not a count, or no permission.
            ClientClosedError: The client was closed.
            TypeError: `n` is not an int.
            ValueError: `n` is below 1, or too large to be exact; nothing was sent.
        """
        change = self._starting.count_down(check_whole(n), self._first_count)
        reply = await self._receipts.run(change)
        left = commands.count_left(reply)
        # Where it is open now, it is not known what was left before.
        self._heard(left + n if left else 0)
        return left

    async def count(self) -> int:
        """Return the count that is left; 0 for an open or unset latch."""
        self._context.check()
        state = await self._look(self._first_count)
        self._heard(state.left)
        return state.left

    async def delete(self) -> bool:
        """Unset the latch and release its waiters; return whether it was set.

        Waiters of this library ask again and find zero; those of Redisson keep waiting. A cancelled
        call is carried out. Errors are those of `try_set_count`.
        """
        reply = await self._receipts.run(self._commands.delete())
        return commands.is_done(reply)

    async def inspect(self) -> LatchSnapshot:
        """Return a snapshot of the latch, for people. Decide nothing from it."""
        self._context.check()
        left, ends_in = await self._look(0)
        return LatchSnapshot(left, self.statistics().waiters, texts([self._key]), ends_in)

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for this name. No I/O. Decide nothing from them."""
        waiters = self._context.waiters[self._waiters_key] + self._queue.waiting
        return PrimitiveStatistics(waiters, held_leases=0)

    def _heard(self, left: int) -> None:
        """Take the answer to the first call: it has set the count, or warns that there was another.

        A latch that has been counted down has less: only a greater number is surely another one.
        """
        wanted, self._first_count = self._first_count, 0
        if wanted and left > wanted and self._context.is_news(self._waiters_key):
            log.warning(
                "latch %r has a count of %d, not %d: a latch that is set keeps its count. To change"
                " it, call delete() and try_set_count(%d)",
                *(self._name, left, wanted, wanted),
            )

    def _heard_open(self) -> None:
        """Say, once for a name, that the first look of a wait found the latch open."""
        if log.isEnabledFor(logging.DEBUG) and self._context.is_news(b"open " + self._waiters_key):
            log.debug(
                "latch %r is open, so wait() returned at once: nobody has set it, or it was counted"
                " down to zero",
                self._name,
            )

    @property
    def _starting(self) -> LatchCommands:
        """The commands to use; they set the first count once for this object and client."""
        context = self._context
        context.check()
        prefix = context.owners.prefix
        if self._started_by is not prefix:
            # Each child of a fork, and a client that was opened again, sets it for itself.
            self._started_by = prefix
            start = receipt_key(self._key, context.owners.new_owner())
            self._commands = replace(self._commands, start=start)
        return self._commands

    async def _look(
        self, first_count: int, deadline: float | None = None, fails_fast: bool = False
    ) -> LatchState:
        """Return what is there, after setting an unset latch to `first_count` if that is not 0."""
        context = self._context
        args = self._starting.count(first_count, milliseconds(receipt_time(deadline)))
        call = context.executor.start(commands.COUNT, self._key, args, deadline)
        call.fails_fast = fails_fast
        return commands.state(await context.executor.answer(call))


class _Waiter(Waiter):
    """A waiter in the local queue of one latch.

    Attributes:
        let_go: The latch was open after this waiter joined.
    """

    __slots__ = ("let_go",)

    def __init__(self, task: TaskRef, passable: bool) -> None:
        super().__init__(task, passable)
        self.let_go = False


class _OpenRequest:
    """Asks whether the latch is open, for all waiters that are in the local queue when it is sent.

    Not for later ones: the answer may be older than their wait, and the count may
    have been set in between.
    """

    head_start = None
    listens_first = False

    def __init__(
        self,
        latch: CountDownLatch,
        queue: LocalQueue[Any] | None = None,
        *,
        fails_fast: bool = False,
    ) -> None:
        self._latch = latch
        self._queue = queue
        self._fails_fast = fails_fast
        self.heard_busy_at = 0.0 if queue is None else queue.busy_at

    @property
    def channel(self) -> bytes:
        """The channel on which zero and new counts are announced."""
        return self._latch.channel

    @property
    def wakes(self) -> Wakes:
        """Every message wakes all: zero, and a new count that followed a deletion."""
        return wakes_everybody

    async def run(self, deadline: float | None) -> bool | Busy:
        """Ask once."""
        latch = self._latch
        waiters = () if self._queue is None else self._queue.waiters
        others = [waiter for waiter in waiters if isinstance(waiter, _Waiter)]
        patience = None
        if deadline is not None:
            patience = call_later(latch._context.executor.command_timeout, self._fail_together)
        try:
            left, ends_in = await latch._look(latch._first_count, deadline, self._fails_fast)
        except RedissonError as error:
            if deadline is None or not isinstance(error, ConnectionLostError):
                self._share(error, others)
            raise
        finally:
            if patience is not None:
                patience.cancel()
        latch._heard(left)
        if left > 0:
            if self._queue is not None:
                self._queue.heard_busy()
            # Nobody announces its end.
            return Busy(retry_in=ends_in)
        if not self.heard_busy_at:
            latch._heard_open()
        for waiter in others:
            waiter.let_go = wake(waiter.future, LEAVE)
        return True

    def _share(self, error: RedissonError, others: list[_Waiter]) -> None:
        """Raise in the other waiters an error that their own request would get too."""
        if not isinstance(error, ConnectionLostError):
            for waiter in others:
                fail(waiter.future, error)
        else:
            self._fail_together()

    def _fail_together(self) -> None:
        """Fail the waiters without a timeout: Redis did not answer for `command_timeout`."""
        if self._queue is not None:
            self._queue.fail_together(self._latch._no_answer)

    def undo(self) -> None:
        """Do nothing: the request changes nothing in Redis."""
