"""Carries requests to a store: in order for each owner, and again after a failure.

A store has several connections, so requests overtake each other. What must not: an undo its own
request, a new lease a renewal that is under way. So the requests of one owner form a queue, and
each is sent when the one before it was answered or given up. A store never sees two requests of one
owner at once.

Invariants: a queue with calls has a task that works on it. A queue without is dropped when nothing
of its owner can be left in the store.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from redisson_py import _answers
from redisson_py._answers import LOST, Answer
from redisson_py._engine.client_life import ClientLife
from redisson_py._loop import (
    Cancelled,
    Future,
    current_task,
    fail,
    monotonic,
    new_future,
    sleep,
    wait_for_all,
    wake,
)
from redisson_py._options import SHORTEST_WAIT_SECONDS
from redisson_py._outage import Outages
from redisson_py._retry import pause_before
from redisson_py._stores.contract import Done, Granted, Kind, OtherNumber, Renewal, Store
from redisson_py._stores.reaching import Reaching
from redisson_py._stores.requests import (
    Ask,
    Enter,
    ForceRelease,
    GiveBack,
    LeaveTaken,
    Look,
    Owned,
    Renew,
    SetLease,
    Special,
    StoreCall,
    StoreRefusedError,
)
from redisson_py._stores.tasks import Tasks
from redisson_py._time import now
from redisson_py.errors import BackendError, ConnectionLostError

log = logging.getLogger("redisson_py")

#: An answer "busy" counts again for as long as this, in seconds, unless the store rang meanwhile:
#: the waiting loop asks twice, as some servers hear of a waiter only with its second request.
_STILL_BUSY_SECONDS = 0.05

_SLEEP_SECONDS = 3600.0


class OwnerQueue:
    """The requests of one owner, and what is known of it.

    Attributes:
        name: The name that it asks for.
        kind: What it asks for.
        calls: Those that wait, in order.
        working: A task sends them.
        token: The first fencing token of its hold; 0: it had none yet.
        kept: The store may have something of it: a hold, or a waiter.
        unsure: A request for a hold had no answer.
        renewing: The renewal under way that its hold is part of.
        rings: How often the store has rung for its name.
        busy: The last answer, if that was "busy", and the loop time at which it came.
    """

    __slots__ = (
        *("busy", "calls", "kept", "kind", "name", "renewing", "rings", "token", "unsure"),
        "working",
    )

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.kind: Kind = "lock"
        self.calls: deque[StoreCall] = deque()
        self.working: bool = False
        self.token: int = 0
        self.kept: bool = False
        self.unsure: bool = False
        self.rings: int = 0
        self.renewing: Future[Any] | None = None
        self.busy: tuple[_answers.Busy, float] | None = None


class Carrier:
    """Carries the requests of one client to its store.

    Args:
        store: The store.
        life: The client's, which learns of the end of the event loop.
        command_timeout: Seconds to wait for it while it does not answer.
        wake: Called with a name that may be free, and the owner that waits for it, or None for all;
            without a name all that wait must ask again, and all holds are looked after.
        outages: Where to report them; None: nowhere.
        silence: Seconds without an answer that are an outage.

    Attributes:
        queues: The queues, by owner.
        time: The clock of the event loop.
        requests: How often the store was asked.
        starts: How often it was started.
        ready: It is started, and has answered the last request.
        heard_at: When it last answered, in loop time.
        tasks: What is under way.
    """

    def __init__(
        self,
        store: Store,
        life: ClientLife,
        command_timeout: float,
        wake: Callable[[str | None, str | None], None],
        outages: Outages | None = None,
        silence: float = 5.0,
    ) -> None:
        self.store: Store = store
        self._life = life
        self.command_timeout: float = command_timeout
        self.queues: dict[str, OwnerQueue] = {}
        self.time: Callable[[], float] = monotonic
        self.requests: int = 0
        self.starts: int = 0
        self.ready: bool = False
        self.heard_at: float = 0.0
        self._wake = wake
        self._closing = False
        self._started = False
        self._starting: Future[None] | None = None
        self.tasks: Tasks = Tasks(f"redisson_py {store.title}")
        self._reaching = Reaching(store, outages, min(silence, command_timeout))

    def send(self, call: StoreCall) -> None:
        """Carry a call out in its turn; its future gets the answer."""
        request = call.request
        if not isinstance(request, Owned):
            self.tasks.start(partial(self._carry, call, None))
            return
        queue = self.queues.get(request.owner)
        if queue is None:
            name = request.wish.name if isinstance(request, Ask) else request.name
            queue = self.queues[request.owner] = OwnerQueue(name)
            if isinstance(request, Ask):
                queue.kind = request.wish.kind
        queue.calls.append(call)
        if not queue.working:
            queue.working = True
            self.tasks.start(partial(self._work, request.owner, queue))

    def no_answer(self, *, maybe_held: bool) -> ConnectionLostError:
        """Return the error of a caller whose deadline passed."""
        return self.store.last_failure.no_answer(maybe_held=maybe_held)

    def ring(self, name: str, owner: str | None = None) -> None:
        """Note that the store says that a name may be free, for one owner or for all."""
        self._rang(name, owner)

    def ring_all(self) -> None:
        """Note that something may have been missed: a connection or a session is new."""
        self._rang(None)

    def _rang(self, name: str | None, owner: str | None = None) -> None:
        queues = self.queues.values() if owner is None else filter(None, [self.queues.get(owner)])
        for queue in queues:
            if name is None or queue.name == name:
                queue.busy = None
                queue.rings += 1
        if not self._closing:
            self._wake(name, owner)

    async def _work(self, owner: str, queue: OwnerQueue) -> None:
        """Send the calls of an owner, one after the other."""
        cut_short = False
        try:
            while queue.calls:
                call = queue.calls.popleft()
                await self._carry(call, queue)
                if isinstance(call.request, GiveBack | LeaveTaken):
                    # Given back, or its lease is over.
                    queue.kept = queue.unsure = False
        except Cancelled:
            # The event loop ends and has cancelled every task; blocks that clean up rely on us.
            cut_short = not self._closing and bool(queue.calls)
            raise
        finally:
            queue.working = cut_short
            if cut_short:
                self.tasks.start(partial(self._work, owner, queue))
            elif not (queue.kept or queue.unsure):
                self.queues.pop(owner, None)

    async def _carry(self, call: StoreCall, queue: OwnerQueue | None) -> None:
        """Carry out one call, and again until it is answered or given up."""
        attempt = 0
        while call.wanted:
            self._reaching.begin(call)
            try:
                await self._start()
                await self._once(call, queue)
            except ConnectionLostError as error:
                self._unheard()
                left = call.until - self.time()
                if call.fails_fast or left <= 0 or self._closing:
                    call.fail(error)
                    return
                attempt += 1
                await sleep(min(pause_before(attempt), left))
            except BackendError as error:
                call.fail(StoreRefusedError(error))
            except BaseException as error:
                self._is_unsure(call, queue, sent=call.sends > 0)
                if _ends_us(error):
                    if self._closing:
                        call.fail(self.no_answer(maybe_held=call.sends > 0))
                        if not call.future.cancelled():
                            # Perhaps nobody waits for it, and asyncio must not say so.
                            call.future.exception()
                    elif queue is not None:
                        queue.calls.appendleft(call)
                    else:
                        self.tasks.start(partial(self._carry, call, None))
                    raise
                # A defect of the driver: never a request that nobody answers, or a lost undo.
                log.exception("a request to %s failed", self.store.title)
                left = call.until - self.time()
                if not call.must or left <= 0 or self._closing:
                    call.fail(StoreRefusedError(self._unexpected(error)))
                    return
                attempt += 1
                await sleep(min(pause_before(attempt), left))

    def _unexpected(self, error: BaseException) -> BackendError:
        """Return the error for the caller from one that the store should not have raised."""
        wrapped = BackendError(f"{self.store.title} at {self.store.where} failed: {error!r}")
        wrapped.__cause__ = error
        return wrapped

    async def _once(self, call: StoreCall, queue: OwnerQueue | None) -> None:
        """Ask the store once."""
        request = call.request
        if queue is not None and isinstance(request, Ask):
            if queue.busy is not None and self.time() - queue.busy[1] <= _STILL_BUSY_SECONDS:
                call.succeed(queue.busy[0])
                return
        elif queue is not None and queue.renewing is not None:
            # A renewal that arrives later must not undo a shorter lease.
            await wait_for_all([queue.renewing])
            queue.renewing = None
        gives_back = isinstance(request, GiveBack | LeaveTaken)
        if gives_back and queue is not None and not (queue.kept or queue.unsure):
            # The store has nothing of its owner. It was not asked, so nothing was heard of it.
            call.succeed(None)
            return
        # The store gives up no later than the caller; what must arrive is sent again.
        left = (call.until if call.must else call.deadline) - self.time()
        deadline = now() + max(SHORTEST_WAIT_SECONDS, min(left, self.command_timeout))
        if not call.wanted:
            # Its caller left while the store was started; no undo follows what was never sent.
            return
        call.sends += 1
        self.requests += 1
        try:
            reply = await self._ask(call, queue, deadline)
        except ConnectionLostError as error:
            self._is_unsure(call, queue, sent=error.maybe_held)
            raise
        except BackendError:
            self._heard()
            raise
        self._heard()
        call.succeed(reply)

    def _is_unsure(self, call: StoreCall, queue: OwnerQueue | None, *, sent: bool) -> None:
        """Note that a call had no answer; if it was sent, it may still be carried out."""
        call.uncertain = call.uncertain or sent
        if queue is not None and sent and isinstance(call.request, Ask):
            queue.unsure = True

    def _unheard(self) -> None:
        """Note that a request had no answer; if it is the first, others ask, and fail in time."""
        self._reaching.unheard()
        was_ready, self.ready = self.ready, False
        if was_ready:
            # A waiter that sleeps would notice the outage only when it asks again.
            self._rang(None)

    def _heard(self) -> None:
        self.heard_at = self.time()
        self.ready = True
        self._reaching.heard()

    async def _ask(self, call: StoreCall, queue: OwnerQueue | None, deadline: float) -> Any:
        """Make one request of the store; return the answer as the engine takes it."""
        store, request, sent_at = self.store, call.request, now()
        if isinstance(request, Special):
            return await request.ask(deadline)
        if queue is None:
            match request:
                case Renew(batch):
                    found = await store.renew(batch, deadline)
                    # A store may keep a hold for less than the lease that was asked for.
                    kept = zip(found, batch, strict=True)
                    call.counts_from = min(
                        (until - each.lease for until, each in kept if until is not None),
                        default=None,
                    )
                    return [int(each is not None) for each in found]
                case Look(name, kind):
                    return await store.look(name, deadline, kind)
                case ForceRelease(name, kind):
                    return await store.force_release(name, deadline, kind)
                case _:
                    return await store.ping(deadline)
        match request:
            case Ask():
                return await self._ask_for_hold(call, request, queue, deadline)
            case Enter(name, owner, lease):
                entered = Renewal(name, owner, queue.token, lease, kind=queue.kind)
                (until,) = await store.renew([entered], deadline)
                if until is None:
                    return LOST
                return _answers.Granted(sent_at=min(sent_at, until - lease))
            case SetLease(name, owner, lease):
                changed = Renewal(name, owner, queue.token, lease, exact=True, kind=queue.kind)
                (until,) = await store.renew([changed], deadline)
                call.counts_from = None if until is None else until - lease
                return None if until is None else 1
            case LeaveTaken(name, owner, until) if until > sent_at:
                # Computed at each attempt: a later one must not end it later.
                shortened = Renewal(
                    name, owner, queue.token, until - sent_at, exact=True, kind=queue.kind
                )
                (left,) = await store.renew([shortened], deadline)
                return None if left is None else 1
            case GiveBack(name, owner) | LeaveTaken(name, owner):
                held = await store.give_back(name, owner, queue.unsure, deadline, queue.kind)
                call.uncertain = call.uncertain or held is None
                return held or None
            case _:
                raise AssertionError(request)

    async def _ask_for_hold(
        self, call: StoreCall, request: Ask, queue: OwnerQueue, deadline: float
    ) -> Answer:
        wish, sent_at, rings = request.wish, now(), queue.rings
        kept, queue.kept = queue.kept, queue.kept or wish.waits
        queue.busy = None
        try:
            answer = await self.store.ask(wish, deadline)
        except BackendError as error:
            # What was refused or never sent needs no undo: in a long outage these would be many.
            queue.kept = kept or (isinstance(error, ConnectionLostError) and error.maybe_held)
            raise
        if isinstance(answer, Granted):
            queue.kept, queue.token = True, answer.token
            # What lasts longer than was asked for is not relied on.
            counts_from = min(answer.until - wish.lease, sent_at)
            token = answer.token if wish.tokens else None
            return _answers.Granted(token, min(answer.tokens, wish.tokens), counts_from)
        if isinstance(answer, Done):
            queue.kept = kept
            return _answers.Settled(answer.token, answer.result)
        if isinstance(answer, OtherNumber):
            queue.kept = kept
            return _answers.Disagrees(answer.permits)
        if answer.unsure:
            self._is_unsure(call, queue, sent=True)
        busy = _answers.Busy(answer.retry_in, queued=wish.waits, absent=answer.absent)
        if wish.waits and queue.rings == rings:
            queue.busy = busy, self.time()
        return busy

    # From the first use to the end.

    async def _start(self) -> None:
        """Return when the store is started.

        Raises:
            BackendError: It could not be started.
        """
        if self._started:
            return
        if self._closing:
            raise self.no_answer(maybe_held=False)
        starting = self._starting
        if starting is None:
            starting = self._starting = new_future()
            self.tasks.start(partial(self._start_store, starting))
        await wait_for_all([starting])
        starting.result()

    async def _start_store(self, started: Future[None]) -> None:
        error: BaseException = self.no_answer(maybe_held=False)
        self._reaching.begin(None)
        try:
            await self.store.start(self, now() + self.command_timeout)
            self._started = self.ready = True
            self.starts += 1
            wake(started)
        except Exception as problem:
            error = problem
        finally:
            self._starting = None
            if not started.done():
                fail(started, error)
                # Perhaps nobody waits for it any more.
                started.exception()

    # Its life: see `ClientLife`.

    @property
    def connected(self) -> bool:
        """Whether the store is started, or anything is under way."""
        return self._started or self._starting is not None or len(self.tasks) > 0

    async def run(self) -> None:
        """Stay until the event loop ends every task; then disconnect, after blocks were left."""
        try:
            while True:
                # Its timer has the loop refer to this task, and so to the client.
                await sleep(_SLEEP_SECONDS)
        except GeneratorExit:
            # The event loop was closed, and this coroutine was collected.
            self.leave_behind()
            raise
        except Cancelled:
            if await self._life.end_with_loop():
                self.tasks.when_idle = self._when_idle
            else:
                await self.close()
            raise

    def _when_idle(self) -> None:
        if not self._life.holding:
            self._life.outlived()

    async def finish(self, seconds: float) -> None:
        """Wait until everything under way was answered, for at most some seconds."""
        await self.tasks.finish(seconds, self.time)

    async def close(self) -> None:
        """Give up what is under way, and disconnect."""
        self._closing = True
        await self.tasks.stop()
        if self._started:
            self._started = self.ready = False
            await self.store.stop()

    def leave_behind(self) -> None:
        """Give up everything at once: the event loop was closed, or ends now."""
        self._closing = True
        if self._started or self._starting is not None:
            self._started = self.ready = False
            self.store.leave_behind()
        self.tasks.leave_behind()

    def reset(self) -> None:
        """Forget everything, for another event loop or another life of the client."""
        self.leave_behind()
        self.queues.clear()
        self.tasks.reset()
        self._closing = self._started = self.ready = False
        self._starting = None
        self.heard_at = 0.0


def _ends_us(error: BaseException) -> bool:
    """Return whether the event loop ends every task, or the client was closed."""
    return not isinstance(error, Exception) and (
        not isinstance(error, Cancelled) or current_task().cancelling() > 0
    )
