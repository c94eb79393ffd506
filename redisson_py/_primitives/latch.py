"""CountDownLatch: a count that many bring to zero, and a wait until it is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from redisson_py import _waiting
from redisson_py._handoff import Line, Place
from redisson_py._keys import Name
from redisson_py._loop import fail, running_loop, wake
from redisson_py._owner import TaskRef
from redisson_py._primitives.context import Context
from redisson_py._primitives.looking import local_statistics
from redisson_py._primitives.receipts import RECEIPT_MS, Receipts, receipt_key
from redisson_py._scripts import source
from redisson_py._statistics import PrimitiveStatistics
from redisson_py._stream.call import Call
from redisson_py._time import Duration, check_timeout
from redisson_py._waiting import Busy, Granted
from redisson_py._wakeups.table import ALL, Wakes
from redisson_py.errors import AcquireTimeoutError, ConnectionLostError, RedissonError

COUNT = source.load("latch.count")
COUNT_DOWN = source.load("latch.count_down")
DELETE = source.load("latch.delete")
TRY_SET_COUNT = source.load("latch.try_set_count")

#: Where whole numbers stop being exact in Lua.
_TOO_MANY = 1 << 53


def latch_channel(key: bytes) -> bytes:
    """Return the channel of the latch at `key`: with braces even where the key has its own."""
    return b"redisson_countdownlatch__channel__{" + key + b"}"


def wakes_everybody(message: int) -> int:
    """Return how many seats a message wakes, whatever it says: all of them look again."""
    return ALL


@dataclass(frozen=True, slots=True)
class LatchSnapshot:
    """A latch as Redis had it a moment ago.

    Attributes:
        count: What is left; 0 is open.
        waiters: Tasks of this client that wait for it.
        keys: The keys it uses.
    """

    count: int
    waiters: int
    keys: tuple[str, ...]


@final
class CountDownLatch:
    """A count in Redis, and a wait until it has come to zero, across processes and hosts.

    Set it to the number of jobs, have each job count down when it is done, and wait for all of
    them. Use it instead of `CyclicBarrier` where those who wait are others than those who
    arrive, or where a party may arrive more than once or from nowhere. It opens once: to use it
    again set a new count. An unset latch has the count 0: it is open.

    With `count`, the first use of this object sets it, if it is unset, together with what it
    asks for. A latch that was counted down to zero is unset too; so who comes after the last
    count_down must not bring a count of its own, or it starts another round.

    Promised: a count_down that was asked once counts once, whatever happens to the connection;
    who waits is let go when the count is zero, also if the message of it is lost; 10,000 tasks
    that wait cost one subscription, and are let go by one look at Redis.

    Not promised: that a waiter sees a zero after which somebody set a new count at once (then
    it waits for that one too); that the latch opens if one who should count down dies. The
    count has no lease: delete it if nobody brings it to zero any more. If Redis loses its data
    the latch is unset, which is open, and waiters are let go.

    Cancelled while it waits, a task leaves nothing; any other call is carried out all the same.
    In a Redis Cluster the name must have no braces. Protocol: Redisson's RCountDownLatch, a
    string that counts down and a message at zero.
    """

    kind = "latch"

    def __init__(self, context: Context, name: Name, count: int | None) -> None:
        self._context = context
        self._name = name
        self._key = context.options.names.key(name)
        self._line_key = self.kind.encode() + b":" + self._key
        self._start = receipt_key(self._key, context.owners.new_owner())
        self._to_set = 0 if count is None else _whole(count, "count", 0)
        self._receipts = Receipts(context, self._key)
        self.channel = latch_channel(self._key)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r}>"

    @property
    def name(self) -> Name:
        """The resource name, as it was given."""
        return self._name

    @property
    def key(self) -> bytes:
        """The key in Redis."""
        return self._key

    async def wait(self, timeout: Duration | None = None) -> None:
        """Wait until the count is zero.

        At zero it returns after one round trip. All who wait here share one subscription and
        one question after each message, and there is no polling. Cancelled, it leaves nothing.

        Args:
            timeout: Seconds to wait, in all: connecting, retries and waiting; None waits for
                ever, 0 asks once.

        Raises:
            AcquireTimeoutError: The count was not zero within `timeout` seconds.
            ConnectionLostError: Redis did not answer.
            ScriptError: Redis refused: the key is no count, or no permission.
            ClientClosedError: The client was closed.
            ValueError: The timeout is negative or NaN; nothing was sent.
        """
        seconds = check_timeout(timeout)
        context = self._context
        context.check()
        once = seconds == 0
        deadline = None if once or seconds is None else running_loop().time() + seconds
        if once or self._to_set:
            # Not by one who stands for others: their question would not set our count.
            with context.waiting(self._line_key):
                if await _waiting.acquire(_Look(self), context.bus, deadline, once=True):
                    return
        if once or not await self._wait_in_line(deadline):
            raise AcquireTimeoutError(
                f"{self.kind} {self._name!r} was not open within {seconds or 0:g} s"
            )

    async def _wait_in_line(self, deadline: float | None) -> bool:
        """Wait until it is open, or time is up; the first in line asks Redis for all."""
        context = self._context
        task = context.owners.of_current_task().task
        line = context.lines.open(self._line_key)
        if not line.go_first():
            place = _Place(task, deadline is not None)
            if not await line.stand(place, deadline):
                return place.let_go
        try:
            look = _Look(self, line)
            return bool(await _waiting.acquire(look, context.bus, deadline))
        finally:
            line.asked()

    async def try_set_count(self, n: int) -> bool:
        """Set the count if the latch is unset; return whether. Cancelled, it is carried out.

        Args:
            n: The count, 1 or more.

        Raises:
            ConnectionLostError: Redis did not answer; it may have been set.
            ScriptError: Redis refused: wrong type of key, or no permission.
            ClientClosedError: The client was closed.
            TypeError: `n` is no int.
            ValueError: It is below 1, or too large to be exact; nothing was sent.
        """
        counts = _whole(n, "n", 1)
        reply = await self._receipts.run(
            TRY_SET_COUNT, latch=self._key, counts=counts, channel=self.channel
        )
        self._to_set = 0
        return bool(reply)

    async def count_down(self, n: int = 1) -> int:
        """Count down by `n`, never below zero; return what is left. Cancelled, it is carried out.

        Who brings the count to zero lets all waiters go. On an unset latch nothing happens.

        Args:
            n: By how much, 1 or more.

        Raises:
            ConnectionLostError: Redis did not answer; it may have been counted.
            ScriptError: Redis refused: the key is no count, or no permission.
            ClientClosedError: The client was closed.
            TypeError: `n` is no int.
            ValueError: It is below 1, or too large to be exact; nothing was sent.
        """
        steps = _whole(n, "n", 1)
        left = await self._receipts.run(
            COUNT_DOWN,
            latch=self._key,
            start=self._start,
            steps=steps,
            counts=self._to_set,
            channel=self.channel,
        )
        self._to_set = 0
        return int(left)

    async def count(self) -> int:
        """Return what is left; 0 for an open or unset latch."""
        self._context.check()
        left = await self._context.executor.answer(self._ask(self._to_set, None))
        self._to_set = 0
        return max(0, int(left))

    async def delete(self) -> bool:
        """Unset the latch, and let its waiters go; return whether it was set.

        Waiters in this library's clients look again and find zero; those of Redisson wait on.
        Cancelled, it is carried out. Errors as for `try_set_count`.
        """
        return bool(await self._receipts.run(DELETE, latch=self._key, channel=self.channel))

    async def inspect(self) -> LatchSnapshot:
        """Return what is left, as a snapshot for people. Nothing should be decided from it."""
        self._context.check()
        left = await self._context.executor.answer(self._ask(0, None))
        keys = (self._key.decode(errors="replace"),)
        return LatchSnapshot(max(0, left), self.statistics().waiters, keys)

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for this name. No I/O; nothing is decided from them."""
        # No hold has an empty key.
        return local_statistics(self._context, self._line_key, b"")

    def _ask(self, counts: int, deadline: float | None) -> Call:
        """Ask what is left, with an unset latch set to `counts` before."""
        args = COUNT.bind(
            latch=self._key,
            start=self._start,
            counts=counts,
            channel=self.channel,
            receipt_ms=RECEIPT_MS,
        )
        return self._context.executor.start(COUNT, self._key, args, deadline)


class _Place(Place):
    """A waiter in the line of those who wait for one latch.

    Attributes:
        let_go: The latch was open after it came.
        timed: It has a timeout of its own.
    """

    __slots__ = ("let_go", "timed")

    def __init__(self, task: TaskRef, timed: bool) -> None:
        super().__init__(task, passable=False)
        self.timed = timed
        self.let_go = False


class _Look:
    """Asks whether the latch is open, for all who stand in line when the question is sent.

    Not for those who come later: the answer may be older than their wait, and the count may
    have been set in between.
    """

    turn = None

    def __init__(self, latch: CountDownLatch, line: Line | None = None) -> None:
        self._latch = latch
        self._line = line

    @property
    def channel(self) -> bytes:
        """Where counts and zero are announced."""
        return self._latch.channel

    @property
    def wakes(self) -> Wakes:
        """Any message is a reason to look: zero, and a new count that followed a deletion."""
        return wakes_everybody

    async def run(self, deadline: float | None) -> Granted[bool] | Busy:
        """Ask once."""
        latch = self._latch
        others = (
            [] if self._line is None else [p for p in self._line.places if isinstance(p, _Place)]
        )
        try:
            call = latch._ask(latch._to_set, deadline)
            left = await latch._context.executor.answer(call)
        except RedissonError as error:
            if deadline is None or running_loop().time() < deadline:
                self._share(error, others)
            raise
        latch._to_set = 0
        if left > 0:
            return Busy(retry_in=None)
        for place in others:
            place.let_go = wake(place.future)
        self._forget_gone()
        return Granted(True)

    def _share(self, error: RedissonError, others: list[_Place]) -> None:
        """Tell the others of an error that would be theirs too, had they asked.

        Who has a timeout has its own idea of how long Redis may take to answer.
        """
        for place in others:
            if not (place.timed and isinstance(error, ConnectionLostError)):
                fail(place.future, error)
        self._forget_gone()

    def _forget_gone(self) -> None:
        places = self._line.places if self._line is not None else None
        while places and places[0].future.done():
            places.popleft()

    def undo(self) -> None:
        """Nothing: a question that was abandoned has changed nothing for anybody."""


def _whole(value: object, what: str, least: int) -> int:
    """Return a number of counts, checked."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be int, not {type(value).__name__}")
    if not least <= value < _TOO_MANY:
        raise ValueError(f"{what} must be at least {least} and below 2**53, not {value}")
    return value
