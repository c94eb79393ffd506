"""CyclicBarrier: parties that wait for each other, again and again."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import final

from redisson_py._arguments import explained
from redisson_py._engine import waiting
from redisson_py._engine.awaiting import AsyncOnly
from redisson_py._engine.wait import Wait
from redisson_py._keys import Name, barrier_channel
from redisson_py._redis.commands import barrier as commands
from redisson_py._redis.commands.barrier import BarrierCommands, InspectReply
from redisson_py._redis.context import RedisContext
from redisson_py._redis.inspecting import descriptions, texts
from redisson_py._redis.numbers import check_whole
from redisson_py._redis.receipts import Receipts
from redisson_py._statistics import PrimitiveStatistics
from redisson_py._time import Duration, check_timeout, within
from redisson_py.barriers.arrival import Arrival
from redisson_py.errors import AcquireTimeoutError

#: The number of parties that a snapshot lists.
LISTED_PARTIES = 100


@dataclass(frozen=True, slots=True)
class PartySnapshot:
    """A party that waits at a barrier.

    Attributes:
        owner: The client's id and a number.
        remaining: Seconds until its arrival expires, unless it asks again before.
        host: Its host name.
        pid: Its process id.
        client_name: Its client's `client_name`.
        task: The name of its task, if it belongs to this client.
    """

    owner: str
    remaining: float
    host: str | None = None
    pid: int | None = None
    client_name: str | None = None
    task: str | None = None


@dataclass(frozen=True, slots=True)
class BarrierSnapshot:
    """A barrier in Redis, a moment ago.

    Attributes:
        generation: The number of the current round; None if nobody waits.
        parties: The number of parties of that round; None if nobody waits.
        broken: Whether it is broken.
        waiting: The parties that wait; at most the hundred whose arrivals expire first.
        keys: The keys it uses.
        total: The number of parties that wait, listed or not.
    """

    generation: int | None
    parties: int | None
    broken: bool
    waiting: tuple[PartySnapshot, ...]
    keys: tuple[str, ...]
    total: int = 0


@final
class CyclicBarrier(AsyncOnly):
    """A number of parties that wait for each other, across processes and hosts.

    The last party to arrive releases all, and the barrier is ready for the next round. `wait`
    returns a position from 0 to parties - 1, each once per round, so that one party can be picked
    for a task. Parties may be tasks of one client or of many. All must give the same number: while
    parties wait, `wait` raises `ValueError` in one that gives another.

    Use it instead of `CountDownLatch` where the tasks that arrive are those that wait, round after
    round.

    A party that is cancelled, times out or dies while it waits breaks the barrier, because the
    others would wait forever. A broken barrier raises `BrokenBarrierError` in current waiters and
    in later arrivals:

    - Current waiters always get it: their round has failed and is not resumed.
    - Later arrivals get it for one lease after the last sign of life of its parties, so that a late
      party of the broken round does not start a round alone. Then the barrier works again. A
      refused arrival does not prolong this.
    - If every party dies and no other party arrives, the barrier is fresh when the last arrival has
      expired.
    - After `abort` it stays broken until `reset`, which repairs it in any case.

    It has the methods of `asyncio.Barrier`, with these differences: there, cancelling a waiting
    task breaks nothing, and the round waits for another task; `reset` and `abort` reach released
    tasks that have not run yet; and the next round starts when all have run. Here, a released party
    stays released: `reset` and `abort` never reach it. The next round may start at once, and they
    do reach parties that already wait for it.

    Promised: a wait arrives exactly once, whatever happens to the connection; no party is released
    before all have arrived; a party that dies breaks the barrier within one lease of its client
    (`lease_time`, or 0.3 s if that is longer), because a waiting party keeps its arrival alive by
    asking again. A lock of the same name is independent. Everything in Redis expires, except the
    mark of `abort`: the keys of a round with its parties, and a small key of each wait after a
    minute, two leases, or a minute after the wait's own timeout, whichever is latest.

    Not promised: that a wait which is cancelled, or loses its connection, at the moment of release
    holds the others back: they are released anyway. If Redis loses its data, all waiters get
    `BrokenBarrierError` and the barrier is fresh. After a failover that lost an arrival, the
    remaining parties wait for one more.

    Cost: one script for the last party; the others send two, one more at the end, and one every
    third of a lease. A cancelled wait breaks the barrier and leaves nothing else behind. The
    protocol is our own; Redisson has no barrier. Barriers: Hensgen, Finkel, Manber, "Two
    algorithms for barrier synchronization", 1988; breaking them: Java's CyclicBarrier.
    """

    kind = "barrier"

    def __init__(self, context: RedisContext, name: Name, parties: int) -> None:
        self._parties = check_whole(parties, "parties")
        self._context = context
        self._name = name
        name_key = context.options.names.key(name, barrier_channel)
        self._waiters_key = self.kind.encode() + b":" + name_key
        self._commands = BarrierCommands(name_key)
        self._receipts = Receipts(context, name_key)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} of {self._parties}>"

    @property
    def name(self) -> Name:
        """The resource name, as given."""
        return self._name

    @property
    def key(self) -> bytes:
        """The key of the current round in Redis; not that of a lock of the same name."""
        return self._commands.barrier

    @property
    def channel(self) -> bytes:
        """The channel whose messages make parties ask again."""
        return self._commands.channel

    @property
    def parties(self) -> int:
        """The number of parties that must arrive."""
        return self._parties

    @explained
    async def wait(self, timeout: Duration | None = None) -> int:
        """Wait until all parties have arrived; return this one's position, 0 for the first.

        A wait that is cancelled, times out or loses its connection to Redis breaks the barrier for
        the others, unless they have already been released.

        Args:
            timeout: Seconds to wait, including connecting and retries; 0 succeeds only for the last
                to arrive. Default: waits forever. After a timeout the call may take half a second
                more to learn whether this party was released just before.

        Raises:
            BrokenBarrierError: The barrier is broken, or was broken or reset during the wait.
            AcquireTimeoutError: Not all parties arrived within `timeout` seconds.
            ConnectionLostError: Redis did not answer. After a timeout, this party may have been
                released just before.
            ScriptError: Redis refused: wrong type of key, a hash that is not a barrier's, or no
                permission.
            ClientClosedError: The client was closed.
            ValueError: Other parties wait with another number of parties, or the timeout is
                negative or NaN. Nothing was changed.
        """
        seconds = check_timeout(timeout)
        context = self._context
        context.check()
        once = seconds == 0
        deadline = None if once else waiting.deadline_in(seconds)
        with (
            context.waiting(self._waiters_key),
            Wait(context, self.kind, self._name) as wait,
        ):
            if (room := context.executor.room(self.key, deadline)) is not None:
                await room
            arrival = Arrival(context, self._commands, self._name, self._parties)
            arrival.fails_fast = once
            released = await waiting.acquire(arrival, context.bus, deadline, once=once, wait=wait)
            if released is None:
                position = await arrival.position_when_left()
            else:
                position = released.position
            if position is None:
                wait.timed_out(once)
                raise AcquireTimeoutError(
                    f"{self.kind} {self._name!r}: not all {self._parties} parties arrived"
                    f"{within(seconds)}"
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
        """Break the barrier: waiters and later arrivals get `BrokenBarrierError`, until `reset`.

        It does not reach released parties, whether or not they have run since, but it reaches
        parties that already wait for the next round. A cancelled call is carried out.

        Raises:
            ConnectionLostError: Redis did not answer; the barrier may have been broken.
            ScriptError: Redis refused: wrong type of key, a hash that is not a barrier's, or no
                permission.
            ClientClosedError: The client was closed.
        """
        await self._receipts.run(self._commands.abort())

    async def reset(self) -> None:
        """Make the barrier fresh: not broken, and nobody waits. Waiters get `BrokenBarrierError`.

        It does not reach released parties, whether or not they have run since, but it reaches
        parties that already wait for the next round. A cancelled call is carried out. Errors are
        those of `abort`.
        """
        await self._receipts.run(self._commands.reset())

    async def n_waiting(self) -> int:
        """Return how many parties wait now."""
        return (await self._inspect(entries=0)).n_waiting

    async def broken(self) -> bool:
        """Return whether the barrier is broken."""
        return (await self._inspect(entries=0)).broken

    async def inspect(self) -> BarrierSnapshot:
        """Return a snapshot for people, with at most a hundred waiting parties.

        Decide nothing from it.
        """
        found = await self._inspect(LISTED_PARTIES)
        keys = (self._commands.barrier, self._commands.arrivals, self._commands.released)
        return BarrierSnapshot(
            found.generation,
            found.parties,
            found.broken,
            await self._snapshots(found),
            texts(keys),
            found.n_waiting,
        )

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for this name. No I/O. Decide nothing from them."""
        return PrimitiveStatistics(self._context.waiters[self._waiters_key], held_leases=0)

    async def _inspect(self, entries: int) -> InspectReply:
        context = self._context
        context.check()
        args = self._commands.inspect(entries)
        call = context.executor.start(commands.INSPECT, self.key, args)
        return commands.inspect_reply(await context.executor.answer(call))

    async def _snapshots(self, found: InspectReply) -> tuple[PartySnapshot, ...]:
        """Describe the listed parties, with one request for each of their clients."""
        context = self._context
        requests = [each for each in context.pending if isinstance(each, Arrival)]
        tasks = {each.owner: each.task for each in requests}
        clients = dict.fromkeys(entry.owner.rpartition(":")[0] for entry in found.entries)
        described = await descriptions(context, clients)
        return tuple(
            PartySnapshot(
                entry.owner,
                entry.remaining,
                *described[entry.owner.rpartition(":")[0]],
                tasks.get(entry.owner),
            )
            for entry in found.entries
        )
