"""Listeners: the events, the protocol, and the calls of its methods."""

from __future__ import annotations

import inspect
import itertools
import logging
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol, TypeVar, final

log = logging.getLogger("redisson_py")

#: Numbers acquisitions; called only for a listener.
new_acquisition = itertools.count(1).__next__

LossReason = Literal["expired", "ended", "taken", "forced", "abandoned"]
WaitOutcome = Literal["granted", "timeout", "cancelled", "failed"]


@dataclass(frozen=True, slots=True)
class AcquiredEvent:
    """A lease was acquired: granted by the server, passed inside this process, or re-entered.

    Exactly one `ReleasedEvent` or `LostEvent` follows.

    Attributes:
        name: The resource name.
        kind: The kind of primitive, such as `"lock"` or `"semaphore"`.
        owner: The owner on the server: the client's id and a number.
        token: The fencing token of a fenced lock, else None.
        waited: Seconds that the caller waited; 0.0 if it did not wait.
        acquisition: The number of this acquisition, unique in this process; the event that ends it
            has the same number. Ignored by comparisons.
        system: The store: `"redis"`, `"postgresql"`, `"mysql"`, `"etcd"` or `"zookeeper"`; for a
            composite, its first member's. Ignored by comparisons.
    """

    name: str | bytes
    kind: str
    owner: str
    token: int | None
    waited: float
    acquisition: int = field(default=0, compare=False)
    system: str = field(default="redis", compare=False)


@dataclass(frozen=True, slots=True)
class WaitStartedEvent:
    """A caller starts to wait: the server answered busy, or other tasks of this client are ahead.

    Attributes:
        name: The resource name.
        kind: The kind of primitive.
    """

    name: str | bytes
    kind: str


@dataclass(frozen=True, slots=True)
class WaitEndedEvent:
    """A wait is over; the `AcquiredEvent` of a lock or semaphore follows if it was granted.

    Attributes:
        name: The resource name.
        kind: The kind of primitive.
        waited: Seconds since the wait started.
        outcome: `"granted"` (acquired; a latch is open, a barrier complete), `"timeout"` (it
            stayed busy until the caller's timeout), `"cancelled"`, or `"failed"` (any error: no
            answer from the server, a refusal, a broken barrier, a closed client).
        system: As in `AcquiredEvent`. Ignored by comparisons.
    """

    name: str | bytes
    kind: str
    waited: float
    outcome: WaitOutcome
    system: str = field(default="redis", compare=False)


@dataclass(frozen=True, slots=True)
class ReleasedEvent:
    """An acquisition was released, or passed to another task of this client.

    It comes when the server has answered, or when the caller gets an error because it did not
    answer. If the server reports that the lease was already gone, a `LostEvent` comes instead.

    Attributes:
        name: The resource name.
        kind: The kind of primitive.
        owner: The owner on the server.
        token: The fencing token of a fenced lock, else None.
        held_for: Seconds from the grant to the call that released it.
        acquisition: That of its `AcquiredEvent`. Ignored by comparisons.
    """

    name: str | bytes
    kind: str
    owner: str
    token: int | None
    held_for: float
    acquisition: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class LostEvent:
    """A lease ended before its holder released it.

    Attributes:
        name: The resource name.
        kind: The kind of primitive.
        owner: The owner on the server.
        token: The fencing token of a fenced lock, else None.
        held_for: Seconds from the grant to the loss.
        reason: As in `LeaseLostError.reason`, or `"abandoned"`: its task has ended and nothing
            can release it, so it is no longer renewed.
        acquisition: That of its `AcquiredEvent`. Ignored by comparisons.
    """

    name: str | bytes
    kind: str
    owner: str
    token: int | None
    held_for: float
    reason: LossReason
    acquisition: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class RenewedLateEvent:
    """A renewal was confirmed when less than a third of the lease was left.

    A renewal is due when a third of the lease has passed, so this one was late by more than
    another third. One more third and the lease would have been lost.

    Attributes:
        name: The resource name.
        kind: The kind of primitive.
        owner: The owner on the server.
        late: Seconds from the moment it was due to its confirmation.
        remaining: Seconds for which the holder could still rely on the lease at that moment.
    """

    name: str | bytes
    kind: str
    owner: str
    late: float
    remaining: float


@dataclass(frozen=True, slots=True)
class ConnectionLostEvent:
    """An outage started: the connection broke, or the first attempt to connect failed.

    Attributes:
        where: The address of the server.
        why: The reason, as text.
    """

    where: str
    why: str


@dataclass(frozen=True, slots=True)
class ConnectionRestoredEvent:
    """An outage is over: a connection is ready.

    Attributes:
        where: The address of the server.
        away: Seconds since the outage began.
    """

    where: str
    away: float


class Listener(Protocol):
    """The type of `Redisson(..., listener=...)`: it gets an event for each thing the client does.

    The client calls each method with one event, without `await`, on its event loop, in the middle
    of its work: return soon, and do not block. If a method raises, no caller sees the error; the
    first error of each method is logged as an ERROR with its traceback, the others as DEBUG.

    Use any class with all these methods, or subclass this one, whose methods do nothing, and
    override those you need. One object may listen to several clients; `Listeners` lets several
    objects listen to one.

    Locks and semaphores report all of these events; latches and barriers report waits only. A
    composite lock reports to the client of the member that sorts first by name and server. Each
    member also reports its acquisitions, releases and losses to its own client, but not its waits.
    """

    def acquired(self, event: AcquiredEvent, /) -> None:
        """A lease was acquired."""
        return

    def wait_started(self, event: WaitStartedEvent, /) -> None:
        """A caller starts to wait."""
        return

    def wait_ended(self, event: WaitEndedEvent, /) -> None:
        """A wait is over."""
        return

    def released(self, event: ReleasedEvent, /) -> None:
        """An acquisition was released."""
        return

    def lost(self, event: LostEvent, /) -> None:
        """A lease ended before it was released."""
        return

    def renewed_late(self, event: RenewedLateEvent, /) -> None:
        """A renewal was confirmed with less than a third of the lease left."""
        return

    def connection_lost(self, event: ConnectionLostEvent, /) -> None:
        """An outage started."""
        return

    def connection_restored(self, event: ConnectionRestoredEvent, /) -> None:
        """An outage is over."""
        return


METHODS = tuple(name for name in vars(Listener) if not name.startswith("_"))

L = TypeVar("L", bound=Listener)


def check_listener(listener: L) -> L:
    """Return the listener.

    Raises:
        TypeError: It is a class, it lacks a method, or one of its methods is `async`.
    """
    if isinstance(listener, type):
        raise TypeError(f"listener must be an instance, not the class {listener.__qualname__}")
    missing = [name for name in METHODS if not callable(getattr(listener, name, None))]
    kind = type(listener).__qualname__
    if missing:
        raise TypeError(
            f"listener must have the methods of redisson_py.Listener: {kind} lacks"
            f" {', '.join(missing)}"
        )
    for name in METHODS:
        if inspect.iscoroutinefunction(getattr(listener, name)):
            raise TypeError(f"{kind}.{name} must not be async: listeners are called without await")
    return listener


@final
class Teller:
    """Calls a listener; its errors are logged and not raised."""

    __slots__ = ("_failed", "_listener")

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        #: The methods that have raised an error.
        self._failed: set[str] = set()

    def tell(self, method: str, event: Any) -> None:
        """Call one method with its event."""
        try:
            getattr(self._listener, method)(event)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            # A cancellation raised by the listener is not one of the current task.
            first = method not in self._failed
            self._failed.add(method)
            level = logging.ERROR if first else logging.DEBUG
            log.log(level, "the listener's %s raised an error", method, exc_info=True)


@final
class Listeners(Listener):
    """Several listeners as one: each gets every event, in the given order.

    If one raises an error, it is logged, and the others still get the event.

    Args:
        listeners: The listeners.

    Raises:
        TypeError: An argument is not a listener; see `Listener`.
    """

    def __init__(self, *listeners: Listener) -> None:
        self._tellers = [Teller(check_listener(each)) for each in listeners]
        for method in METHODS:
            setattr(self, method, partial(self._tell, method))

    def _tell(self, method: str, event: object) -> None:
        for teller in self._tellers:
            teller.tell(method, event)
