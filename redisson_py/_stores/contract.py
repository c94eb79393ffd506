"""What a store must do: keep holds outside this process.

A store answers questions. It does not wait, re-enter or renew: the engine does, and calls
the store again. So a store has no tasks for callers, no queues and no timers of leases.

Rules for each call, which the engine relies on:

- It may be made twice for one owner: the second call changes nothing and answers as the first.
- It ends by its `deadline`, a moment of `_time.now()`, with an answer or with
  `ConnectionLostError`, whose `maybe_held` says whether the server may have carried it out. Until
  then it may connect, or send again. The engine cancels it only when the client has closed.
- The store may ring for a name while a request about it is under way: what rang before the answer
  may be newer than the answer.
- An ask that failed and is not `maybe_held` has left nothing, in the store's own memory either.
- An ask of an owner that gave back is a `BackendError`: nothing is granted to those that left.
- Any other refusal is a `BackendError` with a text that says what to do. Nothing was changed.
- Clocks are the server's. A moment that a store returns is one of `_time.now()`, counted from
  before the request was written, so that it never lies after the server's; the engine takes the
  allowance for clocks that drift from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from redisson_py._stores.last_failure import LastFailure

Kind = Literal["lock", "read", "write", "semaphore", "permit", "election", "once"]
"""What is held. Every store has locks, fenced or not, and elections; PostgreSQL, etcd and ZooKeeper
have read-write locks as well, PostgreSQL has permits of semaphores and what is done once, and
ZooKeeper has semaphore mutexes."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A request for a hold.

    Attributes:
        name: The name, with the client's prefix: valid UTF-8, at most 4 KiB of it.
        owner: Who asks: a client's id and a number that is never used again.
        lease: Seconds.
        renewed: The hold will be renewed until it is given back. If not, which only locks ask for,
            its lease ends it.
        waits: The caller will wait if it is busy: the store rings for the name when it may be free.
            It remembers the owner until that is granted the hold, or gives back.
        tokens: How many fencing tokens to take, if the store can take more than one.
        kind: What is asked for.
        within: The owner of the write hold that the task of a read has: the read does not wait for
            it, and stays when it is given back.
        proposal: What a candidate of an election says; None where a hold has no value.
        units: How many permits of a semaphore, all or none.
        permits: How many permits a semaphore gets that has no number yet; None: it stays so.
        compares: If it has another number, nothing is done, and the answer is `OtherNumber`.
    """

    name: str
    owner: str
    lease: float
    renewed: bool
    waits: bool
    tokens: int = 1
    kind: Kind = "lock"
    within: str | None = None
    proposal: bytes | None = None
    units: int = 1
    permits: int | None = None
    compares: bool = False


@dataclass(frozen=True, slots=True)
class Granted:
    """The owner has the hold.

    Attributes:
        until: The moment until which the store keeps it without a renewal; it may be sooner than
            the lease asks for.
        token: The first of its fencing tokens: greater than every earlier one of the name.
        tokens: How many there are.
    """

    until: float
    token: int
    tokens: int = 1


@dataclass(frozen=True, slots=True)
class Busy:
    """Another owner has it.

    Attributes:
        retry_in: Seconds after which to ask again although nothing rang; None: not known.
        absent: It is a semaphore that has no number of permits.
        unsure: An earlier copy of the request had no answer and may still be granted, so the owner
            must give back, although it does not wait.
    """

    retry_in: float | None
    absent: bool = False
    unsure: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """What is done once is done already: nobody is granted it.

    Attributes:
        token: The fencing token with which it was done.
        result: Its result.
    """

    token: int
    result: str | bytes


@dataclass(frozen=True, slots=True)
class OtherNumber:
    """The semaphore has another number of permits than the wish says: nothing was done.

    Attributes:
        permits: How many, taken ones included.
    """

    permits: int


@dataclass(frozen=True, slots=True)
class Renewal:
    """A hold to renew.

    Attributes:
        name: Its name.
        owner: Its owner.
        token: The first of its tokens: a hold of the same name with another token is another hold.
        lease: Seconds from now. 0 looks whether the hold is there, and changes nothing.
        exact: Set this lease even if the present one is longer. A copy of the request that arrives
            late must undo no newer lease.
        kind: What is held.
    """

    name: str
    owner: str
    token: int
    lease: float
    exact: bool = False
    kind: Kind = "lock"


@dataclass(frozen=True, slots=True)
class HolderState:
    """A holder as the store saw it a moment ago.

    Attributes:
        owner: Its owner; what an interoperating client wrote in that place, if it is no owner.
        remaining: Seconds until its lease ends if it is not renewed: at most, if the store cannot
            know; infinity if another client gave it none.
        token: Its fencing token.
    """

    owner: str
    remaining: float
    token: int


@dataclass(frozen=True, slots=True)
class State:
    """A name as the store saw it a moment ago.

    Attributes:
        holder: Its holder, if it has one: that writes, where it is a read-write lock.
        waiters: The owners that wait, in order; None: the store does not know them.
        keys: Where the store keeps it, for people: keys, paths, a table and its row.
        readers: The holders that read.
    """

    holder: HolderState | None
    waiters: tuple[str, ...] | None
    keys: tuple[str, ...]
    readers: tuple[HolderState, ...] = ()


class Bell(Protocol):
    """What a store tells the engine, in the thread of the event loop."""

    def ring(self, name: str, owner: str | None = None) -> None:
        """Say that a name may have become free: those that wait for it ask again.

        With an owner, only that one does. A store that has read-write locks or elections always
        names it: any number of tasks of one client wait there for different things.
        """

    def ring_all(self) -> None:
        """Say that something may have been missed, as after a new connection or a new session.

        All waiters ask again, and all holds are looked after at once.
        """


class Store(Protocol):
    """Keeps holds on one kind of server.

    Attributes:
        title: The server for people: `PostgreSQL`.
        where: Its address, without credentials.
        last_failure: Why it does not answer, if it does not.
        ends_leases: It ends a hold that is not renewed, to the time. If not, all holds are renewed
            (`Wish.renewed`), and the client gives back what is to end.
        leases_are_exact: An exact `Renewal` of a lock ends it then, to the millisecond, also if the
            client is gone by then: what a `min_hold` needs.
    """

    title: str
    where: str
    last_failure: LastFailure
    ends_leases: bool
    leases_are_exact: bool

    async def start(self, bell: Bell, deadline: float) -> None:
        """Connect, and make what must be there. Called before anything else, again after `stop`."""

    async def stop(self) -> None:
        """Disconnect. Everything that was given back before is gone; the rest ends by its lease."""

    def leave_behind(self) -> None:
        """Disconnect without waiting: the event loop was closed, or ends now.

        Sockets are closed, and nothing is left that Python would warn about. If anything follows,
        it is `start`, in another event loop.
        """

    async def ping(self, deadline: float) -> None:
        """Return when the server has answered."""

    def keys(self, name: str, kind: Kind = "lock") -> Sequence[str]:
        """Return where it keeps a lock: two with a key in common may wait for each other."""
        ...

    async def ask(self, wish: Wish, deadline: float) -> Granted | Busy | Done | OtherNumber:
        """Take the hold if it is free, or held by this owner already.

        `Done` is the answer to a wish of the kind "once" alone: nothing of the owner is left then
        but what an earlier ask of it left.
        """
        ...

    async def give_back(
        self, name: str, owner: str, unsure: bool, deadline: float, kind: Kind = "lock"
    ) -> int | None:
        """End a hold, or the wait of an owner; return 0 if it did not hold, and 1 if it did.

        2: it did, and owners of other clients wait, to which this client should yield.
        With `unsure` a request of this owner had no answer: if it arrives later, it is refused.
        None: it does not hold, but an earlier copy of this request had no answer, and may be why.
        """
        ...

    async def renew(self, batch: Sequence[Renewal], deadline: float) -> Sequence[float | None]:
        """Renew holds; return until when each is kept, or None for one that is not there."""
        ...

    async def look(self, name: str, deadline: float, kind: Kind = "lock") -> State:
        """Return the holder of a name, and its waiters; "read" and "write" are one look."""
        ...

    async def force_release(self, name: str, deadline: float, kind: Kind = "lock") -> bool:
        """End the hold of a kind, whosever it is, and ring; return whether there was one."""
        ...


@dataclass(frozen=True, slots=True)
class Sighting:
    """An election as the store saw it a moment ago.

    Attributes:
        value: What the leader says; None: there is none.
        token: The leader's fencing token.
        key: Where the store shows the next change.
        at: The revision of the store, which orders sightings.
        ends_in: Seconds after which the leader's lease may have ended and nothing rings; None: the
            store rings then too.
    """

    value: bytes | None
    token: int
    key: bytes = b""
    at: int = 0
    ends_in: float | None = None


class ElectionStore(Protocol):
    """What a store with elections does beside holding the leadership, a hold with a proposal.

    An observer is a name, and an id of its own, which are rung for as an owner that waits. Only
    `leader` and `proclaim` ask the server.
    """

    async def leader(self, name: str, deadline: float) -> Sighting:
        """Return who leads, and what it says."""
        ...

    def observe(self, observer: tuple[str, str], seen: Sighting) -> None:
        """Ring for an observer once, when anything has changed since a sighting.

        The store may forget it, and rings then.
        """

    def observes(self, observer: tuple[str, str]) -> bool:
        """Return whether it will ring for an observer."""
        ...

    def unobserve(self, observer: tuple[str, str]) -> None:
        """Forget an observer."""

    async def proclaim(
        self, name: str, owner: str, token: int, written: int, value: bytes, deadline: float
    ) -> int:
        """Have a leader say something else; return the revision at which it was written.

        `written` is the revision at which it last said something, as far as is known. Another
        request of it that comes late changes nothing any more. 0: it leads no more.
        """
        ...


@dataclass(frozen=True, slots=True)
class RecordState:
    """What is done once, as the store saw it a moment ago.

    Attributes:
        token: The fencing token with which it was done.
        size: The number of bytes of its result.
        kept: Seconds for which the store remembers it.
    """

    token: int
    size: int
    kept: float


class OnceStore(Protocol):
    """What a store does that records what is done once, beside holding the lock of who runs it."""

    async def complete(
        self,
        name: str,
        owner: str,
        token: int,
        result: str | bytes,
        keep: float,
        deadline: float,
    ) -> str | bytes | None:
        """Record a result if this owner holds the lock; return what it has recorded, if anything.

        A second copy of the request, and one that arrives late, changes nothing.
        """
        ...

    async def complete_inside(
        self, connection: Any, name: str, owner: str, token: int, result: str | bytes, keep: float
    ) -> str | bytes | None:
        """Do the same in a transaction of the user's, on its connection.

        Nobody else is granted the lock before it has ended.
        """
        ...

    def recording(
        self, name: str, owner: str, token: int, result: str | bytes, keep: float
    ) -> Sequence[tuple[str, tuple[object, ...]]]:
        """Return the statements that do it on a connection of the user's, and their arguments.

        Each brings a row, or the owner does not hold the lock. The first one changes nothing.
        """
        ...

    async def look_for_record(self, name: str, deadline: float) -> RecordState | None:
        """Return what is recorded; None: it is not done."""
        ...

    async def forget(self, name: str, deadline: float) -> bool:
        """Delete the record; return whether there was one."""
        ...


@dataclass(frozen=True, slots=True)
class Permits:
    """A semaphore as the store saw it a moment ago.

    Attributes:
        number: How many permits it has, taken ones included; None: it does not exist.
        holders: Who has permits, and how many.
        waiters: The owners that wait, in order.
        keys: Where the store keeps it, for people.
    """

    number: int | None
    holders: tuple[tuple[HolderState, int], ...]
    waiters: tuple[str, ...]
    keys: tuple[str, ...]

    @property
    def available(self) -> int:
        """How many are free; below zero, if there are fewer than are taken."""
        return (self.number or 0) - sum(units for _, units in self.holders)


Verb = Literal["make", "set", "add", "drain", "delete"]
"""A change of the number of permits: set it unless it is set, set it, add to it, take away what is
free, forget it."""


class PermitStore(Protocol):
    """What a store with semaphores does beside holding permits, which are holds with units."""

    async def permits(self, name: str, deadline: float) -> Permits:
        """Return the permits of a semaphore, those of dead holders not counted."""
        ...

    async def change_permits(
        self, name: str, request: str, verb: Verb, units: int, start: int | None, deadline: float
    ) -> int:
        """Change the number of permits, and ring for those that may go on.

        Made twice for one `request`, an id that is never used again, it is carried out once. An
        `add` and a `drain` first give a semaphore that does not exist the number `start`.

        Returns:
            make, delete: 1 if it was made or was there, else 0. drain: how many were free.
        """
        ...

    async def lower_units(self, name: str, owner: str, units: int, deadline: float) -> int | None:
        """Lower the units of a hold, to no more than these; return None if it is not there."""
        ...
