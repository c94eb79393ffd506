"""What the engine asks of a server, in values: `Server`, and what it must know of a name.

For Redis `_redis/executor.py` answers, for the other stores `_stores/executor.py`. The engine
imports neither.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, Protocol

from redisson_py._answers import Answer, Change, RefusedError, Taken
from redisson_py._loop import Future, Loop
from redisson_py.errors import BackendError, ConnectionLostError

#: Shortest time in seconds for which a release is repeated, however short its lease is.
SHORTEST_RELEASE_SECONDS = 1.0


class Call(Protocol):
    """A request on its way.

    Attributes:
        future: Gets the answer. If it is cancelled or failed, nobody waits any more.
        fails_fast: It fails with the first attempt to connect that fails.
        sends: How often it was sent.
        uncertain: It may be carried out twice, or late.
    """

    future: Future[Any]
    fails_fast: bool
    sends: int
    uncertain: bool

    @property
    def wanted(self) -> bool:
        """Whether it still makes sense to send it."""
        ...

    @property
    def maybe_executed(self) -> bool:
        """Whether it was sent at least once without being refused."""
        ...

    @property
    def counts_from(self) -> float | None:
        """The moment from which a lease that it set counts; None: when it was sent."""
        ...

    def refusal(self, error: RefusedError, /) -> BackendError:
        """Return the error for the caller, from a refusal."""
        ...

    def fail(self, error: BaseException, /) -> None:
        """Hand over an error for good, if anybody still waits for the answer."""

    def unattended(self) -> Future[Any]:
        """Return the future of the answer; another one if a cancelled caller has cancelled it.

        For a request that arrives whether or not its caller waits.
        """
        ...


def lease_from(call: Call, sent_at: float) -> float:
    """Return the moment from which a lease counts that a call sent at a moment has set."""
    return sent_at if call.counts_from is None else min(sent_at, call.counts_from)


class Bell(Protocol):
    """Listens to the channels that tasks wait on, and rings for what happens there.

    It calls the client's table of waiters: `rang` with a message; `missed` when a message may have
    been missed, because the connection was lost, or is back; `ended` when it listens no more.
    """

    def listen(self, channel: bytes, /) -> None:
        """Listen to a channel from now on.

        What is asked after this is served after it has taken effect: the answer is older than
        each message that is heard, or `missed` follows.
        """

    def stop(self, channel: bytes, /) -> None:
        """Listen to a channel no more."""


class Way(Protocol):
    """The way to the server of a key."""

    @property
    def can_begin(self) -> bool:
        """Whether a grant may be asked for without waiting for anything first."""
        ...

    def probe(self) -> None:
        """Make the server answer something soon, unless an answer is due anyway."""

    async def answered_at(self, moment: float, /) -> bool:
        """Return whether the server answers at a moment that has come, in loop time."""
        ...

    def no_answer(self, *, maybe_held: bool) -> ConnectionLostError:
        """Return the error of a caller whose deadline passed."""
        ...


class Held(Protocol):
    """A hold, as far as a server needs to know it.

    Attributes:
        owner: Who has it.
        field: The name of the owner's hold on the server.
        units: The number of its units, for a hold of a semaphore; else 1.
        batch: The owner of the request that brought it, if that may bring several.
        count: Its hold count.
        renewed: Its lease is renewed.
        reason: Why it was lost, if it was.
    """

    @property
    def owner(self) -> str: ...
    @property
    def field(self) -> bytes: ...
    @property
    def units(self) -> int: ...
    @property
    def batch(self) -> str | None: ...
    @property
    def count(self) -> int: ...
    @property
    def renewed(self) -> bool: ...
    @property
    def reason(self) -> str: ...


class Asked(Protocol):
    """A request for a hold, as far as a server needs to know it: see `AcquireRequest`."""

    @property
    def owner(self) -> str: ...
    @property
    def field(self) -> bytes: ...
    @property
    def target(self) -> int: ...
    @property
    def lease_time(self) -> float: ...
    @property
    def lease_ms(self) -> int: ...
    @property
    def wait_ms(self) -> int: ...
    @property
    def once(self) -> bool: ...
    @property
    def deadline(self) -> float | None: ...
    @property
    def change(self) -> Change | None: ...
    @property
    def client(self) -> bytes: ...
    @property
    def yields(self) -> int: ...
    @property
    def checks(self) -> bool: ...
    @property
    def compares(self) -> bool: ...
    @property
    def renewed(self) -> bool: ...
    @property
    def reenters(self) -> bool: ...
    @property
    def fails_fast(self) -> bool: ...


class Server(Protocol):
    """What the engine asks of a server, in values; each call's future gets the answer.

    Attributes:
        command_timeout: Seconds to wait for the server while it does not answer.
        loop: The event loop to which the client belongs, or None: then each call asks it.
        time: The clock of that loop.
        way_to: Returns the way to the server of a key.
    """

    command_timeout: float
    loop: object
    time: Callable[[], float]

    @property
    def way_to(self) -> Callable[[bytes], Way]: ...
    def use(self, loop: Loop, /) -> None:
        """Belong to an event loop."""

    def room(self, key: bytes, deadline: float | None, /) -> Awaitable[None] | None:
        """Return what a caller waits for before it asks for more; None: it may ask now.

        Without a deadline it waits for `command_timeout`.
        """
        ...

    def may_keep(self, commands: Any, hold: Held, /) -> bool:
        """Return whether the server may still keep something of a hold that was lost."""
        ...

    async def explain(self, call: Any, error: RefusedError, /) -> BackendError:
        """Return the error for the caller of a refused call, with what the server can add to it."""
        ...

    def ask(
        self,
        commands: Any,
        request: Asked,
        deadline: float | None = None,
        way: Any = None,
        future: Future[Any] | None = None,
        /,
    ) -> Call:
        """Ask for a hold. A `way` can begin; `future` gets the answer if there is one."""
        ...

    def give_back(
        self,
        commands: Any,
        hold: Held,
        keep: float,
        *,
        late: bool = False,
        change: Change | None = None,
        future: Future[Any] | None = None,
        at: float | None = None,
        taken: Taken | None = None,
    ) -> Call:
        """End a hold, whatever its count; the answer is for `Commands.was_lost`.

        Args:
            commands: The commands of its kind.
            hold: The hold.
            keep: For how many seconds it is repeated while there is no answer, at least
                `SHORTEST_RELEASE_SECONDS`.
            late: What of its owner arrives later must be refused.
            change: Which change of its owner it is, where the owner remains in use.
            future: Gets the answer, if nothing late can arrive for the owner.
            at: The present moment, in loop time, if that is known.
            taken: For how long the name stays taken, by nobody. Only of locks that
                `LockCommands.stay_taken` is true of.
        """
        ...

    def lower(
        self, commands: Any, hold: Held, target: int, lease_time: float, keep: float, change: Change
    ) -> Call:
        """Lower the count of a hold to `target`, and its lease if that is longer than needed."""
        ...

    def undo(
        self,
        commands: Any,
        request: Asked,
        keep: float,
        *,
        late: bool = False,
        change: Change | None = None,
    ) -> Call:
        """Give back what a request may have been granted, and its place in a queue."""
        ...

    def set_lease(self, commands: Any, hold: Held, lease_time: float, change: Change) -> Call:
        """Set the lease of a hold; the answer is 0 or None if it is not there."""
        ...

    def group(self, commands: Any, /) -> Hashable:
        """Return what is the same for names whose holds one renewal may be about."""
        ...

    def renew(
        self, holds: Sequence[Any], lease_time: float, seconds: float, *, splits: bool
    ) -> Call:
        """Renew holds of one group to a lease; 0 only checks that they are there.

        The answer says for each hold whether it is there; None: not known, as if unanswered. With
        `splits` the call fails at once where requests for single names would be served. It is given
        up after `seconds`.
        """
        ...


class ClientQueue(Protocol):
    """The queue of the clients that wait for one thing, on its server."""

    def member(self, client_id: str, /) -> bytes:
        """Return the name of a client in the queue."""
        ...

    def channel(self, client_id: str, /) -> bytes:
        """Return the channel on which a client hears that it is called."""
        ...

    def leave(self, server: Any, client_id: str, *, closing: bool) -> None:
        """Take a client out of the queue, without waiting; it may join again unless it closes."""


class Commands(Protocol):
    """One name of one kind on its server.

    Attributes:
        kind: Its name for people.
        queues: The server keeps a queue of the waiters, each with a channel of its own.
        shares_lease: Other owners may shorten what keeps a hold, so each hold is checked.
        alone: The answer to a release of which no other client has heard.
    """

    kind: str
    alone: int
    queues: bool
    shares_lease: bool

    @property
    def key(self) -> bytes: ...
    @property
    def clients(self) -> ClientQueue | None:
        """The queue of the clients that wait for it, if there is one."""
        ...

    @property
    def channel(self) -> bytes:
        """Where releases are announced."""
        ...

    def wakes(self, message: int, /) -> int: ...
    def field(self, owner: str, /) -> bytes: ...
    def owner(self, field: bytes, /) -> str: ...
    def request_channel(self, owner: str, /) -> bytes: ...
    def answer(self, reply: Any, request: Any, /) -> Answer: ...
    def others(self, reply: Any, hears: bool, /) -> int:
        """Return how many other clients may wait, from the answer to a release that found its hold.

        -1: the release has called the first of the clients that wait. `hears`: this client hears
        the message of its own release.
        """
        ...

    def was_lost(self, reply: Any, /) -> bool:
        """Return whether a final release did not find its hold in force."""
        ...


class LockCommands(Commands, Protocol):
    """The requests about one lock.

    Attributes:
        tokens: How many fencing tokens a grant brings.
        stay_taken: The server can keep the name taken for a time after a release.
    """

    tokens: int

    @property
    def stay_taken(self) -> bool: ...

    @property
    def hold_kind(self) -> str:
        """The kind of what has the same holds under one key: a lock and its fenced lock."""
        ...


class UnitCommands(Commands, Protocol):
    """The requests about one semaphore.

    Attributes:
        start_units: How many units the first request creates it with; below zero: none.
        passes: A hold may go from task to task here without the server.
        records_all: Whether the server knows every holder.
        missing: What the timeout error adds if nobody known holds units and too few are free.
    """

    start_units: int
    passes: bool
    records_all: bool
    missing: str

    def clients_for(self, units: int, /) -> ClientQueue | None:
        """Return the queue of the clients that wait for so many units, if there is one."""
        ...

    def fields(self, owner: str, units: int, /) -> list[tuple[bytes, int]]:
        """Return field and units of each hold that a request of `units` gets."""
        ...

    def permit_text(self, field: bytes, /) -> str:
        """Return the id of a permit as users see it, from its name on the server."""
        ...


class View(Protocol):
    """Looks at one lock on its server, and frees it by force."""

    @property
    def keys(self) -> Sequence[bytes]:
        """Where it is kept. Two locks with a key in common are one, or get in each other's way."""
        ...

    @property
    def courier(self) -> Courier | None:
        """What gives its holds to other processes; None: nothing can."""
        ...

    async def look(self) -> bool:
        """Return whether anybody holds it, or fail with the first attempt to connect that fails."""
        ...

    async def locked(self) -> bool:
        """Return whether anybody holds it."""
        ...

    async def count_of(self, hold: Held, /) -> int:
        """Return the hold count of a hold; 0 if it is not there."""
        ...

    async def is_there(self, hold: Held, /) -> bool:
        """Return whether a hold is there."""
        ...

    async def remaining(self) -> float | None:
        """Return the seconds left of its lease; None when it is free, infinity without an end."""
        ...

    async def force_release(self) -> tuple[bool, bool]:
        """Free it; return whether anybody held it, and whether that was carried out once."""
        ...


class Courier(Protocol):
    """Gives the holds of one lock to other processes."""

    @property
    def database(self) -> str:
        """The number of its database: where equal keys are one key, on one server."""
        ...

    def hand_over(self, hold: Held, lease_time: float, change: Change, secret: str, /) -> Call:
        """Have a hold kept for whoever knows the secret, for so many seconds at least.

        The answer is the millisecond of the epoch until which it is kept; 0: it is not there; less:
        a later change was carried out before.
        """
        ...

    def adopt(self, request: Asked, giver: str, secret: str, until_ms: int, /) -> Call:
        """Ask for the hold of another owner.

        The answer is how many milliseconds it has left; for others see `handing_over`.
        """
        ...
