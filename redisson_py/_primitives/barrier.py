"""CyclicBarrier: parties that wait for each other, again and again."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any, final

from redisson_py import _keys, _waiting
from redisson_py._keys import Name
from redisson_py._loop import running_loop
from redisson_py._primitives.arrival import Arrival
from redisson_py._primitives.context import Context
from redisson_py._primitives.looking import _description, local_statistics
from redisson_py._primitives.receipts import Receipts
from redisson_py._scripts import source
from redisson_py._scripts.source import Script
from redisson_py._statistics import PrimitiveStatistics
from redisson_py._time import Duration, check_timeout
from redisson_py.errors import AcquireTimeoutError

ABORT = source.load("barrier.abort")
INSPECT = source.load("barrier.inspect")
RESET = source.load("barrier.reset")


@dataclass(frozen=True, slots=True)
class PartySnapshot:
    """Who waits at a barrier.

    Attributes:
        owner: The client's id and a number.
        remaining: Seconds until its arrival ends, unless it looks again before.
        host: Its host name.
        pid: Its process id.
        client_name: The name its client was given.
        task: The name of its task, if it is this client's own.
    """

    owner: str
    remaining: float
    host: str | None = None
    pid: int | None = None
    client_name: str | None = None
    task: str | None = None


@dataclass(frozen=True, slots=True)
class BarrierSnapshot:
    """A barrier as Redis had it a moment ago.

    Attributes:
        generation: The number of the round under way; None if nobody waits.
        parties: How many parties those who wait expect; None if nobody waits.
        broken: Whether it is broken.
        waiting: Who waits, those whose arrival ends first before the others.
        keys: The keys it uses.
    """

    generation: int | None
    parties: int | None
    broken: bool
    waiting: tuple[PartySnapshot, ...]
    keys: tuple[str, ...]


@final
class CyclicBarrier:
    """A place where a number of parties wait for each other, across processes and hosts.

    The last of them to come lets all go, and the barrier is ready for the next round. In the
    manner of `asyncio.Barrier` and `threading.Barrier`: `wait` returns a position from 0 to
    parties - 1, each once a round, so that one of them can be picked; a party that is
    cancelled, times out or dies while it waits breaks the barrier, since the others would wait
    for ever. A broken barrier raises `BrokenBarrierError` in all who wait and all who come, until
    `reset`.

    Use it instead of `CountDownLatch` where those who arrive are those who wait, round after
    round. Parties may be tasks of one client or of many; all must give the same number.

    Promised: a wait arrives exactly once, whatever happens to the connection; nobody is let go
    before all have come; a party that dies breaks the barrier within one lease of its client
    (`lease_time`), since a waiting one keeps its arrival alive by looking again. When nobody
    waits nothing is left in Redis but the mark of a broken barrier, and for a minute a small
    key of each wait.

    Not promised: that a wait that ends in the moment of release by a cancellation, or by the
    loss of the connection, holds the others back: they are let go all the same. If Redis loses
    its data, all who waited get `BrokenBarrierError` and the barrier is fresh. After a failover
    that lost an arrival, those who are left wait for one more.

    Cancelled while it waits, a party breaks the barrier and leaves nothing. Own protocol, which
    Redisson does not have. Barriers: Hensgen, Finkel, Manber, "Two algorithms for barrier
    synchronization", 1988; breaking them: Java's CyclicBarrier.
    """

    kind = "barrier"

    def __init__(self, context: Context, name: Name, parties: int) -> None:
        if isinstance(parties, bool) or not isinstance(parties, int):
            raise TypeError(f"parties must be int, not {type(parties).__name__}")
        if not 1 <= parties < 1 << 53:
            raise ValueError(f"parties must be at least 1 and below 2**53, not {parties}")
        self._context = context
        self._name = name
        self._parties = parties
        self._key = key = context.options.names.key(name)
        self._line_key = self.kind.encode() + b":" + key
        self._arrivals = _keys.suffixed(key, b"redisson_py:arrivals")
        self._released = _keys.suffixed(key, b"redisson_py:released")
        self._arrival = _keys.suffixed(key, b"redisson_py:arrival:")
        self._receipts = Receipts(context, key)
        self.channel = _keys.prefixed(b"redisson_py_barrier", key)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} of {self._parties}>"

    @property
    def name(self) -> Name:
        """The resource name, as it was given."""
        return self._name

    @property
    def key(self) -> bytes:
        """The key in Redis."""
        return self._key

    @property
    def parties(self) -> int:
        """How many must come."""
        return self._parties

    async def wait(self, timeout: Duration | None = None) -> int:
        """Wait until all parties have come; return this one's position, 0 for the first.

        Cancelled, timed out or cut off from Redis, it breaks the barrier for the others, unless
        they have been let go already.

        Args:
            timeout: Seconds to wait, in all: connecting, retries and waiting; None waits for
                ever, 0 only succeeds for the last to come.

        Raises:
            BrokenBarrierError: The barrier is broken, or was broken or reset meanwhile.
            AcquireTimeoutError: Not all came within `timeout` seconds.
            ConnectionLostError: Redis did not answer.
            ScriptError: Redis refused: wrong type of key, or no permission.
            ClientClosedError: The client was closed.
            ValueError: Others wait here for another number of parties, or the timeout is
                negative or NaN. Nothing was changed.
        """
        seconds = check_timeout(timeout)
        context = self._context
        context.check()
        once = seconds == 0
        deadline = None if once or seconds is None else running_loop().time() + seconds
        stream = context.executor.router.stream_for(self._key)
        with context.waiting(self._line_key):
            if stream.full:
                await stream.room()
            arrival = Arrival(self, context)
            try:
                position = await _waiting.acquire(arrival, context.bus, deadline, once=once)
            except AcquireTimeoutError:
                position = None
            if position is None:
                position = await arrival.last_word()
        if position is None:
            raise AcquireTimeoutError(
                f"{self.kind} {self._name!r}: not all {self._parties} parties came"
                f" within {seconds or 0:g} s"
            )
        return position

    async def __aenter__(self) -> int:
        return await self.wait()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return

    async def abort(self) -> None:
        """Break the barrier: who waits and who comes gets `BrokenBarrierError`, until `reset`.

        Cancelled, it is carried out.

        Raises:
            ConnectionLostError: Redis did not answer; it may have been broken.
            ScriptError: Redis refused: wrong type of key, or no permission.
            ClientClosedError: The client was closed.
        """
        await self._run(ABORT)

    async def reset(self) -> None:
        """Make the barrier fresh: mended, and nobody waits. Who does gets `BrokenBarrierError`.

        Cancelled, it is carried out. Errors as for `abort`.
        """
        await self._run(RESET)

    async def n_waiting(self) -> int:
        """Return how many parties wait now."""
        _, _, _, _, *waiting = await self._look()
        return len(waiting) // 2

    async def broken(self) -> bool:
        """Return whether the barrier is broken."""
        broken, *_ = await self._look()
        return bool(broken)

    async def inspect(self) -> BarrierSnapshot:
        """Return who waits, as a snapshot for people. Nothing should be decided from it."""
        broken, generation, parties, present, *waiting = await self._look()
        found: list[PartySnapshot] = []
        for owner, ends_at in zip(waiting[::2], waiting[1::2], strict=True):
            left = max(0, int(float(ends_at)) - present) / 1000
            found.append(await self._describe(owner.decode(), left))
        keys = (self._key, self._arrivals, self._released)
        return BarrierSnapshot(
            generation or None,
            parties or None,
            bool(broken),
            tuple(found),
            tuple(each.decode(errors="replace") for each in keys),
        )

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for this name. No I/O; nothing is decided from them."""
        # No hold has an empty key.
        return local_statistics(self._context, self._line_key, b"")

    async def _run(self, script: Script) -> None:
        await self._receipts.run(
            script, barrier=self._key, arrivals=self._arrivals, channel=self.channel
        )

    async def _look(self) -> list[Any]:
        self._context.check()
        reply: list[Any] = await self._context.executor.run(
            INSPECT, self._key, barrier=self._key, arrivals=self._arrivals
        )
        return reply

    async def _describe(self, owner: str, remaining: float) -> PartySnapshot:
        context = self._context
        asking = [each for each in context.asking if isinstance(each, Arrival)]
        task = next((each.task for each in asking if each.owner == owner), None)
        client_id = owner.rpartition(":")[0]
        host, pid, client_name = await _description(context, client_id)
        return PartySnapshot(owner, remaining, host, pid, client_name, task)
