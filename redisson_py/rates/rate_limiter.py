"""RateLimiter: at most so many units in any interval, for all processes that share it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, final

from redisson_py._answers import wakes_everybody
from redisson_py._arguments import explained
from redisson_py._engine.awaiting import AsyncOnly
from redisson_py._engine.bus import Sleeper
from redisson_py._engine.decorating import Fill, decorate
from redisson_py._engine.server import Way
from redisson_py._engine.wait import Wait
from redisson_py._engine.waiting import SAFETY_POLL_SECONDS, deadline_in
from redisson_py._keys import Name
from redisson_py._loop import call_later, current_task, loop_time
from redisson_py._options import LONGEST_COMMAND_SECONDS, SHORTEST_WAIT_SECONDS
from redisson_py._owner import reference
from redisson_py._redis.commands import rate_limiter as commands
from redisson_py._redis.commands.rate_limiter import Limit, RateLimiterCommands, Ruling
from redisson_py._redis.context import RedisContext
from redisson_py._redis.inspecting import texts
from redisson_py._redis.numbers import check_whole
from redisson_py._redis.receipts import Receipts
from redisson_py._statistics import PrimitiveStatistics
from redisson_py._time import Duration, check_lease_time, check_timeout, milliseconds, within
from redisson_py.errors import (
    AcquireTimeoutError,
    ClientClosedError,
    ConnectionLostError,
    ScriptError,
)
from redisson_py.rates.queue import Applicant, RateQueue

P = ParamSpec("P")
R = TypeVar("R")

log: logging.Logger = logging.getLogger("redisson_py")


@dataclass(frozen=True, slots=True)
class Admission:
    """What a rate limiter says to a request; false if it refused.

    Attributes:
        allowed: The units were taken.
        retry_after: Seconds after which such a request may fit, if nobody else comes first; 0.0 if
            it was allowed. The value for the header `Retry-After`, rounded up.
        available: The units that were left when it answered.
    """

    allowed: bool
    retry_after: float
    available: int

    def __bool__(self) -> bool:
        return self.allowed


@dataclass(frozen=True, slots=True)
class RateLimit:
    """The rate of a limiter.

    Attributes:
        rate: Units in any interval.
        per: The interval in seconds.
        per_client: Each client has so many, instead of all together.
    """

    rate: int
    per: float
    per_client: bool


@dataclass(frozen=True, slots=True)
class RateLimiterSnapshot:
    """A rate limiter in Redis, a moment ago.

    Attributes:
        limit: Its rate; None: it has none.
        available: The units that are left, of this client if each has its own.
        retry_after: Seconds until one unit is left; 0.0 if there is one.
        waiters: Tasks of this client that wait for it.
        keys: The keys it uses, of this client if each has its own.
    """

    limit: RateLimit | None
    available: int
    retry_after: float
    waiters: int
    keys: tuple[str, ...]


@final
class RateLimiter(AsyncOnly):
    """At most `rate` units in any interval of `per` seconds, across processes and hosts.

    Use it for calls to a service that allows so many a second, and for requests of your own users
    (429, with `retry_after`). Use a `Semaphore` instead to limit how many run at one time: here
    nothing is given back, units come back `per` seconds after they were taken.

    With `rate`, each use sets the rate of a limiter that has none. One that has another rate keeps
    it, and the client logs one warning: `set_rate` changes it. With `per_client=True` each client
    has `rate` units of its own, instead of all together (Redisson's PER_CLIENT).

    Promised: not more than `rate` units in any interval of `per`, by the clock of the server and as
    it recorded them; first come, first served among the tasks of one client; each admission counts
    once, whatever happens to the connection; a cancelled `acquire` gives back what it was admitted,
    and its units are free at once.

    Not promised: an order among clients (whoever asks first when something fits); that calls reach
    a third party at that rate (a request may be slow on its way); the limit across `set_rate` or
    `delete`, after which what was admitted before does not count; the limit if Redis loses its
    data, also by a failover, or if its clock is set back or forth. Redisson's clients
    record the moment at which they asked, by their own clocks: beside them the limit is as exact as
    those clocks are equal and their requests fast.

    It costs one command for each admission, or fewer: a task that has to wait sleeps until the
    moment that the server named, and asks once; those of one client behind it do not ask. A
    message wakes it when the rate changes or units come back earlier. Redis keeps a record of each
    admission for `per` seconds, and the limiter until it is deleted; with the client's option
    `idle_lifetime` that long after its last use, or `per` if that is longer. Use it for limiters of
    which there are many, such as one for each user.

    Protocol: Redisson's RRateLimiter, which logs admissions in a sorted set (a sliding window log).
    """

    kind = "rate limiter"

    def __init__(
        self,
        context: RedisContext,
        name: Name,
        rate: int | None,
        per: Duration,
        per_client: bool,
    ) -> None:
        self._context = context
        self._name = name
        self._per_client = _check_per_client(per_client)
        self._first = None if rate is None else _limit(rate, per, per_client)
        if rate is None:
            check_lease_time(per, "per")
        key = context.options.names.key(name)
        self._key = key
        idle_ms = context.options.idle_ms
        self._commands = RateLimiterCommands(key, context.owners.client_id, idle_ms)
        self._queue: RateQueue = context.registry.queues[self.kind].get(key, RateQueue)
        self._receipts = Receipts(context, key)

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

    @explained
    async def acquire(self, n: int = 1, *, timeout: Duration | None = None) -> Admission:
        """Take `n` units; wait until they are free.

        A cancelled call takes nothing: what it was admitted meanwhile is given back.

        Args:
            n: How many units, all at once. Default: 1.
            timeout: Seconds to wait, including connecting and retries; 0 asks once. Default: the
                client's `acquire_timeout`, which waits forever unless you set it.

        Raises:
            AcquireTimeoutError: They were not free within `timeout` seconds.
            ConnectionLostError: Redis did not answer.
            ScriptError: The limiter has no rate; the key is not a rate limiter; no permission.
            ClientClosedError: The client was closed.
            TypeError: `n` is not an int.
            ValueError: `n` is below 1 or above the rate, or the timeout is negative or NaN.
        """
        if timeout is None:
            timeout = self._context.options.acquire_timeout
        admission = await self._admit(n, timeout)
        if not admission:
            raise AcquireTimeoutError(
                f"{self.kind} {self._name!r} admitted no {n} more{within(check_timeout(timeout))};"
                f" retry in {admission.retry_after:.3f} s"
            )
        return admission

    @explained
    async def try_acquire(self, n: int = 1, *, timeout: Duration | None = 0) -> Admission:
        """Take `n` units if they are free, or become so in time; say if not, and when to retry.

        It never overtakes: while tasks of this client wait, it is refused. Arguments and errors are
        those of `acquire`, but for `timeout`, which is 0 by default, and its error.
        """
        return await self._admit(n, timeout)

    async def __aenter__(self) -> Self:
        await self.acquire()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing: units come back by themselves."""

    @explained
    def __call__(
        self, func: Callable[P, Coroutine[Any, Any, R]]
    ) -> Callable[P, Coroutine[Any, Any, R]]:
        """Return `func` with a unit taken before every call.

        The fields of the name are filled from the arguments of each call, as for locks:
        `@client.get_rate_limiter("api:{user}", 10)`. Errors are those of `acquire`.

        Raises:
            TypeError: `func` is not an `async def`.
            ValueError: A field names no parameter, or the name is not a format string.
        """
        return decorate(self._names, func, self._filled)

    @property
    def _names(self) -> Sequence[Name]:
        return (self._name,)

    def _filled(self, fill: Fill) -> Self:
        name = fill(self._name)
        if name == self._name:
            return self
        first = self._first
        rate, per = (None, 1.0) if first is None else (first.rate, first.interval_ms / 1000)
        return type(self)(self._context, name, rate, per, self._per_client)

    async def try_set_rate(self, rate: int, per: Duration = 1.0) -> bool:
        """Set the rate if the limiter has none; return whether this call set it.

        A cancelled call is carried out.

        Args:
            rate: Units in each interval, 1 or more.
            per: The interval in seconds, at least a millisecond. Default: 1.

        Raises:
            ConnectionLostError: Redis did not answer; the rate may have been set.
            ScriptError: Redis refused: wrong type of key, or no permission.
            ClientClosedError: The client was closed.
            TypeError: `rate` is not an int, or `per` no number and no timedelta.
            ValueError: One of them is too small or too large; nothing was sent.
        """
        return await self._set(_limit(rate, per, self._per_client), replaces=False)

    async def set_rate(self, rate: int, per: Duration = 1.0) -> None:
        """Set the rate; what was taken before does not count any more.

        Those that wait ask again at once; Redisson's clients when they next wake. Arguments and
        errors are those of `try_set_rate`. A cancelled call is carried out.
        """
        limit = _limit(rate, per, self._per_client)
        await self._set(limit, replaces=True)
        if self._first is not None:
            self._first = limit

    async def _set(self, limit: Limit, *, replaces: bool) -> bool:
        reply = await self._receipts.run(self._commands.set(limit, replaces=replaces))
        return commands.is_done(reply)

    async def rate(self) -> RateLimit | None:
        """Return the rate that the server has; None if the limiter has none.

        Errors are those of `available`, but for a limiter without a rate.
        """
        limit = (await self._look()).limit
        return None if limit is None else _public(limit)

    async def available(self) -> int:
        """Return how many units are left now, of this client if each has its own.

        Raises:
            ConnectionLostError: Redis did not answer.
            ScriptError: The limiter has no rate; the key is not a rate limiter; no permission.
            ClientClosedError: The client was closed.
        """
        ruling = await self._look()
        self._check_rate(ruling)
        return ruling.left

    async def delete(self) -> bool:
        """Remove the limiter, with what was taken; return whether there was one.

        Those that wait ask again at once: they set the rate again if their object has one, and get
        an error if not. A cancelled call is carried out. Errors are those of `try_set_rate`.
        """
        return commands.is_done(await self._receipts.run(self._commands.delete()))

    async def inspect(self) -> RateLimiterSnapshot:
        """Return a snapshot of the limiter, for people. Decide nothing from it."""
        ruling = await self._look(sets=False)
        limit = ruling.limit
        return RateLimiterSnapshot(
            None if limit is None else _public(limit),
            ruling.left,
            ruling.retry_in,
            self.statistics().waiters,
            texts(self._commands.keys(limit is not None and limit.per_client)),
        )

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for this name. No I/O. Decide nothing from them."""
        return PrimitiveStatistics(self._queue.waiting, held_leases=0)

    # Asking.

    async def _admit(self, n: int, timeout: Duration | None) -> Admission:
        """Take units, or say that they were not free in time."""
        if check_whole(n) > commands.MOST_UNITS:
            raise ValueError(f"n must be at most {commands.MOST_UNITS}, not {n}")
        seconds = check_timeout(timeout)
        self._context.check()
        applicant = Applicant(reference(current_task()), n)
        try:
            if seconds == 0:
                admission = await self._ask_once(applicant)
            else:
                with Wait(self._context, self.kind, self._name) as wait:
                    admission = await self._wait_for(applicant, seconds, wait)
                    if not admission:
                        wait.timed_out(once=False)
        except BaseException:
            if applicant.maybe_admitted or applicant.admission is not None:
                self._undo(applicant)
            raise
        if applicant.maybe_admitted:
            self._undo(applicant, used=admission.allowed)
        return admission

    async def _ask_once(self, applicant: Applicant) -> Admission:
        looks = self._queue.is_ahead
        ruling = await self._ask([applicant], None, looks=looks, fails_fast=True)
        self._check(applicant, ruling)
        if ruling.admitted and not looks:
            applicant.admission = ruling
            return _allowed(ruling)
        if looks and not ruling.retry_in and self._queue.latest is not None:
            # There is something for those that wait, and they come first.
            return _refused(self._queue.latest, self._queue.due, ruling.left)
        return Admission(allowed=False, retry_after=ruling.retry_in, available=ruling.left)

    async def _wait_for(self, applicant: Applicant, seconds: float | None, wait: Wait) -> Admission:
        queue, deadline = self._queue, deadline_in(seconds)
        if queue.waiting and queue.rate is not None and applicant.units > queue.rate:
            # Before it waits: the rate may be another by now.
            self._check(applicant, await self._look(deadline=_with_an_answer(deadline)))
        if not queue.go_first():
            wait.start()
            if not await queue.wait(queue.join(applicant), deadline, self._way.probe):
                if applicant.admission is not None:
                    return _allowed(applicant.admission)
                if deadline is None or not (
                    queue.is_busy(applicant) and await self._way.answered_at(deadline)
                ):
                    raise self._no_answer(applicant)
                return _refused(queue.latest, queue.due)
        try:
            return await self._ask_as_head(applicant, deadline, wait)
        finally:
            queue.asked()

    async def _ask_as_head(
        self, applicant: Applicant, deadline: float | None, wait: Wait
    ) -> Admission:
        """Ask when the server will admit the head, which waits for that moment and nothing else."""
        queue, context = self._queue, self._context
        knew = queue.due_for(applicant) > 0
        if not knew and await self._ask_for_all(applicant, deadline):
            assert applicant.admission is not None
            return _allowed(applicant.admission)
        wait.start()
        with context.bus.listen(self._commands.channel, wakes_everybody) as sleeper:
            queue.sleeper = sleeper
            try:
                missed = not knew or queue.heard_on != context.bus.heard_on(self._commands.channel)
                if missed and queue.due_for(applicant) - loop_time() > SAFETY_POLL_SECONDS:
                    # What was announced before it listened would be missed for long.
                    queue.next = None
                while True:
                    if not await self._sleep_until_due(applicant, deadline, sleeper):
                        return _refused(queue.latest, queue.due)
                    sleeper.arm()
                    if await self._ask_for_all(applicant, deadline):
                        assert applicant.admission is not None
                        return _allowed(applicant.admission)
            finally:
                queue.sleeper = None

    async def _sleep_until_due(
        self, applicant: Applicant, deadline: float | None, sleeper: Sleeper
    ) -> bool:
        """Sleep until the head fits, or something changed; return False if time is up before."""
        queue = self._queue
        due = queue.due_for(applicant)
        if due:
            # Known without asking: those behind are told so when their time is up.
            queue.heard_busy()
            until = due if deadline is None else min(due, deadline)
            await sleeper.wait(until - loop_time())
            self._context.check()
        present = loop_time()
        # One whose moment has come asks, even if the event loop was late.
        return deadline is None or present < deadline or 0 < due <= min(present, deadline)

    async def _ask_for_all(self, head: Applicant, deadline: float | None) -> bool:
        """Ask for the head and those behind it; return whether the head was admitted."""
        queue = self._queue
        asked, changes = queue.to_ask_for(head), queue.changes
        queue.heard_on = self._context.bus.heard_on(self._commands.channel)
        patience = None
        if deadline is not None:
            patience = call_later(
                self._context.executor.command_timeout,
                lambda: queue.fail_together(lambda: self._no_answer(head)),
            )
        try:
            ruling = await self._ask(asked, _with_an_answer(deadline))
        except ConnectionLostError:
            if deadline is None:
                queue.fail_together(lambda: self._no_answer(head))
            raise
        finally:
            if patience is not None:
                patience.cancel()
        queue.heard(asked, ruling, changes)
        if head.admission is not None:
            return True
        self._check(head, ruling)
        queue.heard_busy()
        return False

    async def _ask(
        self,
        applicants: list[Applicant],
        deadline: float | None,
        *,
        looks: bool = False,
        sets: bool = True,
        fails_fast: bool = False,
    ) -> Ruling:
        """Send a request for all of these; those whose answer is not known stay marked."""
        context = self._context
        context.check()
        requests = [(each.id, each.units) for each in applicants]
        args = self._asking.acquire(requests, self._first if sets else None, looks=looks)
        call = context.executor.start(commands.ACQUIRE, self._key, args, deadline)
        call.fails_fast = fails_fast
        if looks:
            return self._heard(commands.ruling(await context.executor.answer(call)))
        flight = _Flight(self, applicants, call.fail)
        try:
            reply = await context.executor.answer(call)
        except ScriptError:
            flight.ends(unknown=call.uncertain)
            raise
        finally:
            context.pending.pop(flight, None)
        # A copy of a request that was sent twice may arrive after the answer.
        flight.ends(unknown=call.uncertain)
        return self._heard(commands.ruling(reply))

    async def _look(self, *, deadline: float | None = None, sets: bool = True) -> Ruling:
        """Ask what a request for one unit would get."""
        self._context.check()
        applicant = Applicant(reference(current_task()), 1)
        return await self._ask([applicant], deadline, looks=True, sets=sets)

    @property
    def _asking(self) -> RateLimiterCommands:
        """The commands to use; a client that was opened again has another id."""
        client_id = self._context.owners.client_id
        if self._commands.client_id != client_id:
            self._commands = replace(self._commands, client_id=client_id)
        return self._commands

    def _undo(self, applicant: Applicant, *, used: bool = False) -> None:
        """Give back what a request was perhaps admitted, or if it is used only refuse copies."""
        try:
            self._context.check()
        except ClientClosedError:
            # The client has undone its requests when it was closed.
            return
        self._send_undo(applicant, used=used)

    def _send_undo(self, applicant: Applicant, *, used: bool = False) -> None:
        """Send the undo of one request, in order behind it."""
        executor = self._context.executor
        args = self._commands.undo(applicant.id, 0 if used else applicant.units)
        until = executor.time() + LONGEST_COMMAND_SECONDS
        executor.start(commands.UNDO, self._key, args, must=True, until=until)
        if not used:
            self._queue.changed()

    def _heard(self, ruling: Ruling) -> Ruling:
        """Take the rate; warn once if it is another than this object names."""
        first, limit = self._first, ruling.limit
        if limit is not None:
            self._queue.heard_rate(limit.rate, lambda units: self._too_many(units, limit.rate))
        if first is None or limit is None or first == limit:
            return ruling
        if self._context.is_news((self.kind, self._key, limit, first)):
            log.warning(
                "rate limiter %r has a rate of %s, not of %s: a limiter that has a rate keeps it."
                " To change it, call set_rate",
                *(self._name, _text(limit), _text(first)),
            )
        return ruling

    def _check(self, applicant: Applicant, ruling: Ruling) -> None:
        """Raise if waiting is of no use."""
        rate = self._check_rate(ruling).rate
        if applicant.units > rate:
            raise self._too_many(applicant.units, rate)

    def _too_many(self, units: int, rate: int) -> ValueError:
        return ValueError(
            f"n must be at most the rate of {self.kind} {self._name!r}, which is {rate},"
            f" not {units}"
        )

    def _check_rate(self, ruling: Ruling) -> Limit:
        if ruling.limit is None:
            raise ScriptError(
                str(commands.ACQUIRE),
                "RateLimiter is not initialized",
                self._key.decode(errors="replace"),
                advice="give get_rate_limiter() a rate, or call try_set_rate",
            )
        return ruling.limit

    @property
    def _way(self) -> Way:
        return self._context.executor.way_to(self._key)

    def _no_answer(self, applicant: Applicant) -> ConnectionLostError:
        return self._way.no_answer(maybe_held=applicant.maybe_admitted)


class _Flight:
    """A request that was sent and not answered, which a closing client must undo."""

    __slots__ = ("_applicants", "_fail", "_limiter", "_unknown_before")

    def __init__(
        self,
        limiter: RateLimiter,
        applicants: list[Applicant],
        fail: Callable[[BaseException], object],
    ) -> None:
        self._limiter = limiter
        self._applicants = applicants
        self._fail = fail
        self._unknown_before = [each.maybe_admitted for each in applicants]
        for each in applicants:
            each.maybe_admitted = True
        limiter._context.pending[self] = None

    def ends(self, *, unknown: bool) -> None:
        """Note that it was answered; `unknown`: a copy of it may arrive later."""
        for each, before in zip(self._applicants, self._unknown_before, strict=True):
            each.maybe_admitted = unknown or before

    def give_up(self, error: BaseException) -> None:
        """Undo it because the client closes, and raise `error` in its caller."""
        self._limiter._context.pending.pop(self, None)
        for each in self._applicants:
            each.maybe_admitted = False
            self._limiter._send_undo(each)
        self._fail(error)


def _with_an_answer(deadline: float | None) -> float | None:
    """Return a deadline that leaves time for an answer: the moment to ask may be just before it."""
    return None if deadline is None else max(deadline, loop_time() + SHORTEST_WAIT_SECONDS)


def _check_per_client(per_client: object) -> bool:
    if not isinstance(per_client, bool):
        raise TypeError(f"per_client must be bool, not {type(per_client).__name__}")
    return per_client


def _limit(rate: object, per: object, per_client: bool) -> Limit:
    return Limit(check_whole(rate, "rate"), milliseconds(check_lease_time(per, "per")), per_client)


def _public(limit: Limit) -> RateLimit:
    return RateLimit(limit.rate, limit.interval_ms / 1000, limit.per_client)


def _text(limit: Limit) -> str:
    each = " for each client" if limit.per_client else ""
    return f"{limit.rate} per {limit.interval_ms / 1000:g} s{each}"


def _allowed(ruling: Ruling) -> Admission:
    return Admission(allowed=True, retry_after=0.0, available=ruling.left)


def _refused(latest: Ruling | None, due: float, left: int | None = None) -> Admission:
    """Return the refusal of a request whose time is up, from what the server said last."""
    known = latest.left if latest is not None else 0
    retry_after = max(0.0, due - loop_time())
    return Admission(
        allowed=False, retry_after=retry_after, available=known if left is None else left
    )
