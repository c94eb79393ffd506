"""An election: a lock whose holder, the leader, publishes a value that everybody can read.

Each campaign is a candidate of its own on the server, with its own value; tasks of one client stand
there beside each other. So a leadership is never passed inside a process, as a lock is: the next
leader would come with another value, which has to be written anyway, and candidates of other
clients, which are shown there in their order, would be overtaken.

What keeps it is behind `Polls`: in Redis `election_in_redis`, in other stores `_stores/election`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast, final

from redisson_py._answers import Busy, Wakes, wakes_everybody
from redisson_py._arguments import explained
from redisson_py._engine import waiting
from redisson_py._engine.block import HoldBlock
from redisson_py._engine.context import Context
from redisson_py._engine.decorating import Fill
from redisson_py._engine.hold import FencedLease, Hold
from redisson_py._engine.snapshots import LockSnapshot
from redisson_py._keys import Name
from redisson_py._process_bound import ProcessBound
from redisson_py._statistics import PrimitiveStatistics
from redisson_py._time import Duration
from redisson_py.locks.lock_of import LockOf


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader of an election, as the server saw it a moment ago.

    Attributes:
        value: The value that it published.
        token: Its fencing token: greater than that of every earlier leader.
    """

    value: bytes
    token: int

    @property
    def text(self) -> str:
        """The value as text; invalid UTF-8 is replaced."""
        return self.value.decode(errors="replace")


def bytes_of(value: str | bytes) -> bytes:
    """Return a value as it is published.

    Raises:
        TypeError: It is neither str nor bytes.
        ValueError: It is no valid text.
    """
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"value is not valid text: {error.reason}") from None
    if isinstance(value, bytes):
        return value
    raise TypeError(f"value must be str or bytes, not {type(value).__name__}")


class Candidacy(Protocol):
    """The leaderships of a client's tasks that campaign with one value: a `TaskOwnership`."""

    context: Context

    async def proclaim(self, owner: str, token: int, written: int, value: bytes) -> int:
        """Publish another value of a leader; return the number under which it was written.

        `written` is the number of its last one, as far as is known. 0: it does not lead.
        """
        ...


@final
class Leadership(FencedLease):
    """The lease of a leader: from its election to the end of its block, or the loss.

    `token` is its fencing token, greater than that of every earlier leader.
    """

    __slots__ = ("_written",)

    def __init__(
        self, hold: Hold, limit: float | None, token: int | None, granted_at: float
    ) -> None:
        super().__init__(hold, limit, token, granted_at)
        #: The number under which its value was last written, as far as is known.
        self._written = token or 0

    async def proclaim(self, value: str | bytes) -> None:
        """Publish another value without another election. One round trip.

        If it is cancelled or gets no answer, the value may be the new one or the old one: proclaim
        again. A request that arrives late changes neither a later value nor that of a later leader.

        Raises:
            LeaseLostError: It no longer leads; nothing changed.
            NotHeldError: It was released.
            ConnectionLostError: The server did not answer.
            BackendError: It refused, for example, in etcd, a value of more than 1.5 MiB.
            ClientClosedError: The client was closed.
            TypeError: The value is neither str nor bytes.
            ValueError: It is no valid text. Nothing was sent.
        """
        data = bytes_of(value)
        self._refuse_released()
        self.check()
        hold = self._hold
        candidacy = cast("Candidacy", hold.ownership)
        written = await candidacy.proclaim(hold.owner, self.token, self._written, data)
        if not written:
            self._refuse_released()
            candidacy.context.watchdog.lose(hold, "taken")
            raise self._loss()
        self._written = written

    def _refuse_released(self) -> None:
        if self._state == "released":
            raise self._not_held()


class Look(Protocol):
    """Looks who leads, for one observer.

    Attributes:
        channel: Where changes are announced to it.
    """

    channel: bytes

    @property
    def is_fresh(self) -> bool:
        """Whether it has just looked, and hears of the next change."""
        ...

    async def look(self) -> tuple[Leader | None, float | None]:
        """Return who leads, and after how many seconds that may end without an announcement."""
        ...

    def stop(self) -> None:
        """End it; no look follows."""


class Polls(Protocol):
    """Keeps one election on a server."""

    def candidate(self, value: bytes) -> LockOf[Leadership]:
        """Return the lock that campaigns with this value acquire.

        Raises:
            TypeError: The value is neither str nor bytes.
        """
        ...

    async def leader(self) -> Leader | None:
        """Return the leader; None if nobody leads."""
        ...

    def look(self) -> Look:
        """Return what looks for a new observer."""
        ...


@final
class Election(ProcessBound):
    """An election of a leader among tasks of any number of processes.

    Made by `client.get_election(name)`. A leader holds a lock, and publishes a value that everybody
    can read, such as its address:

        async with election.campaign("host-1:8080") as leadership:
            ...

    Use it where others must find the leader; otherwise use a lock.

    Promised: on the server, at any instant at most one task leads; in etcd and ZooKeeper also if a
    minority of the members fails. A leader's own view ends before the server's, and its body is
    cancelled then. Candidates are elected in the order in which the server saw them, also tasks of
    one client: each has its own entry there, with its value. An observer sees states in their
    order, and finally the newest one, through broken connections and restarts.

    In PostgreSQL and MySQL a candidate that is silent when its turn comes, as one that is paused,
    may be passed over.

    Not promised: that an observer sees each value. Of several changes in a row it may see only the
    last, and that may be out of date. Against a leader that is paused only the fencing token is
    safe, if the resource checks it. In Redis what is said of a `FairLock` after a failover or an
    eviction, and that a candidate which has died is passed over sooner than one `lease_time` of its
    client.

    A task that leads cannot campaign again: that is a `RuntimeError`.

    A lock of the same name: in Redis candidates stand in the queue of the fair lock of that name,
    in PostgreSQL and MySQL in that of the lock. They exclude each other, its holder is no leader,
    and a task that holds it must not campaign. In etcd and ZooKeeper they are the
    same, as for Go and Curator: the holder of the lock is a leader with its owner as the value. Use
    a name for one of them.

    Cost: uncontended two round trips for a campaign and its end, one for `proclaim` and `leader`. A
    candidate that waits costs in Redis what a waiter of a `FairLock` costs. In PostgreSQL each
    change of the leader costs one more, which tells observers. An observer costs in Redis one
    subscription, in PostgreSQL a LISTEN on the connection that hears for waiters, in etcd a watch
    on the stream that all watches of the client share, without a session, in ZooKeeper two watches,
    which fire for each candidate too; and one read or two for each change and every few seconds. In
    MySQL it reads every `poll_interval`.

    Protocol: in Redis `lua/election`, a fair lock with a fencing token; in etcd the `Election` of
    Go's `concurrency` package and of `etcdctl elect`; in ZooKeeper Curator's `LeaderSelector`.
    """

    def __init__(self, context: Context, name: Name, make: Callable[[Name], Polls]) -> None:
        self._context = context
        self._name = name
        self._make = make
        self._polls = make(name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r}>"

    @property
    def name(self) -> Name:
        """The name, as it was given."""
        return self._name

    @explained
    def campaign(
        self,
        value: str | bytes,
        *,
        timeout: Duration | None = None,
        max_hold: Duration | None = None,
    ) -> HoldBlock[LockOf[Leadership], Leadership]:
        """Return a block that waits until the task is elected, and leads until it is left.

        `async with election.campaign("host-1:8080") as leadership`. It is a decorator as well, as
        `hold` of a lock is. Times, cancellation, losses and errors are those of
        `hold` and `acquire` of a lock: with `timeout=0` it asks once, and raises
        `AcquireTimeoutError` if somebody else leads.

        Args:
            value: The value of the leader, and of a candidate that waits.
            timeout: Seconds to wait, in all; None: the client's `acquire_timeout`.
            max_hold: Seconds to lead at most; None leads until the block is left.

        Raises:
            TypeError: The value is neither str nor bytes, or a time is none.
            ValueError: A time is out of range, or the value is no valid text.
        """
        return self._candidate(bytes_of(value)).hold(timeout=timeout, max_hold=max_hold)

    @explained
    async def acquire(self, value: str | bytes, *, timeout: Duration | None = None) -> Leadership:
        """Wait until the current task is elected; it leads until `release` of what is returned.

        As `acquire` of a lock: the same cancellation, which leaves nothing behind, and the same
        errors. The leadership is renewed until it is released, from any task. Prefer `campaign`,
        whose block ends it.

        Args:
            value: The value of the leader, and of a candidate that waits.
            timeout: Seconds to wait, in all; 0 asks once; None: the client's `acquire_timeout`.

        Raises:
            AcquireTimeoutError: Others led for `timeout` seconds. It is no candidate any more.
            ConnectionLostError: The server did not answer. What may be held is given back as soon
                as it answers, and ends with its lease in any case.
            LeaseLostError: Three grants in a row came too late to be used.
            RuntimeError: The task leads already.
            BackendError: The server refused.
            ClientClosedError: The client was closed.
            TypeError: The value is neither str nor bytes, or the timeout is no time.
            ValueError: The timeout is negative or NaN, or the value is no valid text; nothing was
                sent.
        """
        return await self._candidate(bytes_of(value)).acquire(timeout=timeout)

    async def leader(self) -> Leader | None:
        """Return the leader and its value; None if nobody leads. One round trip.

        Raises:
            ConnectionLostError: The server did not answer.
            BackendError: It refused.
            ClientClosedError: The client was closed.
        """
        self._context.check()
        return await self._polls.leader()

    async def observe(self) -> AsyncGenerator[Leader | None]:
        """Yield the present leader, or None, then each change of the leader or its value.

        `async for leader in election.observe():` sleeps until a change is announced;
        nothing announces the end of a lease in Redis or a database, so there it looks when the
        lease that it saw would end. Leave the loop whenever you like, by
        `break` or by cancellation: nothing is left behind. It survives broken connections and
        restarts of the server.

        Raises:
            ConnectionLostError: The server did not answer for `command_timeout`, so the last state
                may be out of date. Observe again.
            BackendError: It refused.
            ClientClosedError: The client was closed.
        """
        self._context.check()
        observation = _Observation(self._context, self._polls.look())
        try:
            while True:
                with self._context.waiting(observation.channel):
                    seen = await waiting.acquire(observation, self._context.bus, None)
                assert seen is not None
                yield seen.leader
        finally:
            observation.stop()

    async def inspect(self) -> LockSnapshot:
        """Return the leader and the candidates that wait, for people. Decide nothing from it."""
        return await self._candidate(b"").inspect()

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for this name. No I/O. Decide nothing from them."""
        return self._candidate(b"").statistics()

    @property
    def _names(self) -> Sequence[Name]:
        """The names that a decorator formats."""
        return (self._name,)

    def _filled(self, fill: Fill) -> Election:
        """Return the election for one call."""
        return Election(self._context, fill(self._name), self._make)

    def _candidate(self, value: bytes) -> LockOf[Leadership]:
        return self._polls.candidate(value)


def candidate_of(election: Election) -> LockOf[Leadership]:
    """Return the lock that candidates acquire, for what looks at elections and ends terms."""
    return election._candidate(b"")


@dataclass(frozen=True, slots=True)
class _News:
    """Who leads, which is not what was last returned."""

    leader: Leader | None


class _Observation:
    """The request of an observer: asks who leads, and waits for changes.

    Attributes:
        channel: Where changes are announced to it.
    """

    head_start = None
    heard_busy_at = 0.0

    def __init__(self, context: Context, look: Look) -> None:
        self.channel: bytes = look.channel
        self._context = context
        self._look = look
        self._news: _News | None = None

    @property
    def wakes(self) -> Wakes:
        """Every message wakes all."""
        return wakes_everybody

    @property
    def listens_first(self) -> bool:
        """Whether it has returned a state: then it will hardly find another one at once."""
        return self._news is not None

    async def run(self, deadline: float | None) -> _News | Busy:
        """Return the present state, unless it was returned before."""
        self._context.check()
        if self._look.is_fresh:
            return Busy(None)
        leader, ends_in = await self._look.look()
        news = _News(leader)
        if news == self._news:
            return Busy(ends_in)
        self._news = news
        return news

    def undo(self) -> None:
        """Do nothing: the request changes nothing on the server."""

    def stop(self) -> None:
        """End what looks."""
        self._look.stop()
