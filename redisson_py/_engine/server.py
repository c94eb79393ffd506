"""What the engine needs of a server, whichever it is: requests in order, and their answers.

`_commands`, `_scripts` and `_stream` are this for Redis, `_stores` for the other stores. The engine
imports none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from redisson_py._answers import Answer, RefusedError
from redisson_py._loop import Future
from redisson_py.errors import BackendError, ConnectionLostError

if TYPE_CHECKING:
    from redisson_py._engine.hold import Hold


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
    def splits(self) -> bool:
        """Whether it fails at once where requests for single keys would be served."""
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


class Subscription(Protocol):
    """A SUBSCRIBE or UNSUBSCRIBE on its way."""

    @property
    def channel(self) -> bytes | None: ...
    @property
    def subscribes(self) -> bool: ...
    @property
    def is_over(self) -> bool:
        """Whether it was answered, or its connection broke."""
        ...

    @property
    def why_not(self) -> str:
        """The last refusal, or nothing."""
        ...


class Source(Protocol):
    """Where the messages of a channel come from."""

    def subscribe(self, channel: bytes, /) -> Subscription | None:
        """Listen to a channel; return the command, if one was sent."""
        ...

    def unsubscribe(self, channel: bytes, /) -> object: ...


class Sources(Protocol):
    """Says where the messages of each channel come from."""

    def stream_for(self, channel: bytes, /) -> Source: ...


class Stream(Protocol):
    """The way to the server of a key."""

    @property
    def ready(self) -> bool:
        """Whether there is a connection."""
        ...

    @property
    def can_begin(self) -> bool:
        """Whether a grant may be asked for without waiting for anything first."""
        ...

    @property
    def has_room(self) -> bool:
        """Whether there is a connection, and what is sent now is written at once."""
        ...

    @property
    def full(self) -> bool:
        """Whether callers should wait for room before they send more."""
        ...

    async def room(self, deadline: float, /) -> None: ...
    def send(self, call: Any, /) -> Any: ...
    def probe(self) -> None:
        """Make the server answer something soon, unless an answer is due anyway."""

    async def answered_at(self, moment: float, /) -> bool:
        """Return whether the server answers at a moment that has come, in loop time."""
        ...

    def no_answer(self, *, maybe_held: bool) -> ConnectionLostError:
        """Return the error of a caller whose deadline passed."""
        ...


class Router(Protocol):
    """The ways to the servers."""

    def stream_for(self, key: bytes, /) -> Stream: ...
    def group(self, key: bytes, /) -> int:
        """Return a number that is the same for keys one request may be about."""
        ...


class Executor(Protocol):
    """Sends requests.

    Attributes:
        command_timeout: Seconds to wait for the server while it does not answer.
        confirms: Whether grants count only when replicas have confirmed them.
        loop: The event loop to which the client belongs, or None.
        time: The clock of that loop.
        new_call: Makes a call of what is packed: its arguments are those of `_stream.call.Call`.
        unconfirmed: Makes the future of a call that may grant something.
    """

    command_timeout: float
    confirms: bool
    loop: object
    time: Callable[[], float]

    @property
    def new_call(self) -> Callable[..., Any]: ...
    @property
    def unconfirmed(self) -> Callable[[Callable[[Any], bool]], Future[Any]]: ...
    @property
    def router(self) -> Router: ...

    def limit(self, deadline: float | None = None, /) -> float:
        """Return until when a call waits while the server does not answer, in loop time."""
        ...

    async def explain(self, call: Any, error: RefusedError, /) -> BackendError:
        """Return the error for the caller of a refused call, with what the server can add to it."""
        ...

    def pack(self, script: Any, args: Any, /) -> Any:
        """Return a call of a script with these arguments, ready to be sent."""
        ...

    def start_packed(
        self,
        script: Any,
        key: bytes,
        call: Any,
        deadline: float | None = None,
        must: bool = False,
        until: float = 0.0,
    ) -> Call:
        """Send what was packed; with `must` it has to arrive even if nobody waits for it."""
        ...

    def start_grant(
        self,
        script: Any,
        key: bytes,
        call: Any,
        gives: Callable[[Any], bool],
        deadline: float | None = None,
        must: bool = False,
        until: float = 0.0,
    ) -> Call:
        """As `start_packed`, in order with all grants; what it `gives` must be confirmed."""
        ...

    def start_in_line(
        self,
        script: Any,
        key: bytes,
        call: Any,
        deadline: float | None = None,
        must: bool = False,
        until: float = 0.0,
    ) -> Call:
        """As `start_packed`, in order with all grants, although it grants nothing itself."""
        ...

    def renew(
        self, holds: Sequence[Hold], lease_time: float, seconds: float, *, splits: bool
    ) -> Call:
        """Renew holds of one kind and group to a lease; 0 only checks that they are there.

        The answer says for each hold whether it is there. The call is given up after `seconds`.
        """
        ...

    def denied(self, call: Call, holds: Sequence[Hold], /) -> Sequence[Hold]:
        """Return the holds of which the server said that they are gone, in a call that failed."""
        ...


class Packed(Protocol):
    """A call that was packed in advance, except for a key and a field."""

    def __getitem__(self, length: int, /) -> Callable[[bytes, bytes], Any]: ...


class PlainCalls(Protocol):
    """The two calls of an uncontended pair, packed in advance."""

    @property
    def acquire(self) -> Packed: ...
    @property
    def release(self) -> Packed: ...
    @property
    def lease_time(self) -> float: ...


class ClientQueue(Protocol):
    """The queue of the clients that wait for one thing, on its server."""

    leave_script: Any

    def member(self, client_id: str, /) -> bytes:
        """Return the name of a client in the queue."""
        ...

    def channel(self, client_id: str, /) -> bytes:
        """Return the channel on which a client hears that it is called."""
        ...

    def leave(self, client_id: str, /) -> Any:
        """Return the arguments of the request that takes a client out of the queue."""
        ...


class Commands(Protocol):
    """The requests about one name: arguments in, answers out.

    Attributes:
        kind: Its name for people.
        queues: The server keeps a queue of the waiters, each with a channel of its own.
        shares_lease: Other owners may shorten what keeps a hold, so each hold is checked.
        leaves_traces: A hold whose lease has ended remains until its owner removes it.
    """

    kind: str
    acquire_script: Any
    release_script: Any
    set_lease_script: Any
    renew_script: Any
    queues: bool
    shares_lease: bool
    leaves_traces: bool

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
    def acquire(self, wish: Any, /) -> Any: ...
    def answer(self, reply: Any, wish: Any, /) -> Answer: ...
    def release(
        self,
        hold: Any,
        target: int,
        lease_ms: int,
        tombstone_ms: int,
        version: int,
        version_ms: int,
        /,
    ) -> Any: ...
    def undo(self, wish: Any, tombstone_ms: int, version: int, version_ms: int, /) -> Any: ...
    def set_lease(self, hold: Any, lease_ms: int, version: int, version_ms: int, /) -> Any: ...
    def was_lost(self, reply: Any, /) -> bool:
        """Return whether a final release did not find its hold in force."""
        ...


class LockCommands(Commands, Protocol):
    """The requests about one lock.

    Attributes:
        tokens: How many fencing tokens a grant brings.
    """

    tokens: int

    @property
    def hold_kind(self) -> str:
        """The kind of what has the same holds under one key: a lock and its fenced lock."""
        ...


class View(Protocol):
    """Looks at one lock on its server, and frees it by force."""

    @property
    def keys(self) -> Sequence[bytes]:
        """Where it is kept. Two locks with a key in common are one, or get in each other's way."""
        ...

    async def look(self) -> bool:
        """Return whether anybody holds it, or fail with the first attempt to connect that fails."""
        ...

    async def locked(self) -> bool:
        """Return whether anybody holds it."""
        ...

    async def count_of(self, hold: Hold, /) -> int:
        """Return the hold count of a hold; 0 if it is not there."""
        ...

    async def is_there(self, hold: Hold, /) -> bool:
        """Return whether a hold is there."""
        ...

    async def remaining(self) -> float | None:
        """Return the seconds left of its lease; None when it is free, infinity without an end."""
        ...

    async def force_release(self) -> tuple[bool, bool]:
        """Free it; return whether anybody held it, and whether that was carried out once."""
        ...
